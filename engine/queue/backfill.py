"""Which waiting run may start: the head of the queue, or by backfill one behind it, within the quotas of its owner.

The order of the queue itself is that of `engine/store/queue/queue.py`.

A run may pass the head of the queue only if that does not delay the head: it takes nothing that the head needs, or it
ends before the earliest start of the head, by the longest similar run and a margin.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from engine.access.quotas import NONE, Limits
from engine.errors import counted
from engine.launch_options import PRIORITIES, Priority
from engine.queue.estimates import Estimate
from engine.store.queue.queue import QuotaLimits
from engine.store.records import Run

LEAST_ALIKE = 3
"""Similar finished runs needed for backfill."""
MARGIN = 1.25
"""Factor by which the gap must exceed the longest similar run for backfill."""
IDLE_CHECK_S = 1.0
"""Time over which the runner measures the use of the cores before an exclusive run starts."""


@dataclass(frozen=True)
class _OfOwner:
    """A run with the slots that it needs or holds; an exclusive one has all cores."""

    id: int
    owner: str
    cores: int
    gpus: int = 0
    counts: int | None = field(default=None, kw_only=True)
    """The cores that count against its owner's limit, if not all its cores."""

    @property
    def counted_cores(self) -> int:
        return self.cores if self.counts is None else self.counts


@dataclass(frozen=True)
class Waiting(_OfOwner):
    """A run in the queue."""

    priority: Priority = "normal"
    held_by: str | None = None
    oversubscribe: bool = False
    takes: Estimate | None = None
    exclusive: bool = False
    """Whether it needs the machine to itself."""


@dataclass(frozen=True)
class Holder(_OfOwner):
    """A run that holds cores and GPUs; times are in seconds from now, None if unknown."""

    soonest_end: float | None = None
    end: float | None = None
    """Estimated end."""


@dataclass(frozen=True)
class FreeSlots:
    """The capacity of the machine."""

    cores: int
    gpus: int = 0
    """GPUs that are free or held by runs."""
    limits: Limits = NONE
    """The limits per person."""
    foreign_gpus: tuple[int, ...] = ()
    """GPUs that other programs use."""


def next_up(queue: Sequence[Waiting], holders: Sequence[Holder], room: FreeSlots, at: float = 0.0) -> Waiting | None:
    """Return the run that starts now, None if all must wait; `at` is the time now on the scale of the holders' ends."""
    ready, left = startable(queue, holders, room), free(holders, room)
    head = next(ready, None)
    if head is None or fits(head, left):
        return head
    gap_s = soonest_start(head, holders, room, at) - at
    return next((run for run in ready if fits(run, left) and delays_not(run, head, gap_s, left)), None)


def startable(queue: Iterable[Waiting], holders: Sequence[Holder], room: FreeSlots) -> Iterator[Waiting]:
    """Yield the runs that are not blocked by a hold or their owner's limits, in order."""
    if not room.limits.any:
        return (run for run in queue if not run.held_by)
    held = shares((holder.owner, holder.counted_cores, holder.gpus) for holder in holders)
    return (
        run
        for run in queue
        if not run.held_by and not keeps_back(run.owner, run.counted_cores, run.gpus, held, room.limits)
    )


class Free(NamedTuple):
    """Free slots; cores may be below 0 if runs share them."""

    cores: int
    gpus: int


def free(holders: Sequence[Holder], room: FreeSlots) -> Free:
    """Return the free cores and GPUs."""
    return Free(room.cores - sum(each.cores for each in holders), room.gpus - sum(each.gpus for each in holders))


def fits(run: Waiting, left: Free) -> bool:
    """Return whether a run fits into the free slots; one that may be oversubscribed always has its cores."""
    return (run.oversubscribe or run.cores <= left.cores) and run.gpus <= left.gpus


def soonest_start(head: Waiting, holders: Sequence[Holder], room: FreeSlots, at: float = 0.0) -> float:
    """Return the earliest time at which a run fits; infinity if it never does.

    A holder without an estimate could end at any time.
    """
    by_end = sorted(holders, key=lambda holder: holder.soonest_end or 0.0)
    for count, holder in enumerate(by_end, 1):
        if fits(head, free(by_end[count:], room)):
            return max(at, holder.soonest_end or 0.0)
    return float("inf")


def delays_not(run: Waiting, head: Waiting, gap_s: float, left: Free) -> bool:
    """Return whether starting the run first does not delay the head, which waits at least `gap_s`."""
    if run.takes and run.takes.runs >= LEAST_ALIKE and run.takes.longest * MARGIN <= gap_s:
        return True
    spares_cores = run.cores == 0 or head.oversubscribe or left.cores - run.cores >= head.cores
    spares_gpus = run.gpus == 0 or left.gpus - run.gpus >= head.gpus
    return spares_cores and spares_gpus


def forecast(queue: Sequence[Waiting], holders: Sequence[Holder], room: FreeSlots) -> dict[int, float]:
    """Return the estimated start of each run in seconds from now, simulating the runner; runs without an estimate are
    omitted.
    """
    left, on, at = list(queue), list(holders), 0.0
    starts: dict[int, float] = {}
    while True:
        while run := next_up(left, on, room, at):
            starts[run.id] = at + (IDLE_CHECK_S if run.exclusive else 0.0)
            left.remove(run)
            on.append(started(run, starts[run.id]))
        ends = [holder.end for holder in on if holder.end is not None]
        if not left or not ends:
            return starts
        at = max(at, min(ends))
        on = [holder for holder in on if holder.end is None or holder.end > at]


def started(run: Waiting, at: float) -> Holder:
    """Return the holder that a run becomes when it starts."""
    made = Holder(run.id, run.owner, run.cores, run.gpus, counts=run.counts)
    return replace(made, soonest_end=at + run.takes.shortest, end=at + run.takes.median) if run.takes else made


def with_new(waiting: Sequence[Waiting], new: Sequence[Waiting]) -> list[Waiting]:
    """Return the queue with new runs of one priority added."""
    level = PRIORITIES.index(new[0].priority) if new else 0
    before = [run for run in waiting if PRIORITIES.index(run.priority) >= level]
    return [*before, *new, *(run for run in waiting if PRIORITIES.index(run.priority) < level)]


# ---- Usage of the machine by person against the limits: a pure function of the live runs ---------------------------
# Torch-free.


class Share(NamedTuple):
    """The slots that the runs of one person hold."""

    runs: int = 0
    cores: int = 0
    gpus: int = 0


NOTHING = Share()


def shares(held: Iterable[tuple[str, int, int]]) -> dict[str, Share]:
    """Return the usage by person; `held` gives owner, cores and GPUs of each live run."""
    found: dict[str, Share] = {}
    for owner, cores, gpus in held:
        before = found.get(owner, NOTHING)
        found[owner] = Share(before.runs + 1, before.cores + cores, before.gpus + gpus)
    return found


def left(share: Share, mine: Limits) -> tuple[int | None, int | None]:
    """Return the remaining quota of cores and GPUs, None without a limit."""
    cores = None if mine.max_cores_per_person is None else mine.max_cores_per_person - share.cores
    gpus = None if mine.max_gpus_per_person is None else mine.max_gpus_per_person - share.gpus
    return cores, gpus


def is_full(share: Share, mine: Limits) -> bool:
    """Return whether a person has reached the limit of running runs."""
    return mine.max_running_per_person is not None and share.runs >= mine.max_running_per_person


def quota_limits(waiting: Iterable[str], holders: Iterable[Run], limits: Limits) -> QuotaLimits:
    """Return what the limits leave to the owners of waiting runs, given the runs that hold slots."""
    if not limits.any:
        return QuotaLimits()
    held = shares((run.owner, run.demand.cores, run.demand.gpus) for run in holders)
    found = {owner: (held.get(owner, NOTHING), limits.of(owner)) for owner in waiting}
    room = {owner: left(*each) for owner, each in found.items()}
    return QuotaLimits(
        tuple(owner for owner, each in found.items() if is_full(*each)),
        {owner: free for owner, free in room.items() if free != (None, None)},
    )


def keeps_back(owner: str, cores: int, gpus: int, held: Mapping[str, Share], limits: Limits) -> str:
    """Return the limit that blocks a run of `owner` with these cores and GPUs, as a sentence without full stop; empty
    if none does.
    """
    share, mine = held.get(owner, NOTHING), limits.of(owner)
    if is_full(share, mine):
        whose = "per person" if mine == limits else f"for {owner}"
        running = counted(share.runs, "running run")
        return f"waits: {owner} has {running}, and the limit {whose} is {mine.max_running_per_person}"
    for kind, asks, holds, most in (
        ("core", cores, share.cores, mine.max_cores_per_person),
        ("GPU", gpus, share.gpus, mine.max_gpus_per_person),
    ):
        if most is None or asks == 0 or holds + asks <= most:
            continue
        if asks > most:
            return f"waits: needs {counted(asks, kind)}, but {owner}'s limit is {most}; an admin can raise it"
        needed = "" if holds >= most else f", and this run needs {asks}"
        return f"waits: {owner} uses {holds} of {counted(most, kind)}{needed}"
    return ""
