"""What the runs of an attempt measured, in the shape of the prediction, and the distance between the two."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any

import numpy as np

from engine.analysis.run_values import measured as undisturbed
from engine.analysis.run_values import number, split
from engine.config_values import value_in_words, values_in_words
from engine.errors import ConfigError
from engine.exercises.files import PROGRESS, Exercise, PredictionTask, exercise_of
from engine.metrics import metric
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from engine.store.records import ENDED, RunRow, is_complete

Points = tuple[tuple[float, float], ...]
Prediction = float | tuple[str, ...] | Points
"""A number; the names of the cells in order; or the points of a curve, x ascending, joined by straight lines."""
MOST_POINTS = 200
_OF_SUMMARY = {"min": "low", "max": "high"}


def checked_prediction(exercise: Exercise, given: Any) -> Prediction:
    """Return a prediction of an exercise from its JSON; raises ConfigError."""
    asked = exercise.predict
    if asked.kind == "order":
        names = given if isinstance(given, list | tuple) else []
        if sorted(map(str, names)) != sorted(exercise.cells):
            raise _wrong(f"the order must name each of {', '.join(exercise.cells)} once, got {_shown(given)}")
        return tuple(map(str, names))
    if asked.kind == "number":
        return _bounded(asked, given)
    points = given if isinstance(given, list | tuple) else []
    is_pair = all(isinstance(each, list | tuple) and len(each) == 2 for each in points)
    if not 2 <= len(points) <= MOST_POINTS or not is_pair:
        raise _wrong(f"the curve must have 2 to {MOST_POINTS} points, got {_shown(given)}")
    curve = tuple((_finite(x), _bounded(asked, y)) for x, y in points)
    if any(left >= right for (left, _), (right, _) in pairwise(curve)):
        raise _wrong("the points of the curve must go from left to right, each at another place")
    return curve


def _bounded(asked: PredictionTask, given: Any) -> float:
    value = _finite(given)
    low, high = (-math.inf if asked.low is None else asked.low), (math.inf if asked.high is None else asked.high)
    if not low <= value <= high:
        raise _wrong(f"{asked.label} must be from {low:g} to {high:g}, got {value:g}")
    return value


def _finite(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise _wrong(f"a value must be a number, got {_shown(given)}")
    return float(given)


def _wrong(what: str) -> ConfigError:
    return ConfigError.of("prediction", f"Prediction: {what}. Correct it, then predict again.")


def _shown(given: Any) -> str:
    return str(given)[:60] or "nothing"


# ---- Measured values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What the ended runs of an attempt measured."""

    value: Prediction | None
    """In the shape of the prediction; None while a cell has no value."""
    missing: tuple[str, ...]
    """Cells without a value: none of their runs has ended with one."""
    fewest: int
    """Runs of the cell that has the fewest with a value."""


def measured(reader: Reader, attempt: ExerciseAttempt) -> Measured:
    """Return what an attempt's runs measured: of each cell the mean over its runs that have ended, as Compare takes it.

    A cell counts runs that did not finish only if none did. A figure that depends on time leaves disturbed runs out
    where the cell was measured again.
    """
    exercise = exercise_of(attempt.exercise, attempt.head)
    asked, runs = exercise.predict, reader.runs.some(list(attempt.runs))
    if attempt.sweep_id is not None:
        runs = undisturbed(reader.sweeps.one(attempt.sweep_id), runs)
    cells: dict[str, list[RunRow]] = {name: [] for name in exercise.cells or ("",)}
    for run in runs:
        if run.status in ENDED:
            cells.get(values_in_words({name: run.config.get(name) for name in exercise.sweep}), []).append(run)
    counted = {name: [run for run in own if is_complete(run)] or own for name, own in cells.items()}
    values = _values(reader, asked, [run for own in counted.values() for run in own])
    held = {name: [values[run.id] for run in own if run.id in values] for name, own in counted.items()}
    means = {name: fmean(own) for name, own in held.items() if own}
    if asked.relative:
        base = means.get(next(iter(cells)), 0.0)
        means = {name: mean / base for name, mean in means.items()} if base else {}
    missing = tuple(name for name in cells if name not in means)
    return Measured(None if missing else _shaped(exercise, means), missing, min(map(len, held.values())))


def _values(reader: Reader, task: PredictionTask, runs: Sequence[RunRow]) -> dict[int, float]:
    if task.reaches is not None:
        better = metric(task.metric).better or "max"
        found = reader.studies.reached([run.id for run in runs], task.metric, task.reaches, better)
        return {run_id: time_s for run_id, (_, time_s) in found.items()}
    return {run.id: value for run in runs if (value := _value(reader, task, run)) is not None}


def _value(reader: Reader, task: PredictionTask, run: RunRow) -> float | None:
    found = split(task.of)
    if task.of == PROGRESS or task.rank is None or found is None:
        return 100 * run.progress if task.of == PROGRESS else number(run, task.of)
    name, way = found
    of_rank = (each for each in reader.details.summaries(run.id) if (each.metric, each.rank) == (name, task.rank))
    return next((getattr(each, _OF_SUMMARY.get(way, way)) for each in of_rank), None)


def _shaped(exercise: Exercise, means: Mapping[str, float]) -> Prediction:
    if exercise.predict.kind == "number":
        return [*means.values()][-1]
    if exercise.predict.kind == "order":
        return tuple(sorted(means, key=means.__getitem__, reverse=exercise.predict.first == "highest"))
    return tuple((x, means[name]) for x, name, _ in places(exercise))


def places(exercise: Exercise) -> list[tuple[float, str, str]]:
    """Return the places along x of a curve, ascending: the number that stands for each value of the sweep, the name of
    its cell, and its label.
    """
    values = exercise.sweep[exercise.axis]
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    stands = [float(value) if are_numbers else float(at) for at, value in enumerate(values)]
    return sorted(zip(stands, exercise.cells, map(value_in_words, values), strict=True))


# ---- Distance -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distance:
    """How far a prediction is from the result; 0 is exact."""

    share: float
    """number: difference / measured value. order: wrong pairs / all pairs. curve: mean difference / range."""
    words: str
    """Such as `12 % above`, `1 of 3 pairs in the wrong order`, `on average 8 % of the measured range apart`."""


def distance(prediction: Prediction, result: Prediction) -> Distance:
    """Return the distance between a prediction and a result of the same shape.

    number: the absolute difference relative to the measured value (1 for any difference from 0). order: the share of
    pairs of cells in the wrong order (Kendall's distance). curve: the mean absolute difference at the measured points,
    of the predicted line, which continues level beyond its ends, relative to the range of the measured values (of a
    level curve: to its height).
    """
    if isinstance(prediction, int | float) and isinstance(result, int | float):
        apart = abs(prediction - result)
        share = apart / abs(result) if result else float(apart > 0)
        side = "above" if prediction > result else "below"
        return Distance(share, f"{100 * share:.3g} % {side}" if apart else "exact")
    assert isinstance(prediction, tuple) and isinstance(result, tuple)
    if all(isinstance(each, str) for each in result):
        pairs = list(combinations(result, 2))
        wrong = sum(prediction.index(first) > prediction.index(then) for first, then in pairs)
        words = f"{wrong} of {len(pairs)} pairs in the wrong order" if wrong else "the measured order"
        return Distance(wrong / len(pairs) if pairs else 0.0, words)
    return _between_curves(prediction, result)  # type: ignore[arg-type]


def _between_curves(prediction: Points, result: Points) -> Distance:
    drawn = np.interp([x for x, _ in result], [x for x, _ in prediction], [y for _, y in prediction])
    values = [y for _, y in result]
    scale = max(values) - min(values) or max(map(abs, values)) or 1.0
    share = fmean(abs(here - y) for here, y in zip(drawn, values, strict=True)) / scale
    return Distance(float(share), f"on average {100 * share:.3g} % of the measured range apart")
