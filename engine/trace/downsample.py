"""What of a trace is drawn in one picture: at most `MOST` rectangles, whatever the number of operations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.trace.layout import KINDS
from engine.trace.timeline import Messages, Positions, RunTrace

MOST = 2_000
"""Rectangles in a picture."""
MOST_ARROWS = 300
"""Messages above which a picture shows none, since their arrows would hide everything."""

MOST_ANALYSED = 50_000
"""Operations of a stretch up to which its messages and its critical path are found."""


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Operations to draw. A row is 2 x rank for its main thread, and one more for its other threads."""

    rows: NDArray[np.int64]
    inner: NDArray[np.bool_]
    """Whether it lies inside another operation of its thread."""
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kinds: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Operations that a rectangle stands for; one that stands for several has the kind that takes the most time."""
    positions: Positions
    """The operation, or one of several."""

    def __len__(self) -> int:
        return len(self.rows)


def rectangles(trace: RunTrace, begin_ns: int, end_ns: int, most: int = MOST) -> Rectangles:
    """Return what to draw of the operations between two times; short neighbours are drawn as one."""
    entries = trace.entries
    until = int(np.searchsorted(entries["entered_ns"], end_ns))
    left = entries["left_ns"][:until]
    at = np.flatnonzero((left >= begin_ns) & (left > entries["entered_ns"][:until]))
    whole = _whole(trace, at)
    if len(at) <= most:
        return whole
    groups, group = _dense(whole.rows * 2 + whole.inner)
    bins = max(1, most // (2 * len(groups)))
    width = -(-(end_ns - begin_ns) // bins)
    is_long = whole.end_ns - whole.begin_ns >= width
    merged = _merged(_some(whole, ~is_long), groups, group[~is_long], begin_ns, width, bins)
    long = _some(whole, is_long)
    return Rectangles(*(np.concatenate([getattr(part, name) for part in (long, merged)]) for name in _NAMES))


def _dense(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct small values, and the index of each value among them."""
    used = np.flatnonzero(np.bincount(values))
    index = np.zeros(int(values.max()) + 1, np.int64)
    index[used] = np.arange(len(used))
    return used, index[values]


_NAMES = ("rows", "inner", "begin_ns", "end_ns", "kinds", "counts", "positions")


def _whole(trace: RunTrace, at: Positions) -> Rectangles:
    found = trace.entries[at]
    return Rectangles(
        trace.ranks[at].astype(np.int64) * 2 + (found["lane"] > 0),
        found["depth"] > 0,
        found["entered_ns"].astype(np.int64),
        found["left_ns"].astype(np.int64),
        found["kind"].astype(np.int64),
        np.ones(len(at), np.int64),
        at,
    )


def _some(all_of_them: Rectangles, chosen: NDArray[np.bool_]) -> Rectangles:
    return Rectangles(*(getattr(all_of_them, name)[chosen] for name in _NAMES))


def _merged(
    short: Rectangles, groups: NDArray[np.int64], group: NDArray[np.int64], begin_ns: int, width: int, bins: int
) -> Rectangles:
    """Return one rectangle for the operations of a row that begin in the same bin: from the first to the last, with the
    kind that takes the most time.
    """
    cell = group * bins + np.clip((short.begin_ns - begin_ns) // width, 0, bins - 1)
    count, kinds = len(groups) * bins, len(KINDS)
    time = np.bincount(cell * kinds + short.kinds, short.end_ns - short.begin_ns, count * kinds).reshape(count, kinds)
    begin, end, position = (np.zeros(count, np.int64) for _ in range(3))
    begin[cell[::-1]] = short.begin_ns[::-1]  # of several values the last is kept: the first, as they are sorted
    np.maximum.at(end, cell, short.end_ns)
    position[cell] = short.positions
    counts = np.bincount(cell, minlength=count)
    used = np.flatnonzero(counts)
    row = groups[used // bins]
    return Rectangles(
        row // 2, row % 2 == 1, begin[used], end[used], time[used].argmax(1), counts[used], position[used]
    )


def arrows(messages: Messages, begin_ns: int, end_ns: int, most: int = MOST_ARROWS) -> tuple[Positions, int]:
    """Return the messages between two times, by index, and their number; none if too many."""
    found = np.flatnonzero((messages.got_ns >= begin_ns) & (messages.sent_ns <= end_ns))
    return (found if len(found) <= most else found[:0]), len(found)
