"""Heat maps: every point of a metric is counted in a bounded grid of time by value, without sampling."""

import math
from collections import Counter
from collections.abc import Callable

from engine.store.connection import Connection
from engine.store.curve_records import Heat

COLUMNS, ROWS = 64, 32
_FINEST_S = 2.0**-10

_NEW = "metric_id IN (SELECT id FROM metrics WHERE run_id = ? AND name = ?) AND id > ? AND value IS NOT NULL"
_BOUNDS = f"SELECT max(id), max(time_s), min(value), max(value) FROM points WHERE {_NEW}"
_CELLS = (
    f"SELECT CAST(time_s / ? AS INTEGER), CAST((value - ?) / ? AS INTEGER), count(*) FROM points WHERE {_NEW} "
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
        found = _with_new(reader, run_id, before or nothing, columns, rows)
        if sum(found.counts.values()) != total:
            found = _with_new(reader, run_id, nothing, columns, rows)
    return found if found.counts else None


def _with_new(reader: Connection, run_id: int, known: Heat, columns: int, rows: int) -> Heat:
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
