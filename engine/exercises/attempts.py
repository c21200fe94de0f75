"""The student's way (predict, launch, hand in) and the teacher's (open, close, end a class), for page and command
line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from engine.commands.accounts import disable_account
from engine.errors import ConfigError, Forbidden, WrongStatus
from engine.exercises.catalogue import ExerciseCatalogue
from engine.exercises.files import Exercise, exercise_of
from engine.exercises.outcome import checked_prediction
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, launch, owner_of, rehearse
from engine.store import Launch, Reader, Store
from engine.store.exercises import ExerciseAttempt
from engine.store.records import ENDED
from engine.store.runs.commands import checked_text
from engine.store.timestamps import in_minutes, in_seconds, now
from engine.sweep.launch import launch_sweep, rehearse_sweep

MOST_PEOPLE = 10
ANSWER_LENGTH = 5_000


def predict(home: Home, exercise: Exercise, prediction: Any, *, people: Sequence[str] = (), by: str) -> int:
    """Begin an attempt with a prediction and return its id; `people` are the others of a group that shares it.

    Raises ConfigError for an invalid prediction or name, WrongStatus if the exercise is closed, Forbidden.
    """
    value = checked_prediction(exercise, prediction)
    names = tuple(dict.fromkeys(map(owner_of, (by, *people))))
    if len(names) > MOST_PEOPLE:
        raise ConfigError.of("people", f"A group must have at most {MOST_PEOPLE} people, got {len(names)}. Make two.")
    with Store.open(home, timeout_s=PAGE_TIMEOUT_S) as store:
        return store.exercises.predict(exercise.name, exercise.digest, exercise.head, value, people=names, by=names[0])


def launch_attempt(home: Home, attempt_id: int, changes: Mapping[str, Any], *, by: str) -> ExerciseAttempt:
    """Launch an attempt with the settings that a student changed, by the path of every launch; return it with its runs.
    An attempt that was launched before is returned as it is.

    Raises ConfigError for a change that is not allowed, Forbidden, LimitReached, WrongStatus, DeviceError.
    """
    with Reader.open(home, timeout_s=PAGE_TIMEOUT_S) as reader:
        attempt = reader.exercises.attempt(attempt_id)
        if attempt.runs:
            return attempt
        own = reader.exercises.attempts(exercise=attempt.exercise, person=by)
        number = sum(each.id <= attempt_id for each in own)
        asked = exercise_of(attempt.exercise, attempt.head).launch(by, attempt_id, changes, number=number)
        try:
            launch(home, asked) if isinstance(asked, Launch) else launch_sweep(home, asked)
        except WrongStatus:  # of a second press at the same moment
            if not reader.exercises.attempt(attempt_id).runs:
                raise
        return reader.exercises.attempt(attempt_id)


def rehearse_exercise(home: Home, exercise: Exercise, *, by: str, changes: Mapping[str, Any] | None = None) -> int:
    """Return the number of runs that an attempt would queue, and queue nothing; raises what its launch raises."""
    asked = exercise.launch(by, None, changes or {})
    return len([rehearse(home, asked)] if isinstance(asked, Launch) else rehearse_sweep(home, asked))


def hand_in(home: Home, attempt_id: int, answers: Sequence[str], *, by: str) -> None:
    """Hand in an attempt for all its people, with an answer per question.

    Raises ConfigError for a missing or too long answer, and what `ExerciseCommands.hand_in` raises.
    """
    with Reader.open(home, timeout_s=PAGE_TIMEOUT_S) as reader:
        attempt = reader.exercises.attempt(attempt_id)
    questions = exercise_of(attempt.exercise, attempt.head).questions
    given = [checked_text(f"answer {at}", answer, ANSWER_LENGTH) for at, answer in enumerate(answers, 1)]
    if len(given) != len(questions) or not all(given):
        count = sum(map(bool, given))
        sentence = (
            f"Each of the {len(questions)} questions must have an answer, got {count}. Answer the others, then hand in."
        )
        raise ConfigError.of("answers", sentence)
    with Store.open(home, timeout_s=PAGE_TIMEOUT_S) as store:
        store.exercises.hand_in(attempt_id, given, by=by)


# ---- The teacher's way ----------------------------------------------------------------------------------------------


def open_exercise(home: Home, name: str, *, by: str, deadline: str = "", class_first: bool | None = None) -> None:
    """Open an exercise of the catalogue for a class, or set another deadline: a time such as `2026-05-04 16:00`, in UTC
    unless it names its zone; empty for none. With `class_first`, runs of the class come before other queued
    ones; None keeps it as it was, at first on.

    Raises UnknownName, ConfigError for a broken file or an invalid or past deadline, Forbidden.
    """
    ExerciseCatalogue(home).exercise(name)
    until = _deadline(deadline) if deadline.strip() else None
    with Store.open(home, timeout_s=PAGE_TIMEOUT_S) as store:
        store.exercises.open(name, by=owner_of(by), deadline=until, class_first=class_first)


def close_exercise(home: Home, name: str, *, by: str) -> None:
    """Close an exercise of the catalogue; raises UnknownName, Forbidden."""
    ExerciseCatalogue(home).exercise(name)
    with Store.open(home, timeout_s=PAGE_TIMEOUT_S) as store:
        store.exercises.close(name, by=owner_of(by))


def _deadline(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError.of(
            "deadline", f"The deadline must be a time such as 2026-05-04 16:00, got '{text[:40]}'. Write it so."
        ) from None
    at = in_seconds(0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat())
    if at <= in_seconds(0):
        raise ConfigError.of(
            "deadline",
            f"The deadline must be later than now ({in_minutes(now())}), got {in_minutes(at)}. Give a later time.",
        )
    return at


@dataclass(frozen=True)
class ClassEnd:
    """What the end of a class did."""

    attempts: tuple[ExerciseAttempt, ...]
    archived: int
    """Number of archived runs."""
    cancelled: int
    """Number of runs that were cancelled as they had not ended; those that were running end within seconds."""
    disabled: tuple[str, ...]
    """People whose accounts were disabled."""


def end_class(
    home: Home,
    *,
    by: str,
    also: Sequence[str] = (),
    keep_accounts: bool = False,
    exercises: Collection[str] | None = None,
) -> ClassEnd:
    """End the class: close its exercises, cancel its waiting and running runs, archive the ended ones, and disable the
    accounts of its people, members only, unless `keep_accounts`.

    Its people are those of its attempts and `also`, such as those of its list who never began; `exercises` are those
    that it worked on, None for all. Export it before or after: attempts and runs stay. One transaction. Raises
    Forbidden, ConfigError for an unknown name in `also`, or for `also` with `keep_accounts`.
    """
    if keep_accounts and also:
        raise ConfigError.of("also", f"also must be empty if accounts are kept, got {also[0]}. Leave out one of both.")
    with Store.open(home, timeout_s=PAGE_TIMEOUT_S) as store, store.db.change():
        attempts = store.exercises.end_class(by=by, exercises=exercises)
        runs = {run_id: status for attempt in attempts for run_id, status in attempt.runs.items()}
        left = [run_id for run_id, status in runs.items() if status not in ENDED]
        for run_id in left:
            store.runs.cancel(run_id, by=by)
        ended = [run_id for run_id in runs if store.read.runs.one(run_id).status in ENDED]
        archived = store.annotations.archive(ended, by=by) if ended else []
        members = {each.name for each in store.read.people.everyone() if each.role == "member" and each.active}
        if unknown := next((name for name in also if name not in members), None):
            raise ConfigError.of("also", f"also must name members with an active account, got {unknown}.")
        people = dict.fromkeys([*(name for attempt in attempts for name in attempt.people), *also])
        disabled = [] if keep_accounts else [name for name in people if name in members]
        for name in disabled:
            disable_account(store, name, by=by)
    return ClassEnd(tuple(attempts), len(archived), len(left), tuple(disabled))


def require_teacher(reader: Reader, by: str) -> None:
    """Raise Forbidden if a person may not open exercises and see the whole class; in a lab without accounts everyone
    may.
    """
    if refusal := reader.access.standing(by).refusal("open exercise"):
        raise Forbidden(refusal)
