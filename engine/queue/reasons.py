"""Wait reasons in words: a pure function of the queue and of the live runs with their estimated ends."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from engine.queue.order import FreeSlots, Holder, Waiting, fits, free, next_up
from engine.queue.shares import keeps_back, shares

NEXT = "starts next"
MOST_NAMED = 3
"""Number of holders named; the others are counted."""
SOON_S = 60.0
"""An end before this is not named: its minute could be over when it is read."""


def reasons(
    queue: Sequence[Waiting], holders: Sequence[Holder], room: FreeSlots, clock: Callable[[float], str]
) -> dict[int, str]:
    """Return the wait reason of each run, such as `waits for 2 GPUs: run 41 holds 1 until about 14:20`; `clock` formats
    a time given in seconds from now.
    """
    shared = shares((holder.owner, holder.counted_cores, holder.gpus) for holder in holders)
    starting, left = next_up(queue, holders, room), free(holders, room)
    head: Waiting | None = None
    found: dict[int, str] = {}
    for run in queue:
        limited = keeps_back(run.owner, run.counted_cores, run.gpus, shared, room.limits)
        if run.held_by:
            found[run.id] = f"held by {run.held_by}"
        elif limited:
            found[run.id] = limited
        elif starting and run.id == starting.id:
            found[run.id] = NEXT
        elif head is not None or fits(run, left):
            found[run.id] = _behind(run, head or starting)
        else:
            found[run.id] = lacking(run, holders, room, clock)
        if head is None and not run.held_by and not limited:
            head = run
    return found


def _behind(run: Waiting, other: Waiting | None) -> str:
    if other is None:
        return NEXT
    return f"waits behind run {other.id}{f' ({other.priority} priority)' if other.priority != run.priority else ''}"


def lacking(run: Waiting, holders: Sequence[Holder], room: FreeSlots, clock: Callable[[float], str]) -> str:
    """Return the missing slots of a run that does not fit, and the runs that hold them."""
    cores, gpus = free(holders, room)
    wanted = {
        "GPU": run.gpus if run.gpus > gpus else 0,
        "core": run.cores if run.cores > cores and not run.oversubscribe else 0,
    }
    kinds = [kind for kind, count in wanted.items() if count]
    asked = "an idle machine" if run.exclusive else " and ".join(_counted(wanted[kind], kind) for kind in kinds)
    held = [(holder, {"GPU": holder.gpus, "core": holder.cores}) for holder in holders]
    by_end = sorted(held, key=lambda pair: (pair[0].end is None, pair[0].end or 0.0, pair[0].id))
    holding = [_holds(holder, counts, kinds, clock) for holder, counts in by_end if any(counts[kind] for kind in kinds)]
    named = list(islice(holding, MOST_NAMED))
    if more := len(holding) - len(named):
        named.append(f"{_counted(more, 'more run')} {'holds' if more == 1 else 'hold'} the rest")
    if "GPU" in kinds and room.foreign_gpus:
        named.append(f"another program uses {' and '.join(f'GPU {index}' for index in room.foreign_gpus)}")
    return f"waits for {asked}: {', '.join(named)}" if named else f"waits for {asked}"


def _holds(holder: Holder, counts: Mapping[str, int], kinds: Sequence[str], clock: Callable[[float], str]) -> str:
    """Return the requested slots that one run holds; for a single kind only the number."""
    what = (
        str(counts[kinds[0]])
        if len(kinds) == 1
        else " and ".join(_counted(counts[kind], kind) for kind in kinds if counts[kind])
    )
    until = f" until about {clock(holder.end)}" if holder.end is not None and holder.end >= SOON_S else ""
    return f"run {holder.id} holds {what}{until}"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
