"""The stored trace of a run as one table: every operation with its rank, in order of time, and the messages between
ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.trace.chunk import DTYPE, Entries, TraceChunk
from engine.trace.layout import KINDS, TraceWindow

Positions = NDArray[np.int64]
KIND = {name: number for number, name in enumerate(KINDS)}


@dataclass(frozen=True, eq=False)
class RunTrace:
    """Operations of a run, sorted by the time entered; an entry's `name` is an index into `names`."""

    zero_ns: int
    """The time (monotonic clock) at which all ranks were ready."""
    windows: tuple[TraceWindow, ...]
    roles: tuple[str, ...]
    """By rank."""
    names: tuple[str, ...]
    ranks: NDArray[np.int16]
    """The rank of each entry."""
    entries: Entries
    lost: int
    """Operations that were overwritten before they could be read."""

    @classmethod
    def of(cls, windows: Sequence[TraceWindow], chunks: Sequence[TraceChunk], roles: Sequence[str]) -> "RunTrace":
        """Return the trace made of a run's chunks; `roles` are those of its ranks, in order."""
        names: dict[str, int] = {}
        parts, ranks = [np.empty(0, DTYPE)], [np.empty(0, np.int16)]
        for chunk in chunks:
            renumbered = np.array([names.setdefault(name, len(names)) for name in chunk.names], np.uint16)
            part = chunk.entries.copy()
            part["name"] = renumbered[part["name"]]
            parts.append(part)
            ranks.append(np.full(len(part), chunk.rank, np.int16))
        entries, of_rank = np.concatenate(parts), np.concatenate(ranks)
        order = np.argsort(entries["entered_ns"], kind="stable")
        zero = windows[0].begin_ns if windows else int(entries["entered_ns"].min(initial=0))
        return cls(
            zero,
            tuple(windows),
            tuple(roles),
            tuple(names),
            of_rank[order],
            entries[order],
            sum(chunk.lost for chunk in chunks),
        )

    def __len__(self) -> int:
        return len(self.entries)

    def between(self, begin_ns: int, end_ns: int) -> "RunTrace":
        """Return the operations that were under way between two times, as a trace of its own."""
        until = int(np.searchsorted(self.entries["entered_ns"], end_ns))
        inside = np.flatnonzero(self.entries["left_ns"][:until] >= begin_ns)
        return replace(self, ranks=self.ranks[inside], entries=self.entries[inside])

    def seconds(self, at_ns: int) -> float:
        """Return a time of the trace in seconds after all ranks were ready."""
        return (at_ns - self.zero_ns) / 1e9

    def label(self, position: int) -> str:
        """Return what an operation is called: its name, else its kind."""
        entry = self.entries[position]
        return self.names[entry["name"]] or KINDS[entry["kind"]]

    def peer(self, position: int) -> str:
        """Return the role at the other end of an operation; empty where there is none, or not one."""
        peer = int(self.entries[position]["peer"])
        return self.roles[peer] if 0 <= peer < len(self.roles) else ""

    @cached_property
    def messages(self) -> "Messages":
        """The messages between ranks."""
        return Messages.of(self)

    @cached_property
    def threads(self) -> "dict[tuple[int, int], Activities]":
        """By rank and lane: what the thread did, without gaps inside an operation, in order of time."""
        entries = self.entries
        timed = np.flatnonzero(entries["left_ns"] > entries["entered_ns"])
        lanes = self.ranks[timed].astype(np.int64) * 256 + entries["lane"][timed]
        order = timed[np.lexsort((entries["depth"][timed], entries["entered_ns"][timed], lanes))]
        of_thread = np.split(order, np.flatnonzero(np.diff(np.sort(lanes))) + 1)
        return {
            (int(self.ranks[own[0]]), int(entries["lane"][own[0]])): Activities.of(entries, own)
            for own in of_thread
            if len(own)
        }


class Activity(NamedTuple):
    """A time in which an operation was a thread's innermost one; `outer` is the outermost one, both by position, and
    `around` the one that this one is inside of, or -1.
    """

    begin_ns: int
    end_ns: int
    position: int
    outer: int
    around: int


@dataclass(frozen=True)
class Activities:
    """What one thread did, by columns of `Activity`."""

    begin_ns: list[int]
    end_ns: list[int]
    position: list[int]
    outer: list[int]
    around: list[int]

    @classmethod
    def of(cls, entries: Entries, positions: Positions) -> "Activities":
        """Return when each of a thread's operations was the innermost one; `positions` are in order of time entered, an
        outer operation first.
        """
        entered, left = entries["entered_ns"][positions], entries["left_ns"][positions]
        own: list[int] = positions.tolist()
        if (entered[1:] >= left[:-1]).all():
            return cls(entered.tolist(), left.tolist(), own, own, [-1] * len(own))
        found, open_, at = cls([], [], [], [], []), list[tuple[int, int]](), 0
        for begin, end, position in zip(entered.tolist(), left.tolist(), own, strict=True):
            while open_ and open_[-1][0] <= begin:
                at = found._add(at, open_[-1][0], open_)
                open_.pop()
            at = max(found._add(at, begin, open_), begin)
            open_.append((end, position))
        while open_:
            at = found._add(at, open_[-1][0], open_)
            open_.pop()
        return found

    def _add(self, begin_ns: int, end_ns: int, open_: Sequence[tuple[int, int]]) -> int:
        """Add the time, if it is any, in which the last open operation was the innermost one; return its end."""
        if not open_ or end_ns <= begin_ns:
            return begin_ns
        self.begin_ns.append(begin_ns)
        self.end_ns.append(end_ns)
        self.position.append(open_[-1][1])
        self.outer.append(open_[0][1])
        self.around.append(open_[-2][1] if len(open_) > 1 else -1)
        return end_ns

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, index: int) -> Activity:
        return Activity(
            self.begin_ns[index], self.end_ns[index], self.position[index], self.outer[index], self.around[index]
        )


@dataclass(frozen=True, eq=False)
class Messages:
    """Pairs of a trace's entries: the one that sends and the one that gets the message, by position."""

    senders: Positions
    receivers: Positions
    sent_ns: NDArray[np.int64]
    got_ns: NDArray[np.int64]

    @classmethod
    def none(cls) -> "Messages":
        """Return no messages."""
        return cls(*(np.empty(0, np.int64) for _ in range(4)))

    @classmethod
    def of(cls, trace: RunTrace) -> "Messages":
        """Pair the ends of each message: a request with its handling, an answer with the request that it ends, a send
        with its receive, a queued batch with its taking, work on a micro-batch with the next stage's.
        """
        found = [_requests(trace), _answers(trace), _transfers(trace), _queued(trace), _handed_on(trace)]
        senders, receivers, sent, got = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(sent, kind="stable")
        return cls(senders[order], receivers[order], sent[order], got[order])


_Pairs = tuple[Positions, Positions, Positions, Positions]


def _requests(trace: RunTrace) -> _Pairs:
    """Pair each request that a server handles with the operation of the rank that asked."""
    served, asked = _with_asking(trace, _of(trace, "serve", "request"))
    return asked, served, trace.entries["entered_ns"][asked], trace.entries["entered_ns"][served]


def _answers(trace: RunTrace) -> _Pairs:
    """Pair each answer of a server with the operation that it ends."""
    answers, asked = _with_asking(trace, _of(trace, "send", "answer"))
    return answers, asked, trace.entries["entered_ns"][answers], trace.entries["left_ns"][asked]


def _with_asking(trace: RunTrace, at_server: Positions) -> tuple[Positions, Positions]:
    """Return the entries of a server that belong to a client's operation, and these operations."""
    asking = _asking(trace, at_server)
    return at_server[asking >= 0], asking[asking >= 0]


def _asking(trace: RunTrace, at_server: Positions) -> Positions:
    """Return for each entry of a server the client's operation that it belongs to, by position, or -1: the one towards
    this server, of this number, that was under way.
    """
    entries, found = trace.entries, np.full(len(at_server), -1, np.int64)
    is_ask = np.isin(entries["kind"], (KIND["communicate"], KIND["rpc"])) & (entries["peer"] >= 0)
    clients = entries["peer"][at_server]
    for client in np.unique(clients):
        asks = np.flatnonzero(is_ask & (trace.ranks == client))
        if not len(asks):
            continue
        mine = np.flatnonzero(clients == client)
        at = np.searchsorted(entries["entered_ns"][asks], entries["entered_ns"][at_server[mine]], "right") - 1
        ask = asks[np.maximum(at, 0)]
        server = at_server[mine]
        fits = (
            (at >= 0)
            & (entries["left_ns"][ask] >= entries["entered_ns"][server])
            & (entries["number"][ask] == entries["number"][server])
            & (entries["peer"][ask] == trace.ranks[server])
        )
        found[mine[fits]] = ask[fits]
    return found


def _transfers(trace: RunTrace) -> _Pairs:
    """Pair each send with the receive of the same number at the other rank: the next one in time."""
    return _next(trace, _of(trace, "communicate", "send"), _of(trace, "communicate", "receive"), "left_ns")


def _queued(trace: RunTrace) -> _Pairs:
    """Pair each batch put into a queue with its taking."""
    return _next(trace, _of(trace, "queue", "put"), _of(trace, "queue", "get"), "entered_ns")


def _handed_on(trace: RunTrace) -> _Pairs:
    """Pair a stage's forward or backward of a micro-batch with the one that needs its result, where the stages' sends
    and receives are those of a library and not traced.
    """
    entries = trace.entries
    pairs: list[tuple[int, int]] = []
    for name, step in (("forward", 1), ("backward", -1)):
        work = _of(trace, "compute", name)
        if not len(work) or len(_of(trace, "communicate", "receive")):
            continue
        keys = list(zip(entries["value"][work].tolist(), entries["number"][work].tolist(), strict=True))
        last = dict(zip(keys, work.tolist(), strict=True))
        begun: set[tuple[int, int]] = set()
        for position, (stage, number) in zip(work.tolist(), keys, strict=True):
            sender = last.get((stage - step, number), -1)
            if sender >= 0 and (stage, number) not in begun:
                begun.add((stage, number))
                if entries["left_ns"][sender] <= entries["entered_ns"][position]:
                    pairs.append((sender, position))
    senders, receivers = (np.array(part, np.int64) for part in (zip(*pairs, strict=True) if pairs else ((), ())))
    return senders, receivers, entries["left_ns"][senders], entries["entered_ns"][receivers]


def _next(trace: RunTrace, first: Positions, second: Positions, got: str) -> _Pairs:
    """Pair each of `first` with the next one of `second` with its number, its rank as the peer and its peer as rank."""
    entries = trace.entries
    waiting: dict[tuple[int, int, int], list[int]] = {}
    pairs: list[tuple[int, int]] = []
    ends = np.concatenate([first, second])
    is_first = np.concatenate([np.ones(len(first), bool), np.zeros(len(second), bool)])
    order = np.argsort(np.where(is_first, entries["entered_ns"][ends], entries["left_ns"][ends]), kind="stable")
    for position, sends in zip(ends[order].tolist(), is_first[order].tolist(), strict=True):
        rank, peer, number = (
            int(trace.ranks[position]),
            int(entries["peer"][position]),
            int(entries["number"][position]),
        )
        if sends:
            waiting.setdefault((rank, peer, number), []).append(position)
        elif sent := waiting.get((peer, rank, number)):
            pairs.append((sent.pop(0), position))
    senders, receivers = (np.array(part, np.int64) for part in (zip(*pairs, strict=True) if pairs else ((), ())))
    return senders, receivers, entries["entered_ns"][senders], entries[got][receivers]


def _of(trace: RunTrace, kind: str, name: str) -> Positions:
    """Return the positions of the entries of a kind and a name."""
    if name not in trace.names:
        return np.empty(0, np.int64)
    entries = trace.entries
    return np.flatnonzero((entries["kind"] == KIND[kind]) & (entries["name"] == trace.names.index(name)))
