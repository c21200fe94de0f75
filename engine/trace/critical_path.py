"""The critical path of a trace: the chain of operations and messages that the end of a stretch waited for.

From the end backwards: where the last operation of a rank waited for a message, the path continues at its sender; where
it waited in a barrier or a collective, at the rank that entered last; else through the operation itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.trace.layout import EVERYBODY, KINDS
from engine.trace.timeline import KIND, Positions, RunTrace

LONGEST = 20_000
"""Parts of a path."""
TOGETHER = ("barrier", "collective")
MESSAGE = "message"
WAITS = ("wait", *TOGETHER, "communicate", "rpc", "queue", "lock")


@dataclass(frozen=True)
class PathPart:
    """A stretch of the path in one rank; `kind` is that of the operation, `other` where none was traced, and `message`
    for the way between two ranks.
    """

    rank: int
    kind: str
    begin_ns: int
    end_ns: int
    position: int = -1


def critical_path(trace: RunTrace, begin_ns: int, end_ns: int) -> list[PathPart]:
    """Return the parts of the path between two times, the last one first."""
    walk, parts = _Walk(trace, begin_ns), list[PathPart]()
    rank, at = walk.last(end_ns)
    while at > begin_ns and len(parts) < LONGEST:
        found, rank, at = walk.back(rank, at)
        parts += found
    return [part for part in parts if part.end_ns > part.begin_ns]


class _Walk:
    """Goes from an operation to what it waited for."""

    def __init__(self, trace: RunTrace, begin_ns: int) -> None:
        self.trace, self.begin_ns = trace, begin_ns
        self.of_rank = [_leaves(trace, rank) for rank in range(len(trace.roles))]
        """The innermost operations of each rank, by their ends."""
        self.left = [trace.entries["left_ns"][mine] for mine in self.of_rank]
        messages = trace.messages
        self.message_of = {int(at): number for number, at in enumerate(messages.receivers)}
        to = trace.ranks[messages.receivers]
        self.messages_to = [np.flatnonzero(to == rank) for rank in range(len(trace.roles))]
        self.latest = _latest_to_enter(trace)

    def last(self, end_ns: int) -> tuple[int, int]:
        """Return the rank where the path ends, and when: one that is at work at the end of the stretch, for the longest
        time, else the one whose last operation before it ended last.
        """
        at_work = []
        for rank, mine in enumerate(self.of_rank):
            index = int(np.searchsorted(self.left[rank], end_ns))
            if index < len(mine):
                entry = self.trace.entries[mine[index]]
                if int(entry["entered_ns"]) < end_ns and KINDS[entry["kind"]] not in WAITS:
                    at_work.append((int(entry["entered_ns"]), rank))
        if at_work:
            return min(at_work)[1], end_ns
        best, at = 0, self.begin_ns
        for rank, left in enumerate(self.left):
            index = int(np.searchsorted(left, end_ns, "right")) - 1
            if index >= 0 and int(left[index]) > at:
                best, at = rank, int(left[index])
        return best, at

    def back(self, rank: int, at: int) -> tuple[list[PathPart], int, int]:
        """Return the parts of the path that end at a time in a rank, and the rank and time before them."""
        entries = self.trace.entries
        position = self._operation(rank, at)
        if position < 0:
            return [PathPart(rank, "other", self.begin_ns, at)], rank, self.begin_ns
        entry = entries[position]
        entered, left, kind = int(entry["entered_ns"]), int(entry["left_ns"]), KINDS[entry["kind"]]
        parts = [PathPart(rank, "other", left, at)] if left < at else []
        until = min(at, left)
        if (found := self._waited_for(rank, position, entered, until)) is not None:
            other, then = found
            kind = kind if kind in TOGETHER else MESSAGE
            return [*parts, PathPart(rank, kind, max(then, self.begin_ns), until, position)], other, then
        begin = max(entered, self.begin_ns)
        parts.append(PathPart(rank, kind, begin, until, position))
        number = self.message_of.get(position)
        if kind == "serve" and number is not None:
            sent = int(self.trace.messages.sent_ns[number])
            parts.append(PathPart(rank, MESSAGE, max(sent, self.begin_ns), begin, position))
            return parts, int(self.trace.ranks[self.trace.messages.senders[number]]), min(sent, at - 1)
        return parts, rank, min(begin, at - 1)

    def _operation(self, rank: int, at: int) -> int:
        """Return the operation of a rank that was under way just before a time, or the last one before it; or -1."""
        mine, left = self.of_rank[rank], self.left[rank]
        index = int(np.searchsorted(left, at))
        if index < len(mine) and int(self.trace.entries["entered_ns"][mine[index]]) < at:
            return int(mine[index])
        return int(mine[index - 1]) if index else -1

    def _waited_for(self, rank: int, position: int, entered: int, until: int) -> tuple[int, int] | None:
        """Return the rank that ended a wait, and the time at which it did what ended it."""
        entries, messages = self.trace.entries, self.trace.messages
        entry = entries[position]
        kind, peer = KINDS[entry["kind"]], int(entry["peer"])
        if kind in TOGETHER:
            last = self.latest.get(_key(entry), position)
            arrived = int(entries["entered_ns"][last])
            return (int(self.trace.ranks[last]), arrived) if entered < arrived < until else None
        number = self.message_of.get(position)
        if number is None and kind == "wait":
            mine = self.messages_to[rank]
            sent = messages.sent_ns[mine]
            index = int(np.searchsorted(sent, until, "right")) - 1
            number = int(mine[index]) if index >= 0 else None
        if number is not None:
            sender, sent_at = int(self.trace.ranks[messages.senders[number]]), int(messages.sent_ns[number])
            if sender != rank and entered < sent_at <= until and peer in (sender, EVERYBODY):
                return sender, sent_at
        if kind == "wait" and 0 <= peer < len(self.of_rank) and peer != rank:
            there = self._operation(peer, until)
            if there >= 0 and KINDS[entries["kind"][there]] != "wait" and int(entries["left_ns"][there]) > entered:
                return peer, until - 1  # what ended the wait left no trace
        return None


def _leaves(trace: RunTrace, rank: int) -> Positions:
    """Return the operations of a rank that have a duration and none inside, by their ends.

    Where a server's threads handle requests, the waits of its main thread for them are left out.
    """
    entries = trace.entries
    mine = np.flatnonzero((trace.ranks == rank) & (entries["left_ns"] > entries["entered_ns"]))
    in_lanes = mine[np.lexsort((entries["depth"][mine], entries["entered_ns"][mine], entries["lane"][mine]))]
    depth, lane = entries["depth"][in_lanes].astype(int), entries["lane"][in_lanes]
    has_inner = np.append((depth[1:] > depth[:-1]) & (lane[1:] == lane[:-1]), False)
    leaves = in_lanes[~has_inner] if len(in_lanes) else in_lanes
    if (entries["lane"][leaves] > 0).any():
        leaves = leaves[(entries["lane"][leaves] > 0) | (entries["kind"][leaves] != KIND["wait"])]
    found: Positions = leaves[np.argsort(entries["left_ns"][leaves], kind="stable")]
    return found


def _key(entry: NDArray[np.void]) -> tuple[int, int, int]:
    return int(entry["kind"]), int(entry["name"]), int(entry["number"])


def _latest_to_enter(trace: RunTrace) -> dict[tuple[int, int, int], int]:
    """Return for each barrier and collective the operation of the rank that entered it last."""
    entries = trace.entries
    together = np.isin(entries["kind"], [KIND[kind] for kind in TOGETHER]) & (entries["peer"] == EVERYBODY)
    return {_key(entries[at]): at for at in np.flatnonzero(together).tolist()}  # they are in order of time entered
