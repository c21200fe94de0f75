"""The verdict on a run: which rank is the cause of a standstill, why, and in which words.

HUNG needs that no rank makes progress, none works and each has been quiet for the limit; the watch (watch.py) asks for
the same result in further looks. A quiet rank that waits for one that makes progress is not stalled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.hang.wait_graph import TOGETHER, Doing, cycle, roots
from engine.trace.health import RankState, Verdict, listed

CAUSES = {
    "stopped": "it is stopped (SIGSTOP)",
    "dead": "its process has ended",
    "disk wait": "it waits for a disk",
    "lock": "it waits for a lock that is not released",
    "deadlock": "they wait for each other",
    "order mismatch": "ranks called different collective operations",
    "unequal steps": "it has left the loop that the others are still in",
    "not joined": "it has not joined the run",
    "stuck": "it does not continue and uses no CPU time",
}
HALTED = ("stopped", "dead", "disk wait")
"""States of a process that can't continue by itself: its cause is not whom it waits for."""
LONG = ("evaluate", "data", "other")
"""Phases in which a rank may work for long."""


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

    def quiet(self, rank: int) -> bool:
        """Return whether a rank has made no progress for the limit."""
        return self.ranks[rank].since_s >= self.limit_s


def judge(picture: RunState) -> Verdict:
    """Return the verdict on a run; HUNG and STALLED are to be confirmed by further looks."""
    ranks = [rank for rank in picture.ranks if rank.rank in picture.doing and not _is_idle(picture, rank)]
    quiet = [rank for rank in ranks if picture.quiet(rank.rank)]
    if not quiet:
        return Verdict("RUNNING" if picture.started else "STARTING")
    if len(quiet) == len(ranks):
        return _all_quiet(picture, ranks)
    for rank in quiet:
        ends = roots(picture.graph, rank.rank)
        if rank.rank in ends and not rank.works:
            return _verdict("STALLED", picture, rank, *_cause(picture, rank))
    at_work = [rank for rank in quiet if rank.works and rank.rank in roots(picture.graph, rank.rank)]
    for rank in at_work:
        if waiting := _waiting_for(picture, rank):
            what = f"{rank.role} has been in {rank.phase or 'its own work'} for {rank.since_s:.0f} s"
            return Verdict("SLOW", rank.role, "slow", f"{what}; {_who_waits(waiting, '')}.")
    return Verdict("RUNNING" if picture.started else "STARTING")


def _is_idle(picture: RunState, rank: RankState) -> bool:
    """Return whether a rank does nothing that anybody waits for."""
    return rank.state not in HALTED and picture.doing[rank.rank].is_idle


def _all_quiet(picture: RunState, ranks: Sequence[RankState]) -> Verdict:
    for rank in ranks:
        if rank.works:
            phase = rank.phase or "its own work"
            waiting = _waiting_for(picture, rank)
            return Verdict(
                "WAITING",
                rank.role,
                phase if phase in LONG else "work",
                f"{rank.role} has been in {phase} for {rank.since_s:.0f} s and works{_who_waits(waiting, '; ')}.",
            )
    guilty = [rank for rank in ranks if rank.state in HALTED]
    if not guilty and (found := _mismatch(picture)):
        return found
    guilty = guilty or [rank for rank in ranks if not picture.graph.get(rank.rank)]
    if guilty:
        worst = max(guilty, key=lambda rank: (rank.state in ("stopped", "dead"), rank.since_s))
        return _verdict("HUNG", picture, worst, *_cause(picture, worst))
    circle = cycle(picture.graph)
    roles = [picture.ranks[rank].role for rank in circle]
    chain = ", ".join(
        f"{role} waits for {following} in {picture.ranks[rank].operation or picture.ranks[rank].phase}"
        for rank, role, following in zip(circle, roles, [*roles[1:], *roles[:1]], strict=True)
    )
    since = min((picture.ranks[rank].since_s for rank in circle), default=0.0)
    return Verdict("HUNG", roles[0] if roles else "", "deadlock", f"Deadlock since {since:.0f} s: {chain}.")


def _mismatch(picture: RunState) -> Verdict | None:
    """Return the verdict on ranks in different barriers or collectives: those in the rarer one are the cause."""
    groups: dict[tuple[str, str], list[RankState]] = {}
    for rank in picture.ranks:
        wait = picture.doing[rank.rank].wait if rank.rank in picture.doing else None
        if wait is not None and wait.kind in TOGETHER:
            groups.setdefault((wait.kind, wait.name), []).append(rank)
    if len(groups) < 2:
        return None
    (kind, name), odd = min(groups.items(), key=lambda item: len(item[1]))
    others = [rank for key, found in groups.items() if key != (kind, name) for rank in found]
    cause = "unequal steps" if kind == "barrier" else "order mismatch"
    first = odd[0]
    what = f"{listed([rank.role for rank in odd])} {_are(odd)} in {first.operation}"
    where = f"{listed([rank.role for rank in others])} {_are(others)} in {others[0].operation}"
    return Verdict("HUNG", first.role, cause, f"{what}, while {where}, since {first.since_s:.0f} s: {CAUSES[cause]}.")


def _cause(picture: RunState, rank: RankState) -> tuple[str, str]:
    """Return the cause of one rank's standstill, and where it is in words."""
    place = f"in {rank.place}" if rank.place else f"in {rank.operation or rank.phase or 'its own code'}"
    if rank.state in HALTED:
        return rank.state, place
    if not picture.started:
        return "not joined", place
    wait = picture.doing[rank.rank].wait
    return ("lock" if wait is not None and wait.kind == "lock" else "stuck"), place


def _verdict(state: str, picture: RunState, rank: RankState, cause: str, place: str) -> Verdict:
    waiting = _waiting_for(picture, rank)
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
    sentence = f"{what}: {CAUSES[cause]}, {place}, since {rank.since_s:.0f} s{_who_waits(waiting, '; ')}."
    return Verdict(state, rank.role, cause, sentence)  # type: ignore[arg-type]


def _number(number: int) -> str:
    return f" (#{number})" if number else ""


def _are(ranks: Sequence[RankState]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _waiting_for(picture: RunState, rank: RankState) -> list[RankState]:
    """Return the ranks that wait for a rank, directly or through others."""
    return [
        other
        for other in picture.ranks
        if other.rank != rank.rank and other.rank in picture.doing and rank.rank in roots(picture.graph, other.rank)
    ]


def _who_waits(waiting: Sequence[RankState], before: str) -> str:
    if not waiting:
        return ""
    if len(waiting) > 3:
        return f"{before}{len(waiting)} other ranks wait for it"
    return f"{before}{listed([rank.role for rank in waiting])} {'waits' if len(waiting) == 1 else 'wait'} for it"
