"""Exercises in the store: what a teacher set for a class, and the attempts of its students, each with its prediction,
its runs and its answers. The files of the exercises are read by `engine.exercises`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import ConfigError, Forbidden, StoreError, WrongStatus, counted
from engine.store.access.authorization import AccessReader, command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ALIVE, ENDED, Status
from engine.store.timestamps import in_minutes, now

AttemptState = Literal["predicted", "waiting", "running", "to hand in", "handed in"]
_ATTEMPT = (
    "SELECT attempts.*, (SELECT json_group_array(json_array(runs.id, runs.status, runs.sweep_id)) FROM attempt_runs"
    " JOIN runs ON runs.id = run_id WHERE attempt_id = attempts.id) AS runs FROM attempts"
)
NOT_OF_EXERCISES = (
    "runs.id NOT IN (SELECT run_id FROM attempts JOIN attempt_runs ON attempt_id = attempts.id"
    " WHERE exercise IN (SELECT value FROM json_each(?)))"
)
"""Condition on runs: of no attempt at the exercises of a JSON list of names."""


@dataclass(frozen=True)
class ExerciseState:
    """What a teacher set for an exercise; one that nobody set anything for is open, without a deadline."""

    name: str
    opened_by: str = ""
    """Empty for an exercise that was never opened for a class."""
    deadline: str | None = None
    closed_by: str = ""
    closed_at: str | None = None
    class_first: bool = False
    """Whether, while it is open, the runs of its class come before other queued ones."""

    @property
    def is_open(self) -> bool:
        """Whether attempts and hand-ins are accepted now."""
        return self.closed_at is None and (self.deadline is None or now() <= self.deadline)

    def refusal(self, what: str) -> str:
        """Return why `what`, such as 'an answer', is refused now, as a sentence; empty while it is accepted."""
        if self.is_open:
            return ""
        rule = f"was closed by {self.closed_by} at {in_minutes(self.closed_at or '')}"
        if self.closed_at is None:
            rule = f"had its deadline at {in_minutes(self.deadline or '')}"
        return f"This exercise {rule}, so {what} is not accepted any more. Ask your teacher to open it again."


@dataclass(frozen=True)
class ExerciseAttempt:
    """One attempt of a person, or of a group that shares it: the prediction, then the runs, then the answers."""

    id: int
    exercise: str
    """The name of its file, without `.md`."""
    head: Mapping[str, Any]
    """The head of the file as it was then; `engine.exercises.files.exercise_of` reads it."""
    people: tuple[str, ...]
    prediction: Any
    """A number, the names of the cells in order, or the points of a curve (`engine.exercises.outcome.Prediction`)."""
    predicted_at: str
    runs: Mapping[int, Status]
    """The status of each of its runs, in queue order; empty before the launch."""
    sweep_id: int | None
    drafts: tuple[str, ...]
    """Answers as typed, which the hand-in replaces."""
    answers: tuple[str, ...]
    """One per question; empty before the hand-in."""
    handed_in_by: str
    handed_in_at: str | None
    class_ended_at: str | None
    """When the class that it belongs to ended."""

    @property
    def title(self) -> str:
        """The title of the exercise as it was then."""
        return str(self.head.get("title", self.exercise))

    @property
    def has_ended(self) -> bool:
        """Whether it was launched and all its runs have ended."""
        return bool(self.runs) and all(status in ENDED for status in self.runs.values())

    @property
    def state(self) -> AttemptState:
        """How far it is; `waiting` with runs of which none has begun."""
        if self.handed_in_at:
            return "handed in"
        if not self.runs:
            return "predicted"
        if self.has_ended:
            return "to hand in"
        return "running" if any(status != "queued" for status in self.runs.values()) else "waiting"


class ExerciseReader:
    """Queries of exercises and attempts."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def states(self) -> dict[str, ExerciseState]:
        """Return what teachers set, by exercise; those that nobody set anything for are omitted."""
        sql = "SELECT name, opened_by, deadline, closed_by, closed_at, class_first FROM exercises ORDER BY name"
        return {state.name: state for state in self.db.records(ExerciseState, sql, [])}

    def state(self, name: str) -> ExerciseState:
        """Return what a teacher set for an exercise."""
        return self.states().get(name) or ExerciseState(name)

    def of_run(self, run_id: int) -> ExerciseAttempt | None:
        """Return the attempt that a run belongs to, if any."""
        row = self.db.row(f"{_ATTEMPT} WHERE id = (SELECT attempt_id FROM attempt_runs WHERE run_id = ?)", [run_id])
        return _as_attempt(row) if row else None

    def withholds(self, run_ids: Iterable[int]) -> bool:
        """Return whether pages give no explanation of some runs: one of them belongs to an attempt that can still be
        handed in, whose questions it would answer. One that was given up for a newer one can't.
        """
        rows = self.db.rows(
            "SELECT DISTINCT exercise FROM attempt_runs JOIN attempts AS one ON one.id = attempt_id"
            " WHERE handed_in_at IS NULL AND class_ended_at IS NULL AND run_id IN (SELECT value FROM json_each(?))"
            " AND NOT EXISTS (SELECT 1 FROM attempts AS newer WHERE newer.exercise = one.exercise AND newer.id > one.id"
            " AND newer.people = one.people AND newer.handed_in_at IS NOT NULL)",
            [json.dumps([*run_ids])],
        )
        return any(self.state(row["exercise"]).is_open for row in rows)

    def attempt(self, attempt_id: int) -> ExerciseAttempt:
        """Return one attempt; raises StoreError."""
        row = self.db.row(f"{_ATTEMPT} WHERE id = ?", [attempt_id])
        if row is None:
            raise StoreError(f"Attempt {attempt_id} doesn't exist. The page Exercises shows all attempts.")
        return _as_attempt(row)

    def attempts(
        self, *, exercise: str | None = None, person: str | None = None, earlier_classes: bool = False
    ) -> list[ExerciseAttempt]:
        """Return the attempts of the present class, oldest first, optionally of one exercise, of one person, or also of
        classes that have ended.
        """
        sql = (
            f"{_ATTEMPT} WHERE (?1 IS NULL OR exercise = ?1) AND (?3 OR class_ended_at IS NULL)"
            " AND (?2 IS NULL OR EXISTS (SELECT 1 FROM json_each(people) WHERE value = ?2)) ORDER BY id"
        )
        return [_as_attempt(row) for row in self.db.rows(sql, [exercise, person, earlier_classes])]

    def token(self) -> int:
        """Return a number that changes with exercises, attempts and the status of their runs, not with their progress:
        a whole class follows it.
        """
        places = " ".join(f"WHEN '{status}' THEN {place}" for place, status in enumerate(("queued", *ALIVE), 1))
        return self.db.number(
            "SELECT (SELECT count(*) + count(handed_in_at) + count(class_ended_at) FROM attempts)"
            " + (SELECT coalesce(sum(changes), 0) FROM exercises)"
            f" + (SELECT coalesce(sum(CASE status {places} ELSE 9 END), 0) FROM runs JOIN attempt_runs"
            " ON run_id = runs.id) AS n"
        )


def require_own(attempt: ExerciseAttempt, by: str) -> None:
    """Raise Forbidden if an attempt is not that of a person."""
    if by not in attempt.people:
        raise Forbidden(
            f"Attempt {attempt.id} is that of {', '.join(attempt.people)}; only they can launch it and hand it in."
        )


class ExerciseCommands:
    """Commands of exercises: a teacher's, and those of students on their attempts."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._read = ExerciseReader(db)

    @command("open exercise")
    def open(self, name: str, *, by: str, deadline: str | None = None, class_first: bool | None = None) -> None:
        """Open an exercise for a class, or open it again; the deadline, UTC in the store's format, and whether runs
        that the class launches from now on come before other queued ones, replace those before. None keeps the latter
        as it was, at first on.
        """
        sql = (
            "INSERT INTO exercises (name, opened_by, opened_at, deadline, class_first)"
            " VALUES (?1, ?2, ?3, ?4, coalesce(?5, 1)) ON CONFLICT DO UPDATE SET opened_by = ?2, opened_at = ?3,"
            " deadline = ?4, class_first = coalesce(?5, class_first), closed_by = '', closed_at = NULL,"
            " changes = changes + 1"
        )
        with self.db.change() as connection:
            connection.execute(sql, [name, by, now(), deadline, class_first])

    @command("close exercise")
    def close(self, name: str, *, by: str) -> None:
        """Close an exercise: new attempts, launches and hand-ins are refused. Repeating it changes nothing."""
        sql = (
            "INSERT INTO exercises (name, closed_by, closed_at) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE"
            " SET closed_by = ?2, closed_at = ?3, changes = changes + 1 WHERE closed_at IS NULL"
        )
        with self.db.change() as connection:
            connection.execute(sql, [name, by, now()])

    @command("predict")
    def predict(
        self,
        exercise: str,
        digest: str,
        head: Mapping[str, Any],
        prediction: Any,
        *,
        people: Sequence[str],
        by: str,
    ) -> int:
        """Begin an attempt with its prediction, which never changes; return its id.

        Raises WrongStatus if the exercise is closed, Forbidden if `by` is not among the people, ConfigError for a name
        without an active account in a lab with accounts.
        """
        with self.db.change():
            self._require_open(exercise, "a new attempt")
            access = AccessReader(self.db)
            if by not in people:
                raise Forbidden(f"{by} is not among the people of this attempt ({', '.join(people)}). Add your name.")
            if unknown := next((name for name in people if access.standing(name).role is None), None):
                sentence = f"{unknown} has no active account in this lab. Write the names as on the page People."
                raise ConfigError.of("people", sentence)
            return self.db.insert(
                "attempts",
                {
                    "exercise": exercise,
                    "digest": digest,
                    "head": json.dumps(head),
                    "people": json.dumps(list(people)),
                    "prediction": json.dumps(prediction),
                    "predicted_by": by,
                    "predicted_at": now(),
                },
            )

    @command("hand in", is_recorded=lambda _: False)
    def draft(self, attempt_id: int, at: int, text: str, *, by: str) -> None:
        """Keep a typed answer, to the question number `at` from 0, until the hand-in; raises Forbidden."""
        with self.db.change() as connection:
            attempt = self._read.attempt(attempt_id)
            require_own(attempt, by)
            drafts = [*attempt.drafts, *[""] * (at + 1 - len(attempt.drafts))]
            drafts[at] = text
            sql = "UPDATE attempts SET answers = ? WHERE id = ? AND handed_in_at IS NULL"
            connection.execute(sql, [json.dumps(drafts), attempt_id])

    @command("hand in")
    def hand_in(self, attempt_id: int, answers: Sequence[str], *, by: str) -> None:
        """Hand in the answers of an attempt whose runs have ended, for all its people.

        Raises Forbidden if it is another person's, WrongStatus if it was handed in before or has no ended runs, and
        when the exercise is closed.
        """
        with self.db.change() as connection:
            attempt = self._read.attempt(attempt_id)
            require_own(attempt, by)
            if attempt.handed_in_at:
                raise WrongStatus(
                    f"Attempt {attempt_id} was handed in by {attempt.handed_in_by} at {attempt.handed_in_at} and can't"
                    " be changed. Begin another attempt."
                )
            self._require_open(attempt.exercise, "an answer")
            if not attempt.has_ended:
                left = counted(sum(status not in ENDED for status in attempt.runs.values()), "run")
                why = f"it has {left} to end" if attempt.runs else "it was not launched"
                raise WrongStatus(
                    f"Attempt {attempt_id} can't be handed in: {why}. Hand it in after the end of its runs."
                )
            connection.execute(
                "UPDATE attempts SET answers = ?, handed_in_by = ?, handed_in_at = ? WHERE id = ?",
                [json.dumps(list(answers)), by, now(), attempt_id],
            )

    @command("end class")
    def end_class(self, *, by: str, exercises: Collection[str] | None = None) -> list[ExerciseAttempt]:
        """Close all exercises or those named, which nobody has opened any more then, and put their attempts away;
        return these.
        """
        attempts = [each for each in self._read.attempts() if exercises is None or each.exercise in exercises]
        closed = [name for name in self._read.states() if exercises is None or name in exercises]
        with self.db.change() as connection:
            connection.execute(
                "UPDATE exercises SET opened_by = '', closed_by = ?, closed_at = ?, changes = changes + 1"
                " WHERE name IN (SELECT value FROM json_each(?))",
                [by, now(), json.dumps(closed)],
            )
            connection.execute(
                "UPDATE attempts SET class_ended_at = ? WHERE id IN (SELECT value FROM json_each(?))",
                [now(), json.dumps([each.id for each in attempts])],
            )
        return attempts

    def _require_open(self, exercise: str, what: str) -> None:
        if refusal := self._read.state(exercise).refusal(what):
            raise WrongStatus(refusal)


def _as_attempt(row: Row) -> ExerciseAttempt:
    same = "id exercise predicted_at handed_in_by handed_in_at class_ended_at"
    runs, typed = sorted(json.loads(row["runs"])), tuple(json.loads(row["answers"]))
    return ExerciseAttempt(
        **{name: row[name] for name in same.split()},
        head=json.loads(row["head"]),
        people=tuple(json.loads(row["people"])),
        prediction=_as_tuples(json.loads(row["prediction"])),
        drafts=typed,
        answers=typed if row["handed_in_at"] else (),
        runs={run_id: status for run_id, status, _ in runs},
        sweep_id=next((sweep for _, _, sweep in runs if sweep is not None), None),
    )


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


# ---- Runs of attempts: their launch, and their turns in the queue ---------------------------------------------------
# The queue is ordered by priority and place (engine/store/queue/queue.py); a run of an attempt gets its place here.


class LaunchChecks:
    """What an attempt requires of its launch; checked within the change that queues its runs."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._read = ExerciseReader(db)

    def require(self, attempt_id: int, owner: str) -> None:
        """Raise Forbidden or WrongStatus if a person may not launch an attempt now."""
        attempt = self._read.attempt(attempt_id)
        require_own(attempt, owner)
        if attempt.runs:
            raise WrongStatus(f"Attempt {attempt_id} was launched before. Begin another attempt with a new prediction.")
        if refusal := self._read.state(attempt.exercise).refusal("a launch"):
            raise WrongStatus(refusal)

    def keep(self, run_id: int, attempt_id: int | None, sweep_id: int | None, parent_id: int | None) -> None:
        """Note that a new run belongs to an attempt, to this one or to that of its sweep or of the run that it repeats,
        and give it its turn; nothing for any other run.
        """
        sql = (
            "INSERT INTO attempt_runs (run_id, attempt_id) SELECT ?1, id FROM attempts WHERE id = coalesce(?2,"
            " (SELECT attempt_id FROM attempt_runs"
            " WHERE run_id IN ((SELECT min(id) FROM runs WHERE sweep_id = ?3), ?4) LIMIT 1))"
        )
        if self.db.connection.execute(sql, [run_id, attempt_id, sweep_id, parent_id]).rowcount:
            attempt = self._read.of_run(run_id)
            state = self._read.state(attempt.exercise if attempt else "")
            if state.class_first and state.is_open and (attempt_id or parent_id):  # not what extends a sweep
                _go_first(self.db, run_id)
            _take_turn(self.db, run_id)


def _go_first(db: WriteConnection, run_id: int) -> None:
    """Move the queued runs of classes that go first before all others of the priority of a new run, in their order,
    within the change that queues it.
    """
    of = "FROM runs WHERE status = 'queued' AND priority = (SELECT priority FROM runs WHERE id = ?1)"
    mine = (
        "id IN (SELECT run_id FROM attempt_runs JOIN attempts ON attempts.id = attempt_id"
        " JOIN exercises ON name = exercise WHERE class_first)"
    )
    last, first = f"max(place) FILTER (WHERE {mine})", f"min(place) FILTER (WHERE NOT {mine})"
    behind = db.number(f"SELECT {last} - {first} + 1 AS n {of}", [run_id])
    if behind > 0:
        sql = f"UPDATE runs SET place = place - ?2 WHERE id IN (SELECT id {of} AND {mine})"
        db.connection.execute(sql, [run_id, behind])


def _take_turn(db: WriteConnection, run_id: int) -> None:
    """Give a new run of an exercise its turn, within the change that queues it: a person's second run waits for the
    first one of everybody.

    It moves behind the last run of its round, counted from the runs that its owner has queued or live, and the runs of
    exercises behind it move back by one of their places; all other runs keep theirs. What a person moved stays where it
    is, relative to the others.
    """
    of = "FROM runs JOIN attempt_runs ON run_id = runs.id WHERE"
    queued = db.rows(
        f"SELECT id, owner, place {of} status = 'queued' AND priority = (SELECT priority FROM runs WHERE id = ?)"
        " ORDER BY place",
        [run_id],
    )
    rounds = Counter(db.column(f"SELECT owner {of} status IN (SELECT value FROM json_each(?))", [json.dumps(ALIVE)]))
    before, round_of = list[int](), dict[int, int]()
    for row in queued:
        rounds[row["owner"]] += 1
        round_of[row["id"]] = rounds[row["owner"]]
        if row["id"] != run_id:
            before.append(row["id"])
    at = max((place for place, each in enumerate(before, 1) if round_of[each] <= round_of[run_id]), default=0)
    places = {row["id"]: row["place"] for row in queued}
    turns = [*before[:at], run_id, *before[at:]]
    for each, place in zip(turns, sorted(places.values()), strict=True):
        if places[each] != place:
            db.connection.execute("UPDATE runs SET place = ? WHERE id = ?", [place, each])
