"""Who waits for whom, from what each rank is doing: the edges of the wait-for graph."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.trace.layout import EVERYBODY, NOBODY
from engine.trace.ring_reader import OpenOperation

BLOCKING = {"communicate", "wait", "receive", "send", "barrier", "collective", "rpc", "queue", "lock"}
"""Kinds of operations in which a rank waits for others."""
TOGETHER = {"barrier", "collective"}
"""Kinds that end when all ranks have entered."""
LONG = ("evaluate", "data", "other")
"""Phases in which a rank may work, or wait for a disk, for long."""
OUTSIDE = ("env step", "rollout", "sleep")
"""Names of operations whose time is that of an environment, or set as a delay in the run's config."""


@dataclass(frozen=True)
class Doing:
    """What one rank is doing: the operations of its main thread, the outermost first, and those of further threads."""

    main: tuple[OpenOperation, ...] = ()
    others: tuple[OpenOperation, ...] = ()

    @classmethod
    def of(cls, operations: Sequence[OpenOperation]) -> "Doing":
        """Return what a rank is doing by its open operations."""
        return cls(
            tuple(each for each in operations if each.lane == 0), tuple(each for each in operations if each.lane > 0)
        )

    @property
    def innermost(self) -> OpenOperation | None:
        """The innermost operation of the main thread."""
        return self.main[-1] if self.main else None

    @property
    def is_idle(self) -> bool:
        """Whether the rank waits for nobody in particular, such as for the next time to look."""
        return (inner := self.innermost) is not None and (inner.kind, inner.peer) == ("wait", NOBODY)

    @property
    def serves(self) -> bool:
        """Whether another thread is at work, for a request or a call of another rank."""
        return any(each.kind not in BLOCKING for each in self._innermost_of_others)

    @property
    def is_outside(self) -> bool:
        """Whether a thread does what may take long without a core: reads data, saves, tests, steps an environment."""
        innermost = {each.lane: each for each in (*self.main, *self.others)}.values()
        working = {each.lane for each in innermost if each.kind not in BLOCKING}
        return any(
            each.lane in working and (each.kind in LONG or each.name in OUTSIDE) for each in (*self.main, *self.others)
        )

    @property
    def handler_waits(self) -> list[OpenOperation]:
        """The operations in which further threads wait for others, such as a call within the call that they handle."""
        return [each for each in self._innermost_of_others if each.kind in BLOCKING]

    @property
    def _innermost_of_others(self) -> Collection[OpenOperation]:
        return {each.lane: each for each in self.others}.values()

    @property
    def wait(self) -> OpenOperation | None:
        """The innermost operation in which the main thread waits for others; None if it does its own work."""
        inner = self.innermost
        return inner if inner is not None and inner.kind in BLOCKING else None


def edges(
    doing: Mapping[int, Doing],
    halted: Collection[int] = (),
    holders: Mapping[str, int] | None = None,
    exited: Collection[int] = (),
) -> dict[int, set[int]]:
    """Return for each rank those that it waits for; empty for one that does its own work.

    A rank in a barrier or a collective waits for all that have not entered it; one with a peer waits for the peer. A
    server that waits for requests waits for all that have no request with it and are not idle. One that is `halted`, by
    a signal or the kernel, waits for nobody. A rank whose further threads all wait waits for whom they wait for, too.
    `holders` are the ranks that hold locks, by the lock's name; those that have `exited` can be waited for, in vain.
    """
    found: dict[int, set[int]] = {rank: set() for rank in doing}
    for rank, own in doing.items():
        if rank not in halted and own.wait is not None and not own.serves:
            for wait in (own.wait, *own.handler_waits):
                found[rank] |= _targets(rank, wait, doing, halted, holders or {}, exited)
            found[rank].discard(rank)
    return found


def _targets(
    rank: int,
    wait: OpenOperation,
    doing: Mapping[int, Doing],
    halted: Collection[int],
    holders: Mapping[str, int],
    exited: Collection[int],
) -> set[int]:
    if wait.kind in TOGETHER:
        return {other for other in doing if not _has_entered(wait, doing[other])} | set(exited)
    if wait.kind == "lock":
        return {holders[wait.name]} & set(doing) if wait.name in holders else set()
    if wait.peer >= 0:
        return {wait.peer} & {*doing, *exited}
    if wait.peer != EVERYBODY:
        return set()
    return {other for other in doing if other in halted or not (doing[other].is_idle or _waits_for(rank, doing[other]))}


def _has_entered(wait: OpenOperation, other: Doing) -> bool:
    return any((each.kind, each.name) == (wait.kind, wait.name) and each.number >= wait.number for each in other.main)


def _waits_for(rank: int, other: Doing) -> bool:
    return not other.serves and any(each.peer == rank and each.kind in BLOCKING for each in other.main)


def roots(graph: Mapping[int, set[int]], start: int) -> set[int]:
    """Return the ranks at the ends of all waits that begin at a rank: those that wait for nobody."""
    seen, found, at = {start}, set(), [start]
    while at:
        rank = at.pop()
        if not graph.get(rank):
            found.add(rank)
        for other in graph.get(rank, ()):
            if other not in seen:
                seen.add(other)
                at.append(other)
    return found


def cycle(graph: Mapping[int, set[int]], among: Collection[int] | None = None) -> list[int]:
    """Return a shortest cycle of waits, only `among` these ranks if given, or an empty list."""
    if among is not None:
        graph = {rank: targets & set(among) for rank, targets in graph.items() if rank in among}
    best: list[int] = []
    for start in graph:
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for other in sorted(graph.get(path[-1], ())):
                if other == start and (not best or len(path) < len(best)):
                    best = path
                if other not in seen:
                    seen.add(other)
                    paths.append([*path, other])
    return best
