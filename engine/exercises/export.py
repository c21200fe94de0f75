"""The export of a class: a row per person and exercise as CSV, and a bundle of its runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from engine.exercises.files import exercise_of
from engine.exercises.outcome import Distance, Measured, Prediction, distance, measured
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from engine.store.records import ENDED
from engine.store.timestamps import now
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.tables import Table, as_csv

COLUMNS = (
    *("person", "exercise", "title", "group", "attempts", "state", "prediction", "result"),
    *("distance", "distance_share", "answers", "runs", "settings"),
    *("execution_time_s", "predicted_at", "handed_in_at"),
)


def latest(attempts: Sequence[ExerciseAttempt]) -> dict[tuple[str, str], list[ExerciseAttempt]]:
    """Return the attempts of each person and exercise, the one that counts last: the newest handed in, else the
    newest.
    """
    found: dict[tuple[str, str], list[ExerciseAttempt]] = {}
    for attempt in attempts:
        for name in attempt.people:
            found.setdefault((name, attempt.exercise), []).append(attempt)
    return {key: sorted(own, key=lambda each: (bool(each.handed_in_at), each.id)) for key, own in sorted(found.items())}


def outcomes(reader: Reader, attempts: Sequence[ExerciseAttempt]) -> dict[int, tuple[Measured, Distance | None]]:
    """Return what each attempt measured, by its id, and its prediction's distance, None while there is no result."""
    found: dict[int, tuple[Measured, Distance | None]] = {}
    for attempt in attempts:
        result = measured(reader, attempt)
        found[attempt.id] = result, None if result.value is None else distance(attempt.prediction, result.value)
    return found


def class_csv(reader: Reader, attempts: Sequence[ExerciseAttempt]) -> bytes:
    """Return a CSV file that spreadsheets open safely: a row per person and exercise, of the attempt that counts; also
    of each member of the class who has not begun an exercise of it. Answers are numbered: one may have several lines.
    """
    counting = latest(attempts)
    found = outcomes(reader, list({own[-1].id: own[-1] for own in counting.values()}.values()))
    rows = list[tuple[object, ...]]()
    for (person, name), own in counting.items():
        attempt = own[-1]
        exercise, (result, apart) = exercise_of(name, attempt.head), found[attempt.id]
        runs = reader.runs.some(list(attempt.runs))
        rows.append(
            (
                *(person, name, exercise.title, ", ".join(attempt.people) if len(attempt.people) > 1 else "", len(own)),
                *(attempt.state, _written(attempt.prediction), _written(result.value)),
                *(apart.words if apart else "", apart.share if apart else None),
                "\n".join(f"{at}. {answer}" for at, answer in enumerate(attempt.answers, 1)),
                " ".join(map(str, attempt.runs)),
                _settings(runs[0].config if runs else {}, exercise.sweep),
                " ".join(f"{run.execution_time_s:.4g}" for run in runs if run.execution_time_s is not None),
                *(attempt.predicted_at, attempt.handed_in_at or ""),
            )
        )
    empty = [""] * (len(COLUMNS) - 6)
    for name, title, ended_at in {(each.exercise, each.title, each.class_ended_at): None for each in attempts}:
        for member in members(reader, ended_at):
            if (member, name) not in counting:
                counting[member, name] = []
                rows.append((member, name, title, "", 0, "waiting for prediction", *empty))
    return as_csv(Table(COLUMNS, sorted(rows, key=lambda row: (str(row[0]), str(row[1])))))


def members(reader: Reader, ended_at: str | None = None) -> list[str]:
    """Return the members that a lab has now, or had when a class ended, which may have disabled their accounts."""
    at = ended_at or now()
    return [
        one.name
        for one in reader.people.everyone()
        if one.role == "member" and one.created_at <= at and (one.active or (one.disabled_at or "") >= at)
    ]


def class_bundle(reader: Reader, attempts: Sequence[ExerciseAttempt], file: Path | IO[bytes], *, by: str) -> int:
    """Write a bundle of the class's ended runs and return their number; raises ConfigError without one."""
    ended = [run_id for attempt in attempts for run_id, status in attempt.runs.items() if status in ENDED]
    write_bundle(reader, ended, file, by=by)
    return len(ended)


def _written(value: Prediction | None) -> str | float | None:
    if value is None or isinstance(value, int | float):
        return value
    return ", ".join(each if isinstance(each, str) else f"{each[0]:g}: {each[1]:.6g}" for each in value)


def _settings(config: Mapping[str, object], but: Mapping[str, object]) -> str:
    return json.dumps({name: value for name, value in config.items() if name not in but}) if config else ""
