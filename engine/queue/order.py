"""Which waiting run starts next: first in, first out within a priority, each person's share bounded, small runs past a
waiting large one.

A run may pass the head of the queue only where that delays the head not at all: it takes nothing that the head needs,
or it has ended, by the longest of its like and a margin, before the head could start at the soonest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.access.quotas import NONE, Limits
from engine.launch_options import Priority
from engine.queue.estimates import Estimate
from engine.queue.shares import keeps_back, shares

LEAST_ALIKE = 3
"""So many like runs must have finished before the length of a run is trusted enough to pass another one."""
MARGIN = 1.25
"""A run that passes has to be this much shorter than the gap, by the longest of its like."""


@dataclass(frozen=True)
class Waiting:
    """A run in the queue."""

    id: int
    owner: str
    cores: int
    gpus: int = 0
    priority: Priority = "normal"
    held_by: str | None = None
    oversubscribe: bool = False
    takes: Estimate | None = None
    exclusive: bool = False
    """Whether it is to have the machine to itself; its cores are all there are then."""
    counts: int | None = None
    """The cores that count against its owner's limit where these are not all its cores."""

    @property
    def counted_cores(self) -> int:
        return self.cores if self.counts is None else self.counts


@dataclass(frozen=True)
class Holder:
    """A run that holds cores and GPUs; times are in seconds from now, None where nothing tells."""

    id: int
    owner: str
    cores: int
    gpus: int = 0
    soonest_end: float | None = None
    end: float | None = None
    """When it is expected to end."""
    counts: int | None = None
    """The cores that count against its owner's limit where these are not all its cores."""

    @property
    def counted_cores(self) -> int:
        return self.cores if self.counts is None else self.counts


@dataclass(frozen=True)
class FreeSlots:
    """What there is to hold."""

    cores: int
    gpus: int = 0
    """GPUs that are free or held by runs of ours."""
    limits: Limits = NONE
    """What one person may take of it."""
    foreign_gpus: tuple[int, ...] = ()
    """GPUs that other programs use."""


def next_up(queue: Sequence[Waiting], holders: Sequence[Holder], room: FreeSlots, at: float = 0.0) -> Waiting | None:
    """Return the run that starts now, None where all have to wait; `at` is now, in the seconds that the holders' ends
    are in.
    """
    ready, left = startable(queue, holders, room), free(holders, room)
    head = next(ready, None)
    if head is None or fits(head, left):
        return head
    gap_s = soonest_start(head, holders, room, at) - at
    return next((run for run in ready if fits(run, left) and delays_not(run, head, gap_s, left)), None)


def startable(queue: Iterable[Waiting], holders: Sequence[Holder], room: FreeSlots) -> Iterator[Waiting]:
    """Yield the runs that neither a hold nor their owner's limits keep back, in order."""
    if not room.limits.any:
        return (run for run in queue if not run.held_by)
    held = shares((holder.owner, holder.counted_cores, holder.gpus) for holder in holders)
    return (
        run
        for run in queue
        if not run.held_by and not keeps_back(run.owner, run.counted_cores, run.gpus, held, room.limits)
    )


class Free(NamedTuple):
    """What nobody holds; cores may be below 0 where runs share them."""

    cores: int
    gpus: int


def free(holders: Sequence[Holder], room: FreeSlots) -> Free:
    """Return the cores and GPUs that nobody holds."""
    return Free(room.cores - sum(each.cores for each in holders), room.gpus - sum(each.gpus for each in holders))


def fits(run: Waiting, left: Free) -> bool:
    """Say whether a run has its cores and GPUs now; one that may be oversubscribed always has its cores."""
    return (run.oversubscribe or run.cores <= left.cores) and run.gpus <= left.gpus


def soonest_start(head: Waiting, holders: Sequence[Holder], room: FreeSlots, at: float = 0.0) -> float:
    """Return the earliest moment at which a run that does not fit could; infinity where the machine never has room.

    A holder of which nothing is known could end at any moment.
    """
    by_end = sorted(holders, key=lambda holder: holder.soonest_end or 0.0)
    for count, holder in enumerate(by_end, 1):
        if fits(head, free(by_end[count:], room)):
            return max(at, holder.soonest_end or 0.0)
    return float("inf")


def delays_not(run: Waiting, head: Waiting, gap_s: float, left: Free) -> bool:
    """Say whether the head starts as soon with the run before it as without, `gap_s` being the least it waits."""
    if run.takes and run.takes.runs >= LEAST_ALIKE and run.takes.longest * MARGIN <= gap_s:
        return True
    spares_cores = run.cores == 0 or head.oversubscribe or left.cores - run.cores >= head.cores
    spares_gpus = run.gpus == 0 or left.gpus - run.gpus >= head.gpus
    return spares_cores and spares_gpus


def forecast(queue: Sequence[Waiting], holders: Sequence[Holder], room: FreeSlots) -> dict[int, float]:
    """Return in how many seconds each run is expected to start, as the runner would start them; runs of which nothing
    tells are left out.
    """
    left, on, at = list(queue), list(holders), 0.0
    starts: dict[int, float] = {}
    while True:
        while run := next_up(left, on, room, at):
            starts[run.id] = at
            left.remove(run)
            on.append(started(run, at))
        ends = [holder.end for holder in on if holder.end is not None]
        if not left or not ends:
            return starts
        at = max(at, min(ends))
        on = [holder for holder in on if holder.end is None or holder.end > at]


def started(run: Waiting, at: float) -> Holder:
    """Return a run as the holder that it becomes when it starts."""
    made = Holder(run.id, run.owner, run.cores, run.gpus, counts=run.counts)
    return replace(made, soonest_end=at + run.takes.shortest, end=at + run.takes.median) if run.takes else made
