"""Down-sampling: first, last, minimum and maximum of each bucket; a pure, deterministic function."""

from collections.abc import Sequence

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
