"""Heat: every point of a metric counted into a bounded grid of time by value; nothing is sampled, nothing guessed."""

import math
from collections.abc import Callable

from engine.store.connection import Reading
from engine.store.records import Heat

COLUMNS, ROWS = 64, 32

_OF = "metric_id IN (SELECT id FROM metrics WHERE run_id = ? AND name = ?) AND value IS NOT NULL"
_BOUNDS = f"SELECT max(time_s), min(value), max(value) FROM points WHERE {_OF}"
_CELLS = f"SELECT CAST(time_s / ? AS INTEGER), CAST((value - ?) / ? AS INTEGER), count(*) FROM points WHERE {_OF} GROUP BY 1, 2"


def count_heat(reader: Reading, run_id: int, metric: str, columns: int = COLUMNS, rows: int = ROWS) -> Heat | None:
    """Return the grid of a metric in at most `columns` by `rows` cells (rows at least 2); None where the run has no finite point of it.

    A cell is 2^k s wide and 2^k high (at least 1), and cells lie at multiples of their size: while a run goes on they stay, or join two by two.
    """
    with reader.snapshot():
        bounds = reader.row(_BOUNDS, [run_id, metric])
        if bounds is None or bounds[0] is None:
            return None
        end, low, high = bounds
        width = _size(lambda size: math.floor(end / size), columns, 2.0**-10)
        height = _size(lambda size: math.floor(high / size) - math.floor(low / size), rows, 1.0)
        lowest = math.floor(low / height) * height
        cells = reader.rows(_CELLS, [width, lowest, height, run_id, metric])
    return Heat(metric, width, height, lowest, {(column, row): count for column, row, count in cells})


def _size(last: Callable[[float], int], most: int, least: float) -> float:
    """Return the least power of two, `least` or more, by which the last cell's number stays below `most`."""
    size = least
    while last(size) >= most:
        size *= 2
    return size
