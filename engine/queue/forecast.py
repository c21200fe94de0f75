"""How the queue looks from here on: for each waiting run why it waits, how long it takes and when it should start; also
for a run not launched yet.
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.access.quotas import NONE, Limits, limits
from engine.errors import ConfigError
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority
from engine.queue.estimates import Estimate, History, left
from engine.queue.order import FreeSlots, Holder, Waiting, forecast
from engine.queue.reasons import reasons
from engine.queue.slots import foreign_gpus
from engine.store.queue.queue import QueuedRun
from engine.store.reader import Reader
from engine.store.records import Demand, Run
from engine.store.timestamps import seconds_since
from engine.system.gpus import Gpus, NvmlGpus
from engine.system.machine import Machine, machine

MOST = 200
"""So far into the queue is looked ahead; what starts after so many runs nobody knows."""
STOP_S = 5.0
"""What a run that was asked to stop is taken to need."""
NEW = 2**62
"""The number of a run that is not launched yet: it comes after all others."""


@dataclass(frozen=True)
class Wait:
    """What is known of one waiting run."""

    run: QueuedRun
    reason: str
    takes: Estimate | None
    starts_in_s: float | None
    """When it is expected to start, None where nothing tells."""


@dataclass(frozen=True)
class Prospect:
    """What is known of a run before it is launched."""

    takes: Estimate | None
    starts_in_s: float | None
    reason: str
    """Why it would wait; empty where it would start at once."""


@dataclass(frozen=True)
class Scene:
    """The queue and the machine at one moment."""

    queued: Sequence[QueuedRun]
    waiting: Sequence[Waiting]
    alive: Sequence[Run]
    holders: Sequence[Holder]
    room: FreeSlots
    history: History


def outlook(
    store: Reader, home: Home, *, here: Machine | None = None, gpus: Gpus | None = None, host: str = ""
) -> dict[int, Wait]:
    """Return what is known of each waiting run, in the order of the queue, at most `MOST`."""
    found = scene(store, home, here or machine(), gpus, host)
    why, starts = _foreseen(found.waiting, found)
    return {
        queued.id: Wait(queued, why[queued.id], waiting.takes, starts.get(queued.id))
        for queued, waiting in zip(found.queued, found.waiting, strict=True)
    }


def prospect(
    store: Reader,
    home: Home,
    experiment: str,
    config: Mapping[str, Any],
    demand: Demand,
    *,
    owner: str,
    priority: Priority = "normal",
    oversubscribe: bool = False,
    here: Machine | None = None,
    gpus: Gpus | None = None,
    host: str = "",
) -> Prospect:
    """Return what would come of a run if it were launched now."""
    found = scene(store, home, here or machine(), gpus, host)
    takes = found.history.estimate(experiment, config, demand)
    new = Waiting(NEW, owner, demand.cores, demand.gpus, priority, None, oversubscribe, takes)
    why, starts = _foreseen(with_new(found.waiting, [new], priority), found)
    start = starts.get(NEW)
    return Prospect(takes, start, "" if start == 0 else why[NEW])


def with_new(waiting: Sequence[Waiting], new: Sequence[Waiting], priority: Priority) -> list[Waiting]:
    """Return the queue once new runs of a priority have joined it."""
    level = PRIORITIES.index(priority)
    before = [run for run in waiting if PRIORITIES.index(run.priority) >= level]
    return [*before, *new, *(run for run in waiting if PRIORITIES.index(run.priority) < level)]


def scene(store: Reader, home: Home, here: Machine, gpus: Gpus | None, host: str, most: int | None = None) -> Scene:
    """Return the machine and the first runs of the queue (`most`, else `MOST`) as they are; without `gpus` NVML is
    asked, and only where there are some.
    """
    history = History(store, host or socket.gethostname())
    queued, alive = store.queue.waiting(limit=MOST if most is None else most), store.queue.alive()
    states = (gpus or NvmlGpus()).states() if here.gpus else {}
    foreign = tuple(foreign_gpus(alive, here, states))
    room = FreeSlots(here.cores, len(here.gpus) - len(foreign), limits_of(home), foreign)
    return Scene(queued, waiting_of(queued, history, room), alive, holders_of(alive, history, room), room, history)


def limits_of(home: Home) -> Limits:
    """Return what a person may take; no limits where they can't be read, which the limits command says."""
    try:
        return limits(home)
    except ConfigError:
        return NONE


def waiting_of(queued: Iterable[QueuedRun], history: History, room: FreeSlots) -> list[Waiting]:
    """Return runs of the queue with what they are expected to take; one that is to be alone asks for all cores of the
    room.
    """
    return [
        Waiting(
            *(
                run.id,
                run.owner,
                room.cores if run.exclusive else run.demand.cores,
                run.demand.gpus,
                run.priority,
                run.held_by,
                run.oversubscribe,
            ),
            *(history.estimate(run.experiment, run.config, run.demand), run.exclusive, run.demand.cores),
        )
        for run in queued
    ]


def holders_of(alive: Iterable[Run], history: History, room: FreeSlots) -> list[Holder]:
    """Return live runs with the times at which they should end; one that is alone holds all cores of the room."""
    return [
        Holder(
            run.id,
            run.owner,
            room.cores if run.exclusive else run.demand.cores,
            run.demand.gpus,
            *_ends(run, history),
            run.demand.cores,
        )
        for run in alive
    ]


def _ends(run: Run, history: History) -> tuple[float | None, float | None]:
    if run.status == "stopping":
        return 0.0, STOP_S
    share = run.progress_done / run.progress_total if run.progress_total and run.started_at else 0.0
    on_s = run.time_before_s + seconds_since(run.started_at) if run.started_at else 0.0
    held_s = seconds_since(run.claimed_at) if run.claimed_at else 0.0
    return left(held_s, share, on_s, history.estimate(run.experiment, run.config, run.demand))


def _foreseen(queue: Sequence[Waiting], found: Scene) -> tuple[dict[int, str], dict[int, float]]:
    return reasons(queue, found.holders, found.room, clock), forecast(queue, found.holders, found.room)


def clock(in_s: float) -> str:
    """Return the moment in so many seconds as people of this place say it: `14:20`, with its day where that is not
    today.
    """
    now = datetime.now(UTC).astimezone()
    then = now + timedelta(seconds=in_s)
    return then.strftime("%H:%M" if then.date() == now.date() else "%b %d, %H:%M")


def start_in_words(in_s: float | None) -> str:
    """Return when a run should start: `at once`, `in about 40 s`, `at about 14:20`; empty where nothing tells."""
    if in_s is None:
        return ""
    if in_s < 1:
        return "at once"
    return f"in about {in_s:.0f} s" if in_s < 90 else f"at about {clock(in_s)}"
