"""The critical path of a trace: the chain of operations and messages that the end of a stretch waited for.

From the end backwards. Where a thread waited, the path continues in the one that it waited for: the sender of the
message that ended the wait, the last rank to enter a barrier or a collective, the last holder of a lock. Where a server
began a request only when it was free, it continues through the server's preceding request, and else at the sender.
A wait whose end left no trace stays on the path as one of an unknown cause.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.metrics import PHASES
from engine.trace.layout import EVERYBODY, KINDS
from engine.trace.timeline import KIND, Activities, Activity, RunTrace

LONGEST = 20_000
"""Parts of a path."""
TOGETHER = ("barrier", "collective")
MESSAGE = "message"
HELD = "held"
"""Kind of work under a lock that the next part of the path waited for."""
OVERLAPPED = "overlapped"
"""Kind of a collective inside of computing: its time is both."""
WORK = ("compute", "update", "evaluate", "data", "serve", "other")
"""Kinds of a rank's own work."""
WORK_KINDS = [KIND[kind] for kind in WORK]
IN_FLIGHT = 0.5
"""A server that was idle for more than this share of a request's way to it, or for longer than the request before took,
was free: the message took that long.
"""
assert {*WORK} < {*PHASES}
Thread = tuple[int, int]
"""A rank and a lane of it; lane 0 is the main thread."""


@dataclass(frozen=True)
class PathPart:
    """A stretch of the path in one rank; `kind` is that of the operation, `other` where none was traced, and `message`
    for the way between two ranks. `known` is False for a wait whose cause was not traced.
    """

    rank: int
    kind: str
    begin_ns: int
    end_ns: int
    position: int = -1
    known: bool = True


def critical_path(trace: RunTrace, begin_ns: int, end_ns: int) -> list[PathPart]:
    """Return the parts of the path between two times, the last one first."""
    walk, parts = _Walk(trace, begin_ns), list[PathPart]()
    thread, at = walk.last(end_ns)
    while at > begin_ns and len(parts) < LONGEST:
        found, thread, before = walk.back(thread, at)
        at = min(before, at - 1)
        parts += found
    return [part for part in parts if part.end_ns > part.begin_ns]


def own_work(trace: RunTrace, begin_ns: int, end_ns: int) -> list[int]:
    """Return for each rank the nanoseconds between two times in which a thread of it was at work."""
    kinds, found = trace.entries["kind"], []
    for rank in range(len(trace.roles)):
        of_rank = [did for thread, did in trace.threads.items() if thread[0] == rank]
        begin, end, position = (
            np.concatenate([np.empty(0, np.int64), *(np.array(getattr(did, column), np.int64) for did in of_rank)])
            for column in ("begin_ns", "end_ns", "position")
        )
        at_work = np.isin(kinds[position], WORK_KINDS)
        begin, end = np.clip(begin[at_work], begin_ns, end_ns), np.clip(end[at_work], begin_ns, end_ns)
        order = np.argsort(begin)
        until = np.maximum.accumulate(np.concatenate([[begin_ns], end[order]]))
        found.append(int(np.diff(until).sum() - np.maximum(0, begin[order] - until[:-1]).sum()))
    return found


class _Cause(NamedTuple):
    """What ended a wait: the thread in which the path continues, and when; `exact` where it is traced."""

    thread: Thread
    at_ns: int
    exact: bool = True


@dataclass(frozen=True)
class _Work:
    """A thread's own work: its stretches in order of time."""

    begin_ns: list[int]
    end_ns: list[int]
    index: list[int]
    """Among all stretches of the thread."""

    @classmethod
    def of(cls, kinds: NDArray[np.uint8], did: Activities) -> "_Work":
        index = np.flatnonzero(np.isin(kinds[did.position], WORK_KINDS)).tolist()
        return cls([did.begin_ns[each] for each in index], [did.end_ns[each] for each in index], index)

    def under_way(self, at: int) -> int | None:
        """Return which of it was under way just before a time."""
        found = bisect_left(self.end_ns, at)
        return found if found < len(self.end_ns) and self.begin_ns[found] < at else None

    def last(self, since: int, until: int) -> int | None:
        """Return which of it was the last to end between two times."""
        found = bisect_right(self.end_ns, until) - 1
        return found if found >= 0 and self.end_ns[found] > since else None


class _Walk:
    """Goes from an operation to what it waited for."""

    def __init__(self, trace: RunTrace, begin_ns: int) -> None:
        self.begin_ns = begin_ns
        self.threads = trace.threads
        entries, messages = trace.entries, trace.messages
        self.kinds = [KINDS[kind] for kind in entries["kind"].tolist()]
        self.peers: list[int] = entries["peer"].tolist()
        self.entered: list[int] = entries["entered_ns"].tolist()
        self.left: list[int] = entries["left_ns"].tolist()
        self.thread_of = list(zip(trace.ranks.tolist(), entries["lane"].tolist(), strict=True))
        self.copies = set(np.flatnonzero(np.isin(entries["name"], _numbers(trace, "send", "receive"))).tolist())
        """Operations that only copy: they wait for nobody."""
        self.work = {thread: _Work.of(entries["kind"], did) for thread, did in self.threads.items()}
        self.senders, self.sent_ns = messages.senders.tolist(), messages.sent_ns.tolist()
        self.message_of = dict(zip(messages.receivers.tolist(), range(len(self.senders)), strict=True))
        to = trace.ranks[messages.receivers]
        self.messages_to = [np.flatnonzero(to == rank).tolist() for rank in range(len(trace.roles))]
        """By receiving rank: its messages, in order of the times sent."""
        self.latest = self._latest_to_enter(trace)
        self.pools = self._pools()

    def _latest_to_enter(self, trace: RunTrace) -> dict[int, int]:
        """Return for each operation in a barrier or a collective that of the rank that entered it last."""
        entries = trace.entries
        together = np.isin(entries["kind"], [KIND[kind] for kind in TOGETHER]) & (entries["peer"] == EVERYBODY)
        met = np.flatnonzero(together)
        keys = list(zip(*(entries[column][met].tolist() for column in ("kind", "name", "number")), strict=True))
        last = dict(zip(keys, met.tolist(), strict=True))  # they are in order of time entered
        return {position: last[key] for position, key in zip(met.tolist(), keys, strict=True)}

    def _pools(self) -> dict[int, list[int]]:
        """Return for each rank whose further threads only handle calls, one at a time: the calls, in order of their
        ends.
        """
        found: dict[int, list[int]] = {}
        for (rank, lane), did in self.threads.items():
            if lane:
                found.setdefault(rank, []).extend(set(did.outer))
        return {
            rank: sorted(calls, key=self.left.__getitem__)
            for rank, calls in found.items()
            if all(self.kinds[call] in ("serve", "compute") for call in calls)
        }

    # ---- where the path ends

    def last(self, end_ns: int) -> tuple[Thread, int]:
        """Return the thread where the path ends, and when: one that is at work at the end of the stretch, for the
        longest time, else the one that ended last. A server's test beside its requests holds nobody up.
        """
        at_work, ended = list[tuple[bool, int, Thread]](), [(self.begin_ns, (0, 0))]
        for thread, did in self.threads.items():
            work = self.work[thread]
            if (now := work.under_way(end_ns)) is not None:
                at_work.append((thread[1] == 0 and thread[0] in self.pools, work.begin_ns[now], thread))
            index = bisect_right(did.end_ns, end_ns) - 1
            while index >= 0 and self.kinds[did.position[index]] in ("wait", "lock"):
                index -= 1
            ended.append((did.end_ns[index] if index >= 0 else 0, thread))
        if at_work:
            return min(at_work)[2], end_ns
        at, thread = max(ended)
        return thread, at

    # ---- one step back

    def back(self, thread: Thread, at: int) -> tuple[list[PathPart], Thread, int]:
        """Return the parts of the path that end at a time in a thread, and the thread and time before them."""
        rank = thread[0]
        did = self.threads[thread]
        index = bisect_left(did.begin_ns, at) - 1
        in_pool = thread[1] > 0 and rank in self.pools
        if index < 0:
            return [PathPart(rank, "wait" if in_pool else "other", self.begin_ns, at, known=not in_pool)], thread, 0
        now = did[index]
        if now.end_ns < at:
            gap = PathPart(rank, "wait" if in_pool else "other", max(now.end_ns, self.begin_ns), at, known=not in_pool)
            return [gap], thread, now.end_ns
        if in_pool and self.entered[now.outer] == now.begin_ns:
            return self._before_call(thread, now, at)
        kind = self.kinds[now.position]
        if kind not in WORK and now.position not in self.copies:
            following = did[index + 1] if index + 1 < len(did) else None
            if (cause := self._waited_for(thread, now, following, at)) is not None:
                label = kind if kind in (*TOGETHER, "lock") else MESSAGE if cause.exact else "wait"
                since = max(cause.at_ns, self.begin_ns)
                parts = [PathPart(rank, self._overlapped(label, now), since, at, now.position, known=cause.exact)]
                if kind == "lock" and (held := self._held(cause)) is not None:
                    return [*parts, held], cause.thread, held.begin_ns
                return parts, cause.thread, cause.at_ns
        known = kind in (*WORK, *TOGETHER) or now.position in self.copies
        part = PathPart(
            rank, self._overlapped(kind, now), max(now.begin_ns, self.begin_ns), at, now.position, known=known
        )
        return [part], thread, now.begin_ns

    def _overlapped(self, kind: str, now: Activity) -> str:
        is_both = kind == "collective" and now.around >= 0 and self.kinds[now.around] == "compute"
        return OVERLAPPED if is_both else kind

    def _held(self, cause: _Cause) -> PathPart | None:
        """Return the part that is the work of who held a lock until then."""
        work = self.work[cause.thread]
        if (index := work.under_way(cause.at_ns)) is None:
            return None
        position = self.threads[cause.thread].position[work.index[index]]
        return PathPart(cause.thread[0], HELD, max(work.begin_ns[index], self.begin_ns), cause.at_ns, position)

    # ---- calls that a rank's further threads handle

    def _before_call(self, thread: Thread, now: Activity, at: int) -> tuple[list[PathPart], Thread, int]:
        """Return the part of a call that a thread handled until `at`, and what it began after: the call's arrival, or
        the end of the call before it in any thread of the rank.
        """
        rank = thread[0]
        free, took, before = self._call_before(rank, now.outer, at)
        start = max(now.begin_ns, free)
        parts = [PathPart(rank, self.kinds[now.position], max(start, self.begin_ns), at, now.position)]
        sender, sent = self._caller(thread, now)
        if sender is not None and (free <= sent or start - free > min(IN_FLIGHT * (start - sent), took)):
            return [*parts, PathPart(rank, MESSAGE, max(sent, self.begin_ns), start, now.position)], sender, sent
        if before is None:
            return parts, thread, start
        is_idle = sender is None and start - free > at - start
        kind, known = ("wait", False) if is_idle else ("other", True)
        return [*parts, PathPart(rank, kind, max(free, self.begin_ns), start, known=known)], before, free

    def _call_before(self, rank: int, call: int, at: int) -> tuple[int, int, Thread | None]:
        """Return when the last call of a rank before `at` ended, how long it took, and its thread."""
        calls = self.pools[rank]
        index = bisect_left(calls, at, key=self.left.__getitem__) - 1
        if index < 0 or calls[index] == call:
            return 0, 0, None
        last = calls[index]
        return self.left[last], self.left[last] - self.entered[last], self.thread_of[last]

    def _caller(self, thread: Thread, now: Activity) -> tuple[Thread | None, int]:
        """Return who called, and when."""
        if (message := self.message_of.get(now.outer)) is not None:
            return self.thread_of[self.senders[message]], self.sent_ns[message]
        main = self._doing((thread[0], 0), now.begin_ns)
        if main is None or not 0 <= self.peers[main.position] != thread[0]:
            return None, 0
        caller = self.peers[main.position], 0
        there = self._doing(caller, now.begin_ns)
        if there is None:
            return None, 0
        return caller, now.begin_ns if self.kinds[there.position] in WORK else there.begin_ns

    def _doing(self, thread: Thread, at: int) -> Activity | None:
        """Return what a thread was doing just before a time."""
        did = self.threads.get(thread)
        index = bisect_left(did.begin_ns, at) - 1 if did else -1
        return did[index] if did and index >= 0 and did.end_ns[index] >= at else None

    # ---- waits

    def _waited_for(self, thread: Thread, now: Activity, following: Activity | None, until: int) -> _Cause | None:
        """Return what ended a thread's wait; None where it is not traced."""
        kind, since = self.kinds[now.position], now.begin_ns
        if kind in TOGETHER:
            last = self.latest.get(now.position, now.position)
            arrived = self.entered[last]
            return _Cause(self.thread_of[last], arrived) if since < arrived < until else None
        pairs = [now.position] if following is None or kind != "wait" else [now.position, following.position]
        for position in pairs:
            if (message := self.message_of.get(position)) is not None:
                sender, sent = self.thread_of[self.senders[message]], self.sent_ns[message]
                if sender != thread and since < sent <= until:
                    return _Cause(sender, sent)
        if kind == "lock":
            return self._holder(thread, since, until)
        return self._sender(thread, now, until) if kind == "wait" else None

    def _holder(self, thread: Thread, since: int, until: int) -> _Cause | None:
        """Return who released a lock: the last one whose work under a lock ended, or whose work ended."""
        under_lock, any_work = list[_Cause](), list[_Cause]()
        for other, work in self.work.items():
            if other != thread and (last := work.last(since, until)) is not None:
                around = self.threads[other].around[work.index[last]]
                is_under = around >= 0 and self.kinds[around] == "lock"
                (under_lock if is_under else any_work).append(_Cause(other, work.end_ns[last]))
        return max(under_lock or any_work, key=lambda cause: cause.at_ns, default=None)

    def _sender(self, thread: Thread, now: Activity, until: int) -> _Cause | None:
        """Return who ended a wait that is for a rank, or for all: by a message, or by ending its own work."""
        peer, since = self.peers[now.position], now.begin_ns
        if peer < 0 and peer != EVERYBODY:
            return None
        found = self._last_message(thread, peer, since, until)
        if found and peer != EVERYBODY:
            return found[0]
        others = [each for each in self.work if each != thread and (peer == EVERYBODY or self._works_for(peer, each))]
        for other in others:
            last = self.work[other].last(since, until)
            # where a message may have ended the wait, one that has sent nothing and works on did not
            if last is not None and not (found and self._is_at_work(other, until)):
                found.append(_Cause(other, self.work[other].end_ns[last], exact=False))
        if not found and peer >= 0:
            return next((_Cause(other, until) for other in others if self._is_at_work(other, until)), None)
        return max(found, key=lambda cause: cause.at_ns, default=None)

    def _last_message(self, thread: Thread, peer: int, since: int, until: int) -> list[_Cause]:
        """Return the last message between two times from a rank, or from all, if there is one."""
        messages = self.messages_to[thread[0]]
        for at in range(bisect_right(messages, until, key=self.sent_ns.__getitem__) - 1, -1, -1):
            sent, sender = self.sent_ns[messages[at]], self.thread_of[self.senders[messages[at]]]
            if sent <= since:
                break
            if sender != thread and peer in (sender[0], EVERYBODY):
                return [_Cause(sender, sent)]
        return []

    def _works_for(self, rank: int, thread: Thread) -> bool:
        """Return whether a thread does the work of a rank: its main one, or those that handle its calls."""
        return thread[0] == rank and (thread[1] == 0 or rank in self.pools)

    def _is_at_work(self, thread: Thread, at: int) -> bool:
        return self.work[thread].under_way(at) is not None


def _numbers(trace: RunTrace, *names: str) -> list[int]:
    return [number for number, name in enumerate(trace.names) if name in names]
