"""Down-sampling: first, last, minimum and maximum of each bucket; a pure, deterministic function."""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.store.schema.minmax_buckets import CORNERS, bucket_size


def kept(values: Sequence[float] | np.ndarray, max_points: int) -> list[int]:
    """Return the positions, in order, of at most `max_points` (at least 5) values that draw the same curve.

    A bucket has 2^k consecutive values from the start, so appending a value changes only the last bucket, or merges
    buckets in pairs: a dropped point never returns. A NaN is never minimum or maximum; an infinity may be.
    """
    if max_points < CORNERS + 1:
        raise ValueError(f"max_points must be at least {CORNERS + 1}; got {max_points}.")
    count = len(values)
    if count <= max_points:
        return list(range(count))
    array = np.asarray(values, dtype=np.float64)
    missing = np.isnan(array)
    size = bucket_size(count, max_points // (CORNERS + bool(missing.any())))
    starts = np.arange(0, count, size)
    corners = [
        starts,
        np.minimum(starts + size, count) - 1,
        starts + _buckets(np.where(missing, np.inf, array), size, np.inf).argmin(axis=1),
        starts + _buckets(np.where(missing, -np.inf, array), size, -np.inf).argmax(axis=1),
    ]
    if missing.any():
        corners.append(starts + _buckets(missing, size, False).argmax(axis=1))
    return [int(position) for position in np.unique(np.concatenate(corners))]


def _buckets(array: np.ndarray, size: int, filler: float) -> np.ndarray:
    """Return the values with one bucket per row, the last one padded with values that are never preferred to a real
    one.
    """
    return np.pad(array, (0, -len(array) % size), constant_values=filler).reshape(-1, size)


# ---- Cache of ids and values of recently drawn curves: only new points of a growing curve are read -----------------
# Points of a run are only added, so cached points are always a prefix of the curve. Curves thinned by retention are
# not cached.

KEPT_BYTES = 16_000_000
_FROM = "SELECT id, coalesce(value, nonfinite) FROM points WHERE metric_id = ? AND id >= ? ORDER BY id"
_KINDS = np.dtype([("id", np.int64), ("value", np.float64)])


@dataclass(frozen=True)
class CachedCurve:
    """Points in recording order: arrays of int64 and float64, of equal length."""

    ids: np.ndarray
    values: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size of both arrays."""
        return self.ids.nbytes + self.values.nbytes


_lines: OrderedDict[Hashable, CachedCurve] = OrderedDict()
_lock = threading.Lock()


def line(cursor: sqlite3.Cursor, curve: Hashable, metric_id: int, total: int) -> CachedCurve:
    """Return all points of a curve in the cursor's snapshot, `total` by its summary; `curve` is a globally unique cache
    key.
    """
    with _lock:
        known = _lines.get(curve)
    found = (known and _continued(cursor, known, metric_id, total)) or _read(cursor, metric_id, 0)
    if found.ids.size:
        with _lock:
            _lines[curve] = found
            _lines.move_to_end(curve)
            while sum(each.nbytes for each in _lines.values()) > KEPT_BYTES:
                _lines.popitem(last=False)
    return found


def forget() -> None:
    """Clear the cache."""
    with _lock:
        _lines.clear()


def _continued(cursor: sqlite3.Cursor, known: CachedCurve, metric_id: int, total: int) -> CachedCurve | None:
    """Return a cached line extended by later points, or the part in the snapshot; None if it is not a prefix of the
    curve.
    """
    ids, values = known.ids[:total], known.values[:total]  # the snapshot may be older than what another has read
    again = _read(cursor, metric_id, int(ids[-1]))
    same = np.array_equal(again.ids[:1], ids[-1:]) and np.array_equal(again.values[:1], values[-1:], equal_nan=True)
    if not same or ids.size + again.ids.size - 1 != total:
        return None
    return CachedCurve(np.concatenate([ids, again.ids[1:]]), np.concatenate([values, again.values[1:]]))


def _read(cursor: sqlite3.Cursor, metric_id: int, first_id: int) -> CachedCurve:
    rows = np.fromiter(cursor.execute(_FROM, [metric_id, first_id]), dtype=_KINDS)
    return CachedCurve(np.ascontiguousarray(rows["id"]), np.ascontiguousarray(rows["value"]))
