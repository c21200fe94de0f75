"""All points of runs as the store has them, by rank, cached: x-values of any axis, and the counters of updates and data
exchanged.

The cache key includes a run's change token: a changed run is read again, an ended run is read once.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.analysis.statistics.intervals import Floats
from engine.analysis.update_clock import EXCHANGED, growing, updates_at
from engine.filter.tree import metric_quoted, metric_written
from engine.metrics import metric
from engine.registry import known_experiment
from engine.store import Column, Reader, RecordedMetric
from engine.store.curves.series import Axis
from engine.store.records import ENDED, Run, RunRow

# ---- The x-axes of curves: their names, and the one on which given runs compare ------------------------------------

AXES = {"step": "Step", "passes": "Passes", "updates": "Updates", "time": "Time"}

BYTES = "bytes"
OWN_COLUMNS = {"run", "name", "rank", "group", "value", "low", "high", "band", "n"}
"""Columns of a chart's data besides its axis or values."""
TAKEN = {*AXES, BYTES, *OWN_COLUMNS}


def axis_of(metric: str) -> str:
    """Return the name of a metric as an x-axis, as in addresses; one that means something else as in filters:
    `metric["time"]`.
    """
    return metric_written(metric) if metric in TAKEN or metric_quoted(metric) else metric


def metric_of(axis: str) -> str:
    """Return the name of the metric that is an x-axis."""
    name, of = metric_quoted(axis) or (axis, "")
    return axis if of else name


def usual_axis(reader: Reader, runs: Iterable[Run | RunRow]) -> str:
    """Return the x-axis on which the runs compare: passes where all train on a data set; within one experiment else its
    updates, or steps (of which each rank counts its own) if nothing counts them; else time. With runs of other
    programs steps: one that is reported after its end has all of its points at about one time.
    """
    runs = list(runs)
    known = {run.experiment: known_experiment(run.experiment) for run in runs}
    if all(each and each.duel for each in known.values()) and all(has_passes(reader, run) for run in runs):
        return "passes"
    if len(known) > 1:
        return "time" if all(known.values()) else "step"
    return "updates" if all(each and each.update_clock for each in known.values()) else "step"


def axes_of(reader: Reader, runs: Iterable[RunRow], metrics: Collection[str], others: Iterable[str]) -> list[str]:
    """Return the x-axes on which at least one run has one of the metrics; `others` are metrics that may be axes."""
    runs = [run for run in runs if any(name in run.last for name in metrics)]
    known = [(run, known_experiment(run.experiment)) for run in runs]
    counted = [run for run, own in known if own and (clock := own.clock(run.config)) and clock.metric in run.last]
    missing = {
        *(() if any(has_passes(reader, run) for run in runs) else ("passes",)),
        *(() if counted else (UPDATES,)),
        *(() if any(EXCHANGED in run.last for run in runs) else (BYTES,)),
    }
    return [
        *(name for name in (*AXES, BYTES) if name not in missing),
        *(axis_of(name) for name in others if any(name in run.last for run in runs)),
    ]


def has_passes(reader: Reader, run: Run | RunRow) -> bool:
    """Return whether the points of a run have passes over training data; one that is still active and trains on a data
    set soon has. Where there is an environment instead, they count its rounds.
    """
    known = known_experiment(run.experiment)
    if "environment" in run.config:
        return False
    return reader.details.counts_passes(run.id) or bool(run.status not in ENDED and known and known.duel)


# ---- Curve points --------------------------------------------------------------------------------------------------

KEPT_BYTES = 96_000_000
CLOCK_POINTS = 1_000
PLAIN: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""X-axes that are columns of the points."""
UPDATES = "updates"
CLOCKED = (UPDATES, BYTES)
"""X-axes looked up by time: model updates, or MB exchanged, at the time of a point."""
_columns: OrderedDict[tuple[Any, ...], Floats] = OrderedDict()
_kept = {"bytes": 0}
"""The size of the columns, kept here because a sum over all of them at each read is slow."""
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
        _kept["bytes"] = 0


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
            for name in lacking:
                if (same := _columns.pop((start, name), None)) is not None:  # another visitor read it meanwhile
                    _kept["bytes"] -= same.nbytes
                _columns[start, name] = found[name]
                _kept["bytes"] += found[name].nbytes
            while _kept["bytes"] > KEPT_BYTES:
                _kept["bytes"] -= _columns.popitem(last=False)[1].nbytes
    return [found[name] for name in names]


# ---- Smoothing of long, noisy curves; as in chart/smooth.js --------------------------------------------------------
# Pure.


def weight(name: str, asked: float) -> float:
    """Return the effective smoothing (0 to 1) of a metric's curves for a requested smoothing."""
    return asked if metric(name).smooth else 0.0


FULL = 200
"""Points from which a requested smoothing counts in full; a shorter curve is smoothed less, or it would lag visibly."""


START = 3
"""The n-th value of a curve counts for at least START / n of its average."""


def smoothed(values: Floats, weight: float) -> Floats:
    """Return the bias-corrected exponential moving average, as in smooth.js: within the range of the values so far;
    gaps are kept. It follows the first values closely, or it would lag far above a loss that begins to fall.
    """
    weight **= max(1.0, FULL / max(1, (~np.isnan(values)).sum()))
    found = np.empty(values.shape)
    mean, norm, seen = 0.0, 0.0, 0
    for place, value in enumerate(values.tolist()):
        if value != value:
            found[place] = np.nan
            continue
        norm = norm * weight + (1 - weight)
        seen += 1
        share = max((1 - weight) / norm, min(1.0, START / seen))
        # From the nearer end, so that rounding leaves it between the two
        mean = mean + (value - mean) * share if share < 0.5 else value - (value - mean) * (1 - share)
        found[place] = mean
    return found


DETOUR = 1.25
"""Up to this ratio of all that a curve rises and falls to its range, it has little noise."""


def is_noiseless(values: Floats) -> bool:
    """Return whether a curve is nearly monotone, as in smooth.js: it has little noise, and an average would lag behind
    it.
    """
    known = values[np.isfinite(values)]
    return not known.size or bool(np.abs(np.diff(known)).sum() <= DETOUR * (known.max() - known.min()))
