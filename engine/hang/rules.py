"""Who waits for whom in a run, and the verdict: which rank is the cause of a standstill, why, and in which words.

HUNG needs that no rank makes progress, none works and each has been quiet for the limit; the watch (watch.py) asks for
the same result in further looks. A quiet rank that waits for one that makes progress is not stalled.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import enumeration
from engine.trace.health import RankState, Verdict, VerdictState
from engine.trace.layout import EVERYBODY, NOBODY
from engine.trace.ring_reader import OpenOperation

# ---- Who waits for whom, from what each rank is doing: the edges of the wait-for graph -----------------------------

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


# ---- The verdict ---------------------------------------------------------------------------------------------------

CAUSES = {
    "stopped": "it is stopped (SIGSTOP)",
    "dead": "its process has ended",
    "exited": "it has finished its work and left",
    "disk wait": "it waits for a disk",
    "lock": "it waits for a lock that is not released",
    "lock kept": "it keeps a lock and does not continue",
    "full queue": "it takes nothing from a full queue",
    "deadlock": "they wait for each other",
    "nested calls": "the threads that handle calls wait for calls themselves",
    "order mismatch": "ranks called different collective operations, or in another order",
    "unequal steps": "the ranks have different numbers of steps",
    "collective": "all ranks are in it, perhaps with different shapes or data types",
    "not joined": "it has not joined the run",
    "silent": "it waits for requests, and answers none",
    "stuck": "it does not continue and uses no CPU time",
}
STACKS = "Read its stack in the tab Ranks"
CURES = {
    "stopped": "Continue its process (kill -CONT, with its number in the tab Ranks), or cancel the run.",
    "dead": "Cancel the run, and read the end of this rank's log.",
    "exited": "Cancel the run, and give all ranks the same number of steps.",
    "disk wait": "Check the disk or file system that it uses, then wait or cancel the run.",
    "lock": f"{STACKS}, cancel the run, and release the lock wherever its block ends (with lock).",
    "lock kept": f"{STACKS}, cancel the run, and release the lock before anything that may wait.",
    "full queue": f"{STACKS}, cancel the run, and let it take from the queue.",
    "deadlock": "Cancel the run, and let one of them send before it waits.",
    "nested calls": "Cancel the run, and let no handler wait for a call of its own.",
    "order mismatch": "Cancel the run, and let all ranks call the same operations in the same order.",
    "unequal steps": "Cancel the run, and give all ranks the same number of steps.",
    "collective": "Cancel the run, and compare the shapes and data types that the ranks give.",
    "not joined": "Read its log: it may still prepare, or may not reach the others.",
    "silent": f"{STACKS}, cancel the run, and let it answer each request.",
    "stuck": f"{STACKS}; it may wait for something outside the run. Otherwise cancel the run.",
}
"""What a person can do, by cause."""
FULL = ("put", "free slot")
"""Names of operations that wait for room in a queue."""
HALTED = ("stopped", "dead", "disk wait")
"""States of a process that can't continue by itself: its cause is not whom it waits for."""
AWAITED = 0.5
"""Share of the limit for which a rank must have made no progress to count as one that waits: others are asking for what
they get at once.
"""
MISMATCH = "Is there a distributed collective mismatch in your code?"
"""What gloo writes before it ends a process that received another size than its own: not always the one at fault."""


def collective_cause(last_words: str) -> str:
    """Return what a process's last words say of a collective operation, with a leading space; empty if nothing."""
    if MISMATCH not in last_words:
        return ""
    return (
        " It received a vector of another size: ranks gave different shapes or data types to a collective operation. "
        "The rank at fault may be another one."
    )


@dataclass(frozen=True)
class RunState:
    """All that a verdict is based on."""

    ranks: Sequence[RankState]
    doing: Mapping[int, Doing]
    graph: Mapping[int, set[int]]
    limit_s: float
    """Seconds without progress from which on a rank counts as quiet."""
    started: bool = True
    """Whether all ranks were ready."""
    outside_s: float = 300.0
    """Seconds up to which a rank that waits for a disk, an environment or the like counts as slow, not as stuck."""

    def quiet(self, rank: int) -> bool:
        """Return whether a rank has made no progress for the limit."""
        return self.ranks[rank].since_s >= self.limit_s

    def goes_on(self, rank: RankState) -> bool:
        """Return whether a quiet rank works, or waits for something outside the run that may take long."""
        may_be_slow = rank.state not in ("stopped", "dead") and rank.since_s < self.outside_s
        is_loading = not self.started and rank.state == "disk wait"
        return rank.works or (may_be_slow and (is_loading or self.doing[rank.rank].is_outside))


def judge(picture: RunState) -> Verdict:
    """Return the verdict on a run; HUNG and STALLED are to be confirmed by further looks."""
    ranks = [rank for rank in picture.ranks if rank.rank in picture.doing and not _is_idle(picture, rank)]
    quiet = [rank for rank in ranks if picture.quiet(rank.rank)]
    if not quiet:
        return Verdict("RUNNING" if picture.started else "STARTING")
    if len(quiet) == len(ranks):
        return _all_quiet(picture, ranks)
    for rank in quiet:
        if not picture.graph.get(rank.rank) and not picture.goes_on(rank):
            return _named("STALLED", picture, rank)
    if gone := _exited(picture, quiet):
        return _named("STALLED", picture, gone)
    if circle := cycle(picture.graph, [rank.rank for rank in quiet]):
        found = [picture.ranks[rank] for rank in circle]
        return _mismatch("STALLED", picture, found) or _deadlock("STALLED", picture, found)
    for rank in quiet:
        if picture.graph.get(rank.rank):
            continue
        if waiting := _waiting_for(picture, rank):
            what = f"{rank.role} has been in {rank.phase or 'its own work'} for {rank.since_s:.0f} s"
            return Verdict("SLOW", rank.role, "slow", f"{what}; {_who_waits(waiting, '')}.")
    return Verdict("RUNNING" if picture.started else "STARTING")


def _is_idle(picture: RunState, rank: RankState) -> bool:
    """Return whether a rank does nothing for anybody: it waits for the next time to look, or looks for requests."""
    doing, state = picture.doing[rank.rank], rank.state
    looks = doing.innermost is not None and doing.innermost.kind == "serve" and not picture.quiet(rank.rank)
    return state not in HALTED and (doing.is_idle or looks)


def _all_quiet(picture: RunState, ranks: Sequence[RankState]) -> Verdict:
    for rank in ranks:
        if picture.goes_on(rank):
            phase = rank.phase or "its own work"
            how = " and works" if rank.works else f", which may take up to {picture.outside_s:.0f} s"
            return Verdict(
                "WAITING",
                rank.role,
                phase if phase in LONG else "work",
                f"{rank.role} has been in {phase} for {rank.since_s:.0f} s{how}"
                f"{_who_waits(_waiting_for(picture, rank), '; ')}.",
            )
    if halted := [rank for rank in ranks if rank.state in HALTED]:
        return _named("HUNG", picture, _worst(picture, halted))
    if gone := _exited(picture, ranks):
        return _named("HUNG", picture, gone)
    ends = [rank for rank in ranks if not picture.graph.get(rank.rank)]
    if alone := [rank for rank in ends if not _is_together(picture, rank)]:
        return _named("HUNG", picture, _worst(picture, alone))
    if found := _mismatch("HUNG", picture, ranks):
        return found
    if len(ends) == len(ranks):
        first = ranks[0]
        what = f"No rank leaves {first.operation} since {first.since_s:.0f} s: {CAUSES['collective']}."
        return Verdict("HUNG", "", "collective", what)
    if ends:
        return _named("HUNG", picture, _worst(picture, ends))
    if circle := cycle(picture.graph):
        return _deadlock("HUNG", picture, [picture.ranks[rank] for rank in circle])
    silent = {
        end for rank in ranks for end in roots(picture.graph, rank.rank)
    }  # idle ones, which are not among `ranks`
    return _named("HUNG", picture, _worst(picture, [picture.ranks[rank] for rank in sorted(silent)]))


def _worst(picture: RunState, ranks: Sequence[RankState]) -> RankState:
    """Return the one that is most likely the cause: stopped, or waited for, or quiet for longest."""
    return max(
        ranks,
        key=lambda rank: (rank.state in ("stopped", "dead"), bool(_waiting_for(picture, rank)), rank.since_s),
    )


def _is_together(picture: RunState, rank: RankState) -> bool:
    wait = picture.doing[rank.rank].wait
    return wait is not None and wait.kind in TOGETHER


def _exited(picture: RunState, quiet: Sequence[RankState]) -> RankState | None:
    """Return a rank that has finished while one of these still waits for it."""
    awaited = {other for rank in quiet for other in picture.graph.get(rank.rank, ())} - set(picture.doing)
    return picture.ranks[min(awaited)] if awaited else None


def _deadlock(state: VerdictState, picture: RunState, circle: Sequence[RankState]) -> Verdict:
    chain = ", ".join(
        f"{rank.role} waits for {following.role} in {rank.operation or rank.phase}"
        for rank, following in zip(circle, [*circle[1:], *circle[:1]], strict=True)
    )
    nested = [rank for rank in circle if picture.doing[rank.rank].handler_waits]
    first, since = (nested or circle)[0], min(rank.since_s for rank in circle)
    cause, why = ("nested calls", f"; {CAUSES['nested calls']}") if nested else ("deadlock", "")
    return Verdict(state, first.role, cause, f"Deadlock since {since:.0f} s: {chain}{why}.")


def _mismatch(state: VerdictState, picture: RunState, ranks: Sequence[RankState]) -> Verdict | None:
    """Return the verdict on ranks in different barriers or collectives: those in the rarer one are the cause, or those
    with fewer steps. Nobody is named where neither tells them apart.
    """
    groups: dict[tuple[str, str], list[RankState]] = {}
    for rank in ranks:
        if (wait := picture.doing[rank.rank].wait) is not None and wait.kind in TOGETHER:
            groups.setdefault((wait.kind, wait.name), []).append(rank)
    if len(groups) < 2:
        return None

    def oddness(group: Sequence[RankState]) -> tuple[int, int]:
        return len(group), min(rank.step for rank in group)

    odd, *rest = sorted(groups.values(), key=oddness)
    others, first = [rank for group in rest for rank in group], odd[0]
    is_of_steps = picture.started and any(kind == "barrier" for kind, _ in groups)
    cause = "unequal steps" if is_of_steps else "order mismatch"
    what = f"{enumeration([rank.role for rank in odd])} {_are(odd)} in {first.operation}"
    where = f"{enumeration([rank.role for rank in others])} {_are(others)} in {others[0].operation}"
    name = first.role if oddness(odd) < oddness(rest[0]) else ""
    return Verdict(state, name, cause, f"{what}, while {where}, since {first.since_s:.0f} s: {CAUSES[cause]}.")


def _cause(picture: RunState, rank: RankState) -> str:
    """Return the cause of one rank's standstill."""
    if rank.state in HALTED:
        return rank.state
    if rank.rank not in picture.doing:
        return "exited"
    if not picture.started:
        return "not joined"
    if _is_idle(picture, rank):
        return "silent"
    wait = picture.doing[rank.rank].wait
    if wait is not None:
        return "lock" if wait.kind == "lock" else "stuck"
    waits = [picture.doing[other.rank].wait for other in _waiting_for(picture, rank)]
    if any(each is not None and each.kind == "lock" for each in waits):
        return "lock kept"
    return "full queue" if any(each is not None and each.name in FULL for each in waits) else "stuck"


def _named(state: VerdictState, picture: RunState, rank: RankState) -> Verdict:
    """Return the verdict that this rank is the cause."""
    cause, waiting = _cause(picture, rank), _waiting_for(picture, rank)
    doing = rank.operation or rank.phase or "its own code"
    place = f"{rank.place} ({rank.operation})" if rank.operation.strip() not in ("", rank.phase) else rank.place
    where = f", in {place if rank.place else doing}, since {rank.since_s:.0f} s"
    missing = next(
        (
            each
            for other in waiting
            if (each := picture.doing[other.rank].wait) is not None
            and (each.kind in TOGETHER or each.peer == rank.rank)
        ),
        None,
    )
    what = f"{rank.role} {'has not entered' if missing else 'makes no progress'}"
    if missing is not None and missing.kind in TOGETHER:
        what = f"{rank.role} has not entered the {missing.kind} '{missing.name}'{_number(missing.number)}"
    elif missing is not None:
        verb = "delivered" if missing.kind == "wait" else "answered"
        what = f"{rank.role} has not {verb} '{missing.name or missing.kind}'{_number(missing.number)}"
    sentence = f"{what}: {CAUSES[cause]}{'' if cause == 'exited' else where}{_who_waits(waiting, '; ')}."
    return Verdict(state, rank.role, cause, sentence)


def _number(number: int) -> str:
    return f" (#{number})" if number else ""


def _are(ranks: Sequence[RankState]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _waiting_for(picture: RunState, rank: RankState) -> list[RankState]:
    """Return the ranks that wait for a rank, directly or through others, and make no progress meanwhile."""
    return [
        other
        for other in picture.ranks
        if other.rank != rank.rank
        and other.rank in picture.doing
        and other.since_s >= AWAITED * picture.limit_s
        and rank.rank in roots(picture.graph, other.rank)
    ]


def _who_waits(waiting: Sequence[RankState], before: str) -> str:
    if not waiting:
        return ""
    if len(waiting) > 3:
        return f"{before}{len(waiting)} other ranks wait for it"
    return f"{before}{enumeration([rank.role for rank in waiting])} {'waits' if len(waiting) == 1 else 'wait'} for it"
