"""What the runs of an attempt measured, in the shape of the prediction, and the distance between the two."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any

from engine.analysis.run_values import measured as undisturbed
from engine.analysis.run_values import number, split
from engine.config_values import values_in_words
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
class CellValue:
    """The value of one cell."""

    mean: float
    """Mean over its runs."""
    runs: int
    """Number of runs with the value."""
    x: float | None = None
    """The value of the swept field, where it is a number."""


@dataclass(frozen=True)
class Measured:
    """What the ended runs of an attempt measured."""

    value: Prediction | None
    """In the shape of the prediction; None while a cell has no value."""
    cells: Mapping[str, CellValue] = field(default_factory=dict)
    """The value of each cell that has one, by name, in the sweep's order; of a single run under the empty name."""
    missing: tuple[str, ...] = ()
    """Cells without a value: none of their runs has ended with one."""


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
    cells = {name: [run for run in own if is_complete(run)] or own for name, own in cells.items()}
    values = _values(reader, asked, [run for own in cells.values() for run in own])
    found: dict[str, CellValue] = {}
    for name, own in cells.items():
        if held := [values[run.id] for run in own if run.id in values]:
            x = own[0].config.get(exercise.axis)
            found[name] = CellValue(fmean(held), len(held), x if isinstance(x, int | float) else None)
    if asked.relative:
        first = next(iter(cells))
        base = found[first].mean if first in found else 0.0
        found = {name: replace(each, mean=each.mean / base) for name, each in found.items()} if base else {}
    missing = tuple(name for name in cells if name not in found)
    return Measured(None if missing else _shaped(exercise, found), found, missing)


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


def _shaped(exercise: Exercise, cells: Mapping[str, CellValue]) -> Prediction:
    kind, values = exercise.predict.kind, list(cells.values())
    if kind == "number":
        return values[-1].mean
    if kind == "order":
        is_highest = exercise.predict.first == "highest"
        return tuple(sorted(cells, key=lambda name: cells[name].mean, reverse=is_highest))
    return tuple(sorted((each.x if each.x is not None else at, each.mean) for at, each in enumerate(values)))


# ---- Distance -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distance:
    """How far a prediction is from the result; 0 is exact."""

    share: float
    """number: difference / measured value. order: wrong pairs / all pairs. curve: mean difference / range."""
    absolute: float
    """number and curve: the (mean) difference, in the value's unit. order: the number of pairs in the wrong order."""
    words: str
    """Such as `12 % above`, `1 of 3 pairs in the wrong order`, `on average 8 % of the measured range apart`."""


def distance(prediction: Prediction, result: Prediction) -> Distance:
    """Return the distance between a prediction and a result of the same shape.

    number: the absolute difference, and it relative to the measured value (1 for any difference from 0). order: the
    pairs of cells in the wrong order (Kendall's distance), and their share of all pairs. curve: the mean absolute
    difference at the measured points, of the predicted line, which continues level beyond its ends, and it relative to
    the range of the measured values (of a level curve: to its height).
    """
    if isinstance(prediction, int | float) and isinstance(result, int | float):
        apart = abs(prediction - result)
        share = apart / abs(result) if result else float(apart > 0)
        side = "above" if prediction > result else "below"
        return Distance(share, apart, f"{100 * share:.3g} % {side}" if apart else "exact")
    assert isinstance(prediction, tuple) and isinstance(result, tuple)
    if all(isinstance(each, str) for each in result):
        place = {name: at for at, name in enumerate(prediction)}
        pairs = list(combinations(result, 2))
        wrong = sum(place[first] > place[then] for first, then in pairs)
        words = f"{wrong} of {len(pairs)} pairs in the wrong order" if wrong else "the measured order"
        return Distance(wrong / len(pairs) if pairs else 0.0, wrong, words)
    return _between_curves(prediction, result)  # type: ignore[arg-type]


def _between_curves(prediction: Points, result: Points) -> Distance:
    apart = fmean(abs(_at(prediction, x) - y) for x, y in result)
    values = [y for _, y in result]
    scale = max(values) - min(values) or max(map(abs, values)) or 1.0
    return Distance(apart / scale, apart, f"on average {100 * apart / scale:.3g} % of the measured range apart")


def _at(curve: Points, x: float) -> float:
    """Return the height of a line through points at x; level beyond its ends."""
    after = bisect_right(curve, x, key=lambda point: point[0])
    if after in (0, len(curve)):
        return curve[0 if after == 0 else -1][1]
    (left, low), (right, high) = curve[after - 1], curve[after]
    return low + (high - low) * (x - left) / (right - left)
