"""What of a trace is drawn in one picture: at most `MOST` rectangles, whatever the number of operations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.trace.layout import KINDS
from engine.trace.timeline import Positions, RunTrace

MOST = 2_000
"""Rectangles in a picture."""
MOST_ARROWS = 300
"""Messages above which a picture shows none, since their arrows would hide everything."""


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
    """The operation, or the longest one of several."""

    def __len__(self) -> int:
        return len(self.rows)


def rectangles(trace: RunTrace, begin_ns: int, end_ns: int, most: int = MOST) -> Rectangles:
    """Return what to draw of the operations between two times; short neighbours are drawn as one."""
    entries = trace.entries
    until = int(np.searchsorted(entries["entered_ns"], end_ns))
    at = np.flatnonzero((entries["left_ns"][:until] >= begin_ns) & (entries["left_ns"] > entries["entered_ns"])[:until])
    whole = _whole(trace, at)
    if len(at) <= most:
        return whole
    groups = np.unique(_group(whole))
    bins = max(1, most // (2 * max(1, len(groups))))
    width = max(1, (end_ns - begin_ns) // bins)
    is_long = whole.end_ns - whole.begin_ns >= width
    merged = _merged(_some(whole, ~is_long), begin_ns, width)
    long = _some(whole, is_long)
    return Rectangles(*(np.concatenate([getattr(part, name) for part in (long, merged)]) for name in _NAMES))


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


def _group(drawn: Rectangles) -> NDArray[np.int64]:
    return drawn.rows * 2 + drawn.inner


def _merged(short: Rectangles, begin_ns: int, width: int) -> Rectangles:
    """Return one rectangle for the operations of a row that begin in the same bin: from the first to the last, with the
    kind that takes the most time.
    """
    if not len(short):
        return short
    taken = short.end_ns - short.begin_ns
    key = _group(short) * (1 << 40) + np.maximum(0, (short.begin_ns - begin_ns) // width)
    kinds = key * len(KINDS) + short.kinds
    of_kind, kind_index = np.unique(kinds, return_inverse=True)
    time_of_kind = np.bincount(kind_index, taken)
    order = np.lexsort((time_of_kind, of_kind // len(KINDS)))
    bins, last = np.unique((of_kind // len(KINDS))[order][::-1], return_index=True)
    best = (of_kind % len(KINDS))[order][::-1][last]
    _, index = np.unique(key, return_inverse=True)
    count = len(bins)
    begin, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(begin, index, short.begin_ns)
    np.maximum.at(end, index, short.end_ns)
    longest = np.lexsort((taken, index))
    ends = np.flatnonzero(np.diff(np.append(index[longest], count)))
    group = bins // (1 << 40)
    return Rectangles(group // 2, group % 2 == 1, begin, end, best, np.bincount(index), short.positions[longest[ends]])


def arrows(trace: RunTrace, begin_ns: int, end_ns: int, most: int = MOST_ARROWS) -> tuple[Positions, int]:
    """Return the messages between two times, as indices into `trace.messages`, and their number; none if too many."""
    messages = trace.messages
    found = np.flatnonzero((messages.got_ns >= begin_ns) & (messages.sent_ns <= end_ns))
    return (found if len(found) <= most else found[:0]), len(found)
