"""The points behind the Compare page's curves: down-sampled for single runs, all of them for groups; cached.

The cache key includes a run's change token: a changed run is read again, an ended run is read once.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.charts import curve_points
from app.charts.curve_points import CLOCKED, PLAIN, all_points, are_cached, clocks, recorded
from engine.analysis.statistics.groups import BandLine, Spread, counted, line
from engine.analysis.statistics.intervals import (
    MOST_CELLS,
    Aligned,
    Floats,
    RunPoints,
    Statistic,
    aligned,
    between,
    centres_of,
    edges_between,
    member,
    of_all,
)
from engine.analysis.update_clock import updates_at
from engine.store import Reader, RecordedMetric, Stretch
from engine.store.curves.downsample import kept
from engine.store.curves.multi_run import BinnedCell
from engine.store.curves.series import Axis
from engine.store.records import RunRow

POINTS = 6_000
"""Maximum number of points in a chart of single runs, shared by its lines."""
FEWEST, MOST = 60, 1_000
KEPT_GROUPS, KEPT_CURVES = 128, 256
_Key = tuple[Any, ...]
Within = tuple[float, float] | None
"""A requested range on the x-axis."""
Kept = TypeVar("Kept")
Drawn = dict[int | None, tuple[NDArray[np.int64], Floats, Floats]]
"""The ids (or places), x-values and values of a run's drawn points, by rank."""
_groups: OrderedDict[_Key, Aligned] = OrderedDict()
_lines: OrderedDict[_Key, BandLine] = OrderedDict()
_drawn: OrderedDict[_Key, Drawn] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class DrawnCurve:
    """The drawn points of one rank (None: the whole run) of a run, in recording order; NaN in `y` is a gap."""

    run_id: int
    rank: int | None
    ids: NDArray[np.int64]
    x: Floats
    y: Floats
    total: int
    nonfinite: int


def curves(reader: Reader, runs: Sequence[RunRow], metric: str, axis: str, within: Within = None) -> list[DrawnCurve]:
    """Return a curve for each rank that recorded the metric, in run order, down-sampled for the chart.

    A range (not available if the x-axis is another metric) includes its neighbours on both sides and is down-sampled
    separately.
    """
    who = recorded(reader, runs, metric)
    lines = sum(map(len, who.values()))
    most = min(MOST, max(FEWEST, POINTS // max(1, lines)))
    found = []
    for run in runs:
        if run.id in who:
            drawn = _drawn_of(reader, run, who[run.id], metric, axis, most, within)
            found += [
                DrawnCurve(run.id, each.rank, *drawn[each.rank], each.total, each.nonfinite)
                for each in who[run.id]
                if each.rank in drawn
            ]
    return found


def group(
    reader: Reader, runs: Sequence[RunRow], metric: str, axis: str, *, log: bool = False, within: Within = None
) -> Aligned:
    """Return the runs of a group at common positions, from all raw points."""
    key = (*_key(reader, runs, metric, axis, log), within)
    if (known := _groups.get(key)) is not None:
        return known
    who = recorded(reader, runs, metric)
    if within is None and axis in PLAIN and not are_cached(reader, runs, who, axis):
        found = in_cells(reader, runs, who, PLAIN[axis], log=log)
        if found is not None:
            return _keep(_groups, key, found)
    return _keep(
        _groups,
        key,
        aligned([_ranks(reader, run, who.get(run.id, []), axis, log) for run in runs], log=log, within=within),
    )


def group_line(
    reader: Reader,
    runs: Sequence[RunRow],
    metric: str,
    axis: str,
    statistic: Statistic,
    spread: Spread,
    *,
    log: bool = False,
    within: Within = None,
) -> tuple[Aligned, BandLine]:
    """Return a group's runs at common positions, and the line with its band of those that count."""
    values = group(reader, runs, metric, axis, log=log, within=within)
    key = (*_key(reader, runs, metric, axis, log), within, statistic, spread)
    found = _lines.get(key)
    if found is None:
        found = _keep(_lines, key, line(values.values[values.members & counted(runs)], statistic, spread))
    return values, found


def forget() -> None:
    """Clear the caches."""
    curve_points.forget()
    with _lock:
        for each in (_groups, _lines, _drawn):
            each.clear()


def _key(reader: Reader, runs: Sequence[RunRow], metric: str, axis: str, log: bool) -> _Key:
    return (str(reader.db.home.path), metric, axis, log, tuple((run.id, run.version) for run in runs))


def _keep(kept_ones: OrderedDict[_Key, Kept], key: _Key, found: Kept, most: int = KEPT_GROUPS) -> Kept:
    with _lock:
        kept_ones[key] = found
        while len(kept_ones) > most:
            kept_ones.popitem(last=False)
    return found


def _ranks(reader: Reader, run: RunRow, who: Sequence[RecordedMetric], axis: str, log: bool) -> list[RunPoints]:
    return [member(*all_points(reader, run, each, axis), log=log) for each in who]


def _drawn_of(
    reader: Reader, run: RunRow, who: Sequence[RecordedMetric], metric: str, axis: str, most: int, within: Within
) -> Drawn:
    key = (*_key(reader, [run], metric, axis, log=False), most, within)
    with _lock:
        if (known := _drawn.get(key)) is not None:
            _drawn.move_to_end(key)  # else the many versions of a live run would evict it
            return known
    plain = axis in PLAIN or axis in CLOCKED
    return _keep(
        _drawn,
        key,
        _thinned(reader, run, metric, axis, most, within) if plain else _against(reader, run, who, axis, most),
        KEPT_CURVES,
    )


def _thinned(reader: Reader, run: RunRow, metric: str, axis: str, most: int, within: Within) -> Drawn:
    """Return the points that draw the same picture, by rank; the store reads no others."""
    known = clocks(reader, run, axis) if axis in CLOCKED else []
    part = _stretch(axis, known, *within) if within else None
    found = {}
    for series in reader.curves.series(run.id, [metric], max_points=most, within=part):
        plain = {
            "step": series.steps,
            "time": series.times_s,
            "passes": [np.nan if at is None else at for at in series.passes],
        }
        x = updates_at(np.asarray(series.times_s), known) if axis in CLOCKED else np.asarray(plain[axis], dtype=float)
        found[series.rank] = _drawable(np.asarray(series.ids, dtype=np.int64), x, np.asarray(series.values))
    return found


def _stretch(axis: str, known: Sequence[tuple[Floats, Floats]], low: float, high: float) -> Stretch:
    """Return a range in store terms; for updates or bytes, the times between which they were counted."""
    if axis in PLAIN:
        return Stretch(PLAIN[axis], low, high)
    times = np.unique(np.concatenate([[0.0], *(times for times, _ in known)]))
    counted = updates_at(times, known)
    first, last = int(np.searchsorted(counted, low, side="left")) - 1, int(np.searchsorted(counted, high, side="right"))
    return Stretch("time_s", float(times[max(0, first)]), float(times[last]) if last < times.size else np.inf)


def _against(reader: Reader, run: RunRow, who: Sequence[RecordedMetric], axis: str, most: int) -> Drawn:
    found = {}
    for each in who:
        x, y = all_points(reader, run, each, axis)
        places, x, y = _drawable(np.arange(x.size), x, y)
        chosen = kept(y.tolist(), most)
        found[each.rank] = (places[chosen], x[chosen], y[chosen])
    return found


def _drawable(ids: NDArray[np.int64], x: Floats, y: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    there = np.isfinite(x)
    return ids[there], x[there], np.where(np.isfinite(y), y, np.nan)[there]


# ------------------------------------------------------------------------------------------------------------------
# Groups of long runs on common bins, aggregated in the store: a million points are summed where they are stored
# instead of being loaded.

LONG = 10_000
"""Number of points from which aggregation in the store pays off."""


def in_cells(
    reader: Reader, runs: Sequence[RunRow], who: Mapping[int, Sequence[RecordedMetric]], axis: Axis, *, log: bool
) -> Aligned | None:
    """Return the same as `aligned` for all raw points of the runs; None if `aligned` has to be used.

    That is the case for short curves, thinned or non-monotone ones, and for so few recorded positions that each is
    drawn separately.
    """
    every = [each for run in runs for each in who.get(run.id, ())]
    if not every or min(each.total for each in every) < LONG:
        return None
    known = {
        (each.run_id, each.rank): reader.multi_run.marks(each.run_id, each.metric, each.rank, axis) for each in every
    }
    there = [marks for marks in known.values() if marks]
    if len(there) < len(known):
        return None
    firsts = [first for marks in there if (first := marks.positive if log else marks.at[0]) is not None]
    low, high = min(firsts, default=0.0), max(marks.end for marks in there)
    if not firsts:
        return None
    edges, width = edges_between(low, high, log, MOST_CELLS)
    if max(reader.multi_run.positions(marks, axis, low, MOST_CELLS + 1) for marks in there) <= MOST_CELLS:
        return None
    centres = centres_of(edges, log)
    found = {key: reader.multi_run.cells(marks, axis, edges.tolist()) for key, marks in known.items() if marks}
    recorded = {key: cells for key, cells in found.items() if any(cell.finite for cell in cells)}
    ranks = [
        [recorded[key] for each in who.get(run.id, ()) if (key := (run.id, each.rank)) in recorded] for run in runs
    ]
    values = np.stack([of_all([_row(cells, centres) for cells in run], centres.size) for run in ranks])
    some = np.isfinite(values).any(axis=0)
    return Aligned(centres[some], values[:, some], False, width, np.array([bool(run) for run in ranks]))


def _row(cells: Sequence[BinnedCell], centres: Floats) -> Floats:
    """Return a rank's value in each bin: the mean of its finite points; in a bin without points, the straight line
    between its neighbouring points.
    """
    found: Floats = np.full(centres.size, np.nan)
    for place, cell in enumerate(cells):
        if cell.finite:
            found[place] = cell.total / cell.finite
        elif not cell.points and cell.before and cell.after:
            ends = ((x, np.nan if y is None else y) for x, y in (cell.before, cell.after))
            found[place] = between(centres[place], *ends)
    return found
