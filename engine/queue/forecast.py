"""The forecast of the queue: for each queued run the wait reason, the run time and the start; also for a run that is
not launched yet.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from engine.access.quotas import NONE, Limits, limits
from engine.errors import ConfigError, counted
from engine.home import Home
from engine.queue.backfill import (
    FreeSlots,
    Holder,
    Waiting,
    fits,
    forecast,
    free,
    keeps_back,
    next_up,
    shares,
    with_new,
)
from engine.queue.cluster_wait import cluster_wait
from engine.queue.estimates import TRUSTED, Estimate, History, left
from engine.queue.slots import foreign_gpus
from engine.store.launches import Launch
from engine.store.queue.cluster_jobs import ClusterJob
from engine.store.queue.queue import QueuedRun
from engine.store.records import Run, RunRow
from engine.store.runs.rows import limit_left_s
from engine.store.store import Reader
from engine.store.timestamps import seconds_since
from engine.system.machine import Gpus, Machine, NvmlGpus, machine
from engine.system.runner_process import lives

MOST = 200
"""Number of queued runs in a forecast; later ones have no estimated start."""
STOP_S = 5.0
"""Expected seconds until a stopping run has ended."""
NEW = 2**62
"""The id of a run that is not launched yet: after all others."""


@dataclass(frozen=True)
class Wait:
    """The estimates of one queued run."""

    run: QueuedRun
    reason: str
    takes: Estimate | None
    starts_in_s: float | None
    """Estimated start, None if unknown."""
    position: int | None = None
    """Its place, from 1, among the runs that wait for the same machine or cluster; None for one on hold."""

    @property
    def start(self) -> str:
        """The estimated start in words: `soon` if the slots should be free now but are not; empty if unknown."""
        words = start_in_words(self.starts_in_s)
        return "soon" if words == "at once" and self.reason != NEXT else words


@dataclass(frozen=True)
class Prospect:
    """The estimates of a run before its launch."""

    takes: Estimate | None
    starts_in_s: float | None
    reason: str
    """Why it would wait; empty if it would start at once."""


@dataclass(frozen=True)
class Scene:
    """A snapshot of the queue and the machine."""

    queued: Sequence[QueuedRun]
    waiting: Sequence[Waiting]
    alive: Sequence[Run]
    holders: Sequence[Holder]
    room: FreeSlots
    history: History


def outlook(
    store: Reader,
    home: Home,
    *,
    here: Machine | None = None,
    gpus: Gpus | None = None,
    host: str = "",
    most: int | None = None,
) -> dict[int, Wait]:
    """Return the estimates of the first `most` queued runs (default: `MOST`), in queue order. Those for a cluster have
    Slurm's reason and no estimates.
    """
    found = scene(store, home, here or machine(), gpus, host, most, scales=True)
    why, starts = _foreseen(found.waiting, found)
    if idle := _no_runner(store):
        why, starts = {run_id: idle if reason == NEXT else reason for run_id, reason in why.items()}, {}
    waits = {
        queued.id: Wait(queued, why[queued.id], waiting.takes, starts.get(queued.id))
        for queued, waiting in zip(found.queued, found.waiting, strict=True)
    }
    if not store.cluster_jobs.targets():
        return _placed(waits)
    jobs = {job.run_id: job for job in store.cluster_jobs.all()}
    everyone = store.queue.waiting(limit=MOST if most is None else most)
    waits |= {run.id: _on_cluster(run, jobs.get(run.id)) for run in everyone if run.target}
    return _placed({run.id: waits[run.id] for run in everyone if run.id in waits})


def wait_reason(store: Reader, run: Run) -> str | None:
    """Return why a queued run waits; None for another one, and far back in the queue."""
    wait = outlook(store, store.db.home).get(run.id) if run.status == "queued" else None
    return wait.reason if wait else None


def _placed(waits: Mapping[int, Wait]) -> dict[int, Wait]:
    """Return the waits, in queue order, with their positions."""
    counts, found = Counter[str](), dict[int, Wait]()
    for run_id, wait in waits.items():
        counts[wait.run.target] += not wait.run.held_by
        found[run_id] = wait if wait.run.held_by else replace(wait, position=counts[wait.run.target])
    return found


def prospect(
    store: Reader,
    home: Home,
    asked: Launch,
    *,
    here: Machine | None = None,
    gpus: Gpus | None = None,
    host: str = "",
) -> Prospect:
    """Return the estimates of a run if launched now, with its time limit or that of its owner's quota."""
    found = scene(store, home, here or machine(), gpus, host, scales=True)
    (new,) = to_launch(found, [asked])
    why, starts = _foreseen(with_new(found.waiting, [new]), found)
    start = starts.get(NEW)
    if idle := _no_runner(store):
        return Prospect(new.takes, None, idle if start == 0 else why[NEW])
    return Prospect(new.takes, start, "" if start == 0 else why[NEW])


def to_launch(found: Scene, runs: Iterable[Launch], *, exclusive: bool = False) -> list[Waiting]:
    """Return runs that are not launched yet, with their estimates; exclusive ones need all cores."""
    return [
        Waiting(
            NEW + place,
            run.owner,
            found.room.cores if exclusive else run.demand.cores,
            run.demand.gpus,
            run.terms.priority,
            oversubscribe=run.terms.oversubscribe,
            takes=within(found.history.estimate(run), limit_of(found, run)),
            exclusive=exclusive,
            counts=run.demand.cores,
        )
        for place, run in enumerate(runs)
    ]


def _no_runner(store: Reader) -> str:
    """Return the reason why no run starts on this machine; empty while a runner starts them."""
    row = store.runner.current()
    if row is None or not lives(store.db.home, row.process):
        return "waits: no runner is running"
    return "waits: the runner is stopping" if row.stopping else ""


def within(takes: Estimate | None, limit_s: float | None) -> Estimate | None:
    """Return an estimate with a time limit; None without an estimate."""
    return takes and takes.within(limit_s)


def limit_of(found: Scene, asked: Launch) -> float | None:
    """Return the time limit of a run that is not launched yet: the one asked for, or the owner's quota."""
    quota = found.room.limits.of(asked.owner).max_run_time_s
    return min((each for each in (asked.terms.max_run_time_s, quota) if each is not None), default=None)


def _on_cluster(run: QueuedRun, job: ClusterJob | None) -> Wait:
    return Wait(run, f"held by {run.held_by}" if run.held_by else cluster_wait(run.target, job), None, None)


def scene(
    store: Reader,
    home: Home,
    here: Machine,
    gpus: Gpus | None,
    host: str,
    most: int | None = None,
    *,
    scales: bool = False,
) -> Scene:
    """Return a snapshot with the first queued runs for this machine (`most`, else `MOST`); GPU states come from `gpus`,
    else from NVML if the machine has GPUs. With `scales`, times of runs with another amount of work are scaled.
    """
    history = History(store, host or socket.gethostname(), scales=scales)
    queued = store.queue.waiting(limit=MOST if most is None else most, target="")
    alive = store.queue.alive()
    states = (gpus or NvmlGpus()).states() if here.gpus else {}
    foreign = tuple(foreign_gpus(alive, here, states))
    room = FreeSlots(here.cores, len(here.gpus) - len(foreign), limits_of(home), foreign)
    return Scene(queued, waiting_of(queued, history, room), alive, holders_of(alive, history, room), room, history)


def limits_of(home: Home) -> Limits:
    """Return the limits; none if they can't be read, which the limits command reports."""
    try:
        return limits(home)
    except ConfigError:
        return NONE


def waiting_of(queued: Iterable[QueuedRun], history: History, room: FreeSlots) -> list[Waiting]:
    """Return the queued runs with their estimates; an exclusive one needs all cores."""
    return [
        Waiting(
            run.id,
            run.owner,
            room.cores if run.exclusive else run.demand.cores,
            run.demand.gpus,
            run.priority,
            run.held_by,
            run.oversubscribe,
            within(history.estimate(run), run.max_run_time_s),
            run.exclusive,
            counts=run.demand.cores,
        )
        for run in queued
    ]


def holders_of(alive: Iterable[Run], history: History, room: FreeSlots) -> list[Holder]:
    """Return the live runs with their estimated ends; an exclusive one holds all cores."""
    return [
        Holder(
            *(run.id, run.owner, room.cores if run.exclusive else run.demand.cores, run.demand.gpus),
            *_ends(run, history),
            counts=run.demand.cores,
        )
        for run in alive
    ]


def time_left_s(store: Reader, run: RunRow, host: str = "") -> float | None:
    """Return the estimated remaining time of a run, as the queue counts on it: from similar runs at first, then at its
    own pace, and until its time limit if that comes first.
    """
    is_own = run.time_left_s is not None and run.progress >= TRUSTED
    if is_own or run.status != "running" or run.target or run.time_before_s:
        return run.time_left_s
    return _ends(store.runs.one(run.id), History(store, host or socket.gethostname()))[1]


def _ends(run: Run, history: History) -> tuple[float | None, float | None]:
    if run.status == "stopping":
        return 0.0, STOP_S
    share = run.progress_done / run.progress_total if run.progress_total and run.started_at else 0.0
    on_s = run.time_before_s + seconds_since(run.started_at) if run.started_at else 0.0
    on_s = history.pace_s(run.id, share) if run.script_key else on_s
    held_s = seconds_since(run.claimed_at) if run.claimed_at else 0.0
    limit_s = limit_left_s(run.terms.max_run_time_s, run.begun_at, run.status)
    return left(held_s, share, on_s, history.estimate(run), limit_s)


def _foreseen(queue: Sequence[Waiting], found: Scene) -> tuple[dict[int, str], dict[int, float]]:
    return reasons(queue, found.holders, found.room, clock), forecast(queue, found.holders, found.room)


def clock(in_s: float) -> str:
    """Return the time in `in_s` seconds: `14:20 UTC`, with the date if it is not today in UTC."""
    now = datetime.now(UTC)
    then = now + timedelta(seconds=in_s)
    return then.strftime("%H:%M UTC" if then.date() == now.date() else "%b %d, %H:%M UTC")


def start_in_words(in_s: float | None) -> str:
    """Return the estimated start: `at once`, `in about 40 s`, `at about 14:20 UTC`; empty if unknown."""
    if in_s is None:
        return ""
    if in_s < 1:
        return "at once"
    return f"in about {in_s:.0f} s" if in_s < 90 else f"at about {clock(in_s)}"


# ---- Wait reasons in words: a pure function of the queue and of the live runs with their estimated ends ------------

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
    asked = "an idle machine" if run.exclusive else " and ".join(counted(wanted[kind], kind) for kind in kinds)
    held = [(holder, {"GPU": holder.gpus, "core": holder.cores}) for holder in holders]
    by_end = sorted(held, key=lambda pair: (pair[0].end is None, pair[0].end or 0.0, pair[0].id))
    holding = [_holds(holder, counts, kinds, clock) for holder, counts in by_end if any(counts[kind] for kind in kinds)]
    named = list(islice(holding, MOST_NAMED))
    if more := len(holding) - len(named):
        named.append(f"{counted(more, 'more run')} {'holds' if more == 1 else 'hold'} the rest")
    if "GPU" in kinds and room.foreign_gpus:
        named.append(f"another program uses {' and '.join(f'GPU {index}' for index in room.foreign_gpus)}")
    return f"waits for {asked}: {', '.join(named)}" if named else f"waits for {asked}"


def _holds(holder: Holder, counts: Mapping[str, int], kinds: Sequence[str], clock: Callable[[float], str]) -> str:
    """Return the requested slots that one run holds; for a single kind only the number."""
    what = (
        str(counts[kinds[0]])
        if len(kinds) == 1
        else " and ".join(counted(counts[kind], kind) for kind in kinds if counts[kind])
    )
    until = f" until about {clock(holder.end)}" if holder.end is not None and holder.end >= SOON_S else ""
    return f"run {holder.id} holds {what}{until}"
