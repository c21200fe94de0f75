"""All points of runs as the store has them, by rank, cached: x-values of any axis, and the counters of updates and data
exchanged.

The cache key includes a run's change token: a changed run is read again, an ended run is read once.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.charts.x_axes import BYTES, metric_of
from engine.analysis.statistics.resample import Floats
from engine.analysis.update_clock import EXCHANGED, growing, updates_at
from engine.registry import known_experiment
from engine.store import Column, Reader, RecordedMetric
from engine.store.curves.series import Axis
from engine.store.records import RunRow

KEPT_BYTES = 96_000_000
CLOCK_POINTS = 1_000
PLAIN: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""X-axes that are columns of the points."""
UPDATES = "updates"
CLOCKED = (UPDATES, BYTES)
"""X-axes looked up by time: model updates, or MB exchanged, at the time of a point."""
_columns: OrderedDict[tuple[Any, ...], Floats] = OrderedDict()
_lock = threading.Lock()


def recorded(reader: Reader, runs: Sequence[RunRow], metric: str) -> dict[int, list[RecordedMetric]]:
    """Return which ranks recorded a metric, by run: the whole run if it did, else its ranks; runs without it are
    absent.
    """
    found: dict[int, list[RecordedMetric]] = {}
    for each in reader.multi_run.recorded([run.id for run in runs], [metric]):
        of_run = found.setdefault(each.run_id, [])
        if not of_run or of_run[0].rank is not None:
            of_run.append(each)
    return found


def all_points(reader: Reader, run: RunRow, each: RecordedMetric, axis: str) -> tuple[Floats, Floats]:
    """Return all points of one rank: x-values (infinite if unknown) and values."""
    if axis in PLAIN:
        x, y = _read(reader, run, each.metric, each.rank, (PLAIN[axis], "value"))
        return x, y
    if axis in CLOCKED:
        times, y = _read(reader, run, each.metric, each.rank, ("time_s", "value"))
        return updates_at(times, clocks(reader, run, axis)), y
    steps, y = _read(reader, run, each.metric, each.rank, ("step", "value"))
    return _metric_at(reader, run, each, axis, steps), y


def _metric_at(reader: Reader, run: RunRow, each: RecordedMetric, axis: str, steps: Floats) -> Floats:
    """Return the last value of another metric at or before some steps: of the same rank, else of the whole run, else of
    its first rank.
    """
    name = metric_of(axis)
    there = {other.rank: other for other in recorded(reader, [run], name).get(run.id, [])}
    other = there.get(each.rank) or next(iter(there.values()), None)
    if other is None:
        return np.full(steps.shape, np.inf)
    at, values = _read(reader, run, name, other.rank, ("step", "value"))
    order = np.argsort(at, kind="stable")  # steps go back where a run was resumed; the later record counts
    at, values = at[order], values[order]
    place = np.searchsorted(at, steps, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], np.inf) if at.size else np.full(steps.shape, np.inf)


def clocks(reader: Reader, run: RunRow, axis: str) -> list[tuple[Floats, Floats]]:
    """Return a run's counters of updates or MB: times and counts so far, of each rank that has one."""
    if axis == BYTES:
        parts = [
            _read(reader, run, EXCHANGED, each.rank, ("time_s", "value"))
            for each in recorded(reader, [run], EXCHANGED).get(run.id, [])
        ]
        return [(times, growing(values)) for times, values in parts]
    known = known_experiment(run.experiment)
    clock = known.clock(run.config) if known else None
    if clock is None:
        return []
    if clock.counts == "points":
        times = [
            _read(reader, run, clock.metric, each.rank, ("time_s",))[0]
            for each in recorded(reader, [run], clock.metric).get(run.id, [])
        ]
        return [(np.sort(each), np.arange(1.0, each.size + 1)) for each in times]
    found = reader.curves.series(run.id, [clock.metric], max_points=CLOCK_POINTS)
    if clock.counts == "most":
        found = sorted(found, key=lambda each: each.steps[-1] if each.steps else 0)[-1:]
    share = 1 / len(found) if clock.counts == "mean" and found else 1.0
    return [(np.asarray(each.times_s), np.asarray(each.steps, dtype=float) * share) for each in found]


def are_cached(reader: Reader, runs: Sequence[RunRow], who: Mapping[int, Sequence[RecordedMetric]], axis: str) -> bool:
    """Return whether the points of some runs are cached: then the store does not need to aggregate them."""
    home = str(reader.db.home.path)
    wanted = [
        ((home, run.id, run.version, each.metric, each.rank), name)
        for run in runs
        for each in who.get(run.id, ())
        for name in (PLAIN[axis], "value")
    ]
    with _lock:
        return all(key in _columns for key in wanted)


def forget() -> None:
    """Clear the cache."""
    with _lock:
        _columns.clear()


def _read(reader: Reader, run: RunRow, metric: str, rank: int | None, names: Sequence[Column]) -> list[Floats]:
    """Return whole columns of a rank's points, cached."""
    start = (str(reader.db.home.path), run.id, run.version, metric, rank)
    with _lock:
        found = {name: _columns[start, name] for name in names if (start, name) in _columns}
        for name in found:
            _columns.move_to_end((start, name))
    if lacking := [name for name in names if name not in found]:
        found |= reader.multi_run.columns(run.id, metric, rank, lacking)
        with _lock:
            _columns.update({(start, name): found[name] for name in lacking})
            while sum(column.nbytes for column in _columns.values()) > KEPT_BYTES:
                _columns.popitem(last=False)
    return [found[name] for name in names]
