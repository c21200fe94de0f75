"""Heat maps: every point of a metric is counted in a bounded grid of time by value, without sampling."""

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.store.connection import Connection
from engine.store.curve_records import Band, Bin, Heat

COLUMNS, ROWS = 64, 32
_FINEST_S = 2.0**-10

_NEW_POINTS = "metric_id IN (SELECT id FROM metrics WHERE run_id = ? AND name = ?) AND id > ? AND value IS NOT NULL"
_BOUNDS = f"SELECT max(id), max(time_s), min(value), max(value) FROM points WHERE {_NEW_POINTS}"
_CELLS = (
    f"SELECT CAST(time_s / ? AS INTEGER), CAST((value - ?) / ? AS INTEGER), count(*) FROM points WHERE {_NEW_POINTS} "
    "GROUP BY 1, 2"
)
FINITE_POINTS = "SELECT sum(count) FROM metrics WHERE run_id = ? AND name = ?"


def count_heat(
    reader: Connection,
    run_id: int,
    metric: str,
    before: Heat | None = None,
    columns: int = COLUMNS,
    rows: int = ROWS,
) -> Heat | None:
    """Return the grid of a metric in at most `columns` by `rows` cells (rows at least 2); None if the run has no finite
    point of it.

    A cell is 2^k s wide and 2^k high (at least 1) and aligned to a multiple of its size: during a run, cells stay or
    merge in pairs. So only points newer than `before`, an earlier result, are counted; all are counted if it does not
    match the run.
    """
    nothing = Heat(metric, _FINEST_S, 1.0, {}, 0)
    with reader.snapshot():
        total = reader.rows(FINITE_POINTS, [run_id, metric])[0][0] or 0
        found = _with_new_points(reader, run_id, before or nothing, columns, rows)
        if sum(found.counts.values()) != total:
            found = _with_new_points(reader, run_id, nothing, columns, rows)
    return found if found.counts else None


def _with_new_points(reader: Connection, run_id: int, known: Heat, columns: int, rows: int) -> Heat:
    """Return the heat map including newer points."""
    new = [run_id, known.metric, known.last_id]
    last_id, end, low, high = reader.rows(_BOUNDS, new)[0]
    if last_id is None:
        return known
    held = [row * known.row for _, row in known.counts]
    low, high = min([low, *held]), max([high, *held])
    width = _size(lambda size: math.floor(end / size), columns, known.column_s)
    height = _size(lambda size: math.floor(high / size) - math.floor(low / size), rows, known.row)
    base = math.floor(low / height)
    cells = {
        (column, base + row): count for column, row, count in reader.rows(_CELLS, [width, base * height, height, *new])
    }
    return Heat(known.metric, width, height, _joined(known, width, height, cells), last_id)


def _joined(known: Heat, width: float, height: float, new: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Return the counts of `known` in cells of another size, plus the new ones."""
    across, up = round(width / known.column_s), round(height / known.row)
    counts = Counter(new)
    for (column, row), count in known.counts.items():
        counts[column // across, row // up] += count
    return dict(counts)


def _size(last: Callable[[float], int], most: int, least: float) -> float:
    """Return the smallest power of two, at least `least`, for which the last cell's index is below `most`."""
    size = least
    while last(size) >= most:
        size *= 2
    return size


# ------------------------------------------------------------------------------------------------------------------
# Bands of per-episode metrics over all ranks: a bounded number of bins with mean and spread; every episode counts.

BINS = 64
"""Maximum number of bins; beyond it, pairs are merged."""
RUNNING = 100
"""Window of the running mean: the number of episodes in gymnasium's definition of a solved environment."""

_NEW = (
    "SELECT id, step, time_s, value FROM points WHERE metric_id IN (SELECT id FROM metrics WHERE run_id = ? "
    "AND name = ?) "
    "AND id > ? AND value IS NOT NULL ORDER BY id"
)


def count_band(reader: Connection, run_id: int, metric: str, before: Band | None = None) -> Band | None:
    """Return the band of a metric; None if the run has no finite point of it.

    Values of all ranks are in recording order. Only points newer than `before`, an earlier result, are read; all are
    read if it does not match the run.
    """
    nothing = Band(metric, (), 1, (), 0)
    with reader.snapshot():
        total = reader.rows(FINITE_POINTS, [run_id, metric])[0][0] or 0
        found = _with_new(reader, run_id, before or nothing)
        if found.total != total:
            found = _with_new(reader, run_id, nothing)
    return found if found.bins else None


def _with_new(reader: Connection, run_id: int, known: Band) -> Band:
    bins, width, recent, last_id = list(known.bins), known.width, deque(known.recent, RUNNING), known.last_id
    for point_id, step, time_s, value in reader.rows(_NEW, [run_id, known.metric, known.last_id]):
        last_id = point_id
        recent.append(value)
        one = Bin(1, step, time_s, value, 0.0, value, value, sum(recent) / len(recent))
        if bins and bins[-1].count < width:
            bins[-1] = joined(bins[-1], one)
        else:
            bins.append(one)
        if len(bins) > BINS:
            bins, width = _paired(bins), 2 * width
    return replace(known, bins=tuple(bins), width=width, recent=tuple(recent), last_id=last_id)


def _paired(bins: Sequence[Bin]) -> list[Bin]:
    pairs = [joined(first, second) for first, second in zip(bins[::2], bins[1::2], strict=False)]
    return pairs + list(bins[2 * len(pairs) :])


def joined(first: Bin, second: Bin) -> Bin:
    """Return two adjacent bins as one (Chan, Golub and LeVeque's method for means and squares)."""
    count = first.count + second.count
    share, shift = second.count / count, second.mean - first.mean
    return Bin(
        count,
        first.step + (second.step - first.step) * share,
        first.time_s + (second.time_s - first.time_s) * share,
        first.mean + shift * share,
        first.squares + second.squares + shift * shift * first.count * share,
        min(first.low, second.low),
        max(first.high, second.high),
        second.running,
    )
