"""The points behind the Compare page's curves: of single runs what draws the same picture, of groups all there are;
kept for the next question.

What is kept goes by a run's change token, so that a run with news is read anew and an ended one never again.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from app.charts.binned_sums import in_cells
from engine.analysis.statistics.bands import BandLine, Spread, line
from engine.analysis.statistics.confidence import Statistic
from engine.analysis.statistics.resample import Aligned, Floats, RunPoints, aligned, member
from engine.analysis.update_clock import EXCHANGED, growing, updates_at
from engine.registry import known_experiment
from engine.store import Column, Reader, RecordedMetric, Stretch
from engine.store.curves.downsample import kept
from engine.store.curves.series import Axis
from engine.store.records import RunRow

POINTS = 6_000
"""Points of one chart of single runs, shared out over its lines."""
FEWEST, MOST = 60, 1_000
KEPT_BYTES, KEPT_GROUPS, KEPT_CURVES = 96_000_000, 128, 256
PLAIN: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""Axes that are a column of the points themselves."""
UPDATES, BYTES = "updates", "bytes"
CLOCKED = (UPDATES, BYTES)
"""Axes that are told by time: how many updates there had been, or MB been exchanged, by a point's moment."""
_Key = tuple[Any, ...]
Within = tuple[float, float] | None
"""A stretch along the axis that is asked for alone."""
Kept = TypeVar("Kept")
Drawn = dict[int | None, tuple[Floats, Floats]]
"""Where the points of a run that are drawn lie, by rank."""
_columns: OrderedDict[_Key, Floats] = OrderedDict()
_groups: OrderedDict[_Key, Aligned] = OrderedDict()
_lines: OrderedDict[_Key, BandLine] = OrderedDict()
_drawn: OrderedDict[_Key, Drawn] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class DrawnCurve:
    """What is drawn of one rank (None: the whole run) of a run; NaN in `y` is a gap."""

    run_id: int
    rank: int | None
    x: Floats
    y: Floats
    total: int
    nonfinite: int


def recorded(reader: Reader, runs: Sequence[RunRow], metric: str) -> dict[int, list[RecordedMetric]]:
    """Return who recorded a metric, by run: the whole run where it did, else its ranks; runs that lack it
    are absent.
    """
    found: dict[int, list[RecordedMetric]] = {}
    for each in reader.multi_run.recorded([run.id for run in runs], [metric]):
        of_run = found.setdefault(each.run_id, [])
        if not of_run or of_run[0].rank is not None:
            of_run.append(each)
    return found


def curves(reader: Reader, runs: Sequence[RunRow], metric: str, axis: str, within: Within = None) -> list[DrawnCurve]:
    """Return a curve for each rank that recorded the metric, in the order of the runs, thinned to what the chart has
    room for.

    A stretch (not of an axis that is another metric) has its neighbours at each side, and is thinned by itself.
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
    """Return the runs of a group on common positions, from all raw points; the ranks of a run count as one member."""
    key = (*_key(reader, runs, metric, axis, log), within)
    if (known := _groups.get(key)) is not None:
        return known
    who = recorded(reader, runs, metric)
    if within is None and axis in PLAIN and not _all_kept(reader, runs, who, axis):
        found = in_cells(reader, runs, who, PLAIN[axis], log=log)
        if found is not None:
            return _keep(_groups, key, found)
    return _keep(
        _groups,
        key,
        aligned([_member(reader, run, who.get(run.id, []), axis, log) for run in runs], log=log, within=within),
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
    """Return a group's members on common positions, and its line with its band."""
    values = group(reader, runs, metric, axis, log=log, within=within)
    key = (*_key(reader, runs, metric, axis, log), within, statistic, spread)
    found = _lines.get(key)
    if found is None:
        found = _keep(_lines, key, line(values.values, statistic, spread))
    return values, found


def forget() -> None:
    """Drop all that is kept."""
    with _lock:
        for each in (_columns, _groups, _lines, _drawn):
            each.clear()


def _key(reader: Reader, runs: Sequence[RunRow], metric: str, axis: str, log: bool) -> _Key:
    return (str(reader.db.home.path), metric, axis, log, tuple((run.id, run.version) for run in runs))


def _keep(kept_ones: OrderedDict[_Key, Kept], key: _Key, found: Kept, most: int = KEPT_GROUPS) -> Kept:
    with _lock:
        kept_ones[key] = found
        while len(kept_ones) > most:
            kept_ones.popitem(last=False)
    return found


def _all_kept(reader: Reader, runs: Sequence[RunRow], who: Mapping[int, Sequence[RecordedMetric]], axis: str) -> bool:
    """Say whether the points of a group were read lately: then they are not added up by the store."""
    home = str(reader.db.home.path)
    wanted = [
        ((home, run.id, run.version, each.metric, each.rank), name)
        for run in runs
        for each in who.get(run.id, ())
        for name in (PLAIN[axis], "value")
    ]
    with _lock:
        return all(key in _columns for key in wanted)


def _member(reader: Reader, run: RunRow, who: Sequence[RecordedMetric], axis: str, log: bool) -> RunPoints:
    parts = [_raw(reader, run, each, axis) for each in who]
    if not parts:
        return member(np.empty(0), np.empty(0))
    return member(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), log=log)


def _raw(reader: Reader, run: RunRow, each: RecordedMetric, axis: str) -> tuple[Floats, Floats]:
    """Return all points of one rank: where they lie along the axis (infinite where that is not known), and their
    values.
    """
    if axis in PLAIN:
        x, y = _read(reader, run, each.metric, each.rank, (PLAIN[axis], "value"))
        return x, y
    if axis in CLOCKED:
        times, y = _read(reader, run, each.metric, each.rank, ("time_s", "value"))
        return updates_at(times, clocks(reader, run, axis)), y
    steps, y = _read(reader, run, each.metric, each.rank, ("step", "value"))
    return _metric_at(reader, run, each, axis, steps), y


def _metric_at(reader: Reader, run: RunRow, each: RecordedMetric, axis: str, steps: Floats) -> Floats:
    """Return the last value of another metric at or before some steps: that of the same rank, else of the whole run,
    else of its first rank.
    """
    there = {other.rank: other for other in recorded(reader, [run], axis).get(run.id, [])}
    other = there.get(each.rank) or next(iter(there.values()), None)
    if other is None:
        return np.full(steps.shape, np.inf)
    at, values = _read(reader, run, axis, other.rank, ("step", "value"))
    place = np.searchsorted(at, steps, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], np.inf) if at.size else np.full(steps.shape, np.inf)


def clocks(reader: Reader, run: RunRow, axis: str) -> list[tuple[Floats, Floats]]:
    """Return what counts a run's updates or MB: times and how many so far, of each rank that counts some."""
    if axis == BYTES:
        parts = [
            _read(reader, run, EXCHANGED, each.rank, ("time_s", "value"))
            for each in recorded(reader, [run], EXCHANGED).get(run.id, [])
        ]
        return [(times, growing(values)) for times, values in parts]
    known = known_experiment(run.experiment)
    clock = known.update_clock if known else None
    if clock is None:
        return []
    if clock.counts == "points":
        times = [
            _read(reader, run, clock.metric, each.rank, ("time_s",))[0]
            for each in recorded(reader, [run], clock.metric).get(run.id, [])
        ]
        return [(each, np.arange(1.0, each.size + 1)) for each in times]
    found = reader.curves.series(run.id, [clock.metric], max_points=MOST)
    share = 1 / len(found) if clock.counts == "mean" and found else 1.0
    return [(np.asarray(each.times_s), np.asarray(each.steps, dtype=float) * share) for each in found]


def _drawn_of(
    reader: Reader, run: RunRow, who: Sequence[RecordedMetric], metric: str, axis: str, most: int, within: Within
) -> Drawn:
    key = (*_key(reader, [run], metric, axis, log=False), most, within)
    with _lock:
        if (known := _drawn.get(key)) is not None:
            _drawn.move_to_end(key)  # else those of a live run, which has another version each time, would push it out
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
        found[series.rank] = _drawable(x, np.asarray(series.values, dtype=float))
    return found


def _stretch(axis: str, known: Sequence[tuple[Floats, Floats]], low: float, high: float) -> Stretch:
    """Return a stretch as the store knows it; one along updates or bytes by the times between which they
    were counted.
    """
    if axis in PLAIN:
        return Stretch(PLAIN[axis], low, high)
    times = np.unique(np.concatenate([[0.0], *(times for times, _ in known)]))
    counted = updates_at(times, known)
    first, last = int(np.searchsorted(counted, low, side="left")) - 1, int(np.searchsorted(counted, high, side="right"))
    return Stretch("time_s", float(times[max(0, first)]), float(times[last]) if last < times.size else np.inf)


def _against(reader: Reader, run: RunRow, who: Sequence[RecordedMetric], axis: str, most: int) -> Drawn:
    found = {}
    for each in who:
        x, y = _drawable(*_raw(reader, run, each, axis))
        chosen = kept(y.tolist(), most)
        found[each.rank] = (x[chosen], y[chosen])
    return found


def _drawable(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = np.isfinite(x)
    return x[there], np.where(np.isfinite(y), y, np.nan)[there]


def _read(reader: Reader, run: RunRow, metric: str, rank: int | None, names: Sequence[Column]) -> list[Floats]:
    """Return whole columns of a rank's points; those read lately are not read again."""
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
