"""Estimates of a whole sweep: slot-hours from similar runs of each cell, and the end of its last run, given the live
and the queued runs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from engine.home import Home
from engine.queue.backfill import Holder, Waiting, forecast, with_new
from engine.queue.estimates import Estimate
from engine.queue.forecast import Scene, limit_of, scene, to_launch, within
from engine.store.launches import Launch
from engine.store.queue.queue import QueuedRun
from engine.store.records import Demand, Run
from engine.store.store import Reader
from engine.system.machine import Gpus, Machine, machine

AHEAD = 1_000
"""Number of queued runs in the forecast of a sweep."""


@dataclass(frozen=True)
class Outlay:
    """The estimates of some runs, from finished runs on this machine."""

    runs: int
    like: int
    """Number of them that have similar runs, or are far enough to be estimated by their own pace."""
    assumed_s: float | None
    """The assumed run time of each of the others, None if unknown."""
    near: int
    """It is the median of this many runs that differ only in the varied fields; if 0, the mean of the runs that have
    similar ones, or what was stated where none has.
    """
    core_hours: float | None
    """Their usage from now on, None if unknown."""
    gpu_hours: float | None
    idle_s: float | None
    """Seconds to the last end on an idle machine; None also if some are known from disturbed runs alone."""
    ends_in_s: float | None
    """Seconds to the last end given the other runs, excluding runs on hold; None if unknown."""
    held: int = 0
    """Number of them on hold."""
    cut: int = 0
    """Number of queued ones that their time limit is expected to end before their work is done."""
    is_disturbed: bool = False
    """Whether some are estimated from disturbed runs alone."""
    are_scaled: bool = False
    """Whether some are estimated from runs with another amount of work."""


@dataclass(frozen=True)
class _Part:
    """The runs to estimate: queued or to be launched, and live ones."""

    demands: Mapping[int, Demand]
    waiting: Sequence[Waiting]
    on: Sequence[Holder] = ()


def before_launch(
    store: Reader,
    home: Home,
    runs: Sequence[Launch],
    varied: Collection[str],
    *,
    exclusive: bool = False,
    stated_s: float | None = None,
    here: Machine | None = None,
    gpus: Gpus | None = None,
    host: str = "",
) -> Outlay:
    """Return the estimates of the runs of a sweep if launched now; `varied` are the fields in which they differ,
    `stated_s` is assumed for each where none has similar runs.
    """
    found = scene(store, home, here or machine(), gpus, host, AHEAD, scales=True)
    new = to_launch(found, runs, exclusive=exclusive)
    part = _Part({each.id: run.demand for each, run in zip(new, runs, strict=True)}, new)
    near = None
    if first := next(iter(runs), None):
        like = found.history.near(first, varied)
        near = within(like, limit_of(found, first))
    return _outlay(part, near, replace(found, waiting=with_new(found.waiting, new)), stated_s)


def what_is_left(
    store: Reader,
    home: Home,
    sweep_id: int,
    varied: Collection[str],
    *,
    here: Machine | None = None,
    gpus: Gpus | None = None,
    host: str = "",
) -> Outlay:
    """Return the estimates of a sweep's remaining runs; of a paused one as if resumed now."""
    found = scene(store, home, here or machine(), gpus, host, AHEAD, scales=True)
    pause = f"the pause of sweep {sweep_id}"
    found = replace(
        found, waiting=[replace(run, held_by=None) if run.held_by == pause else run for run in found.waiting]
    )
    mine: dict[int, QueuedRun | Run] = {run.id: run for run in found.queued if run.sweep_id == sweep_id}
    mine |= {run.id: run for run in found.alive if run.sweep_id == sweep_id}
    part = _Part(
        {run.id: run.demand for run in mine.values()},
        [run for run in found.waiting if run.id in mine],
        [holder for holder in found.holders if holder.id in mine],
    )
    one = next(iter(mine.values()), None)
    if one is None:
        return _outlay(part, None, found)
    limit_s = one.terms.max_run_time_s if isinstance(one, Run) else one.max_run_time_s
    near = within(found.history.near(one, varied), limit_s)
    return _outlay(part, near, found)


def _outlay(part: _Part, near: Estimate | None, found: Scene, stated_s: float | None = None) -> Outlay:
    """Return the estimates of the part; runs without similar ones are assumed to take as long as `near`, else the mean
    of the others, else `stated_s`.
    """
    known = [run.takes.median for run in part.waiting if run.takes]
    assumed = near.median if near else fmean(known) if known else stated_s
    like = len(known) + sum(holder.end is not None for holder in part.on)
    waiting = {run.id: _filled(run, assumed, near) for run in part.waiting}
    on = {holder.id: replace(holder, end=assumed) if holder.end is None else holder for holder in part.on}
    free = [run for run in waiting.values() if not run.held_by]
    disturbed = any(run.takes and run.takes.disturbed for run in waiting.values())
    seconds = {run.id: run.takes.median if run.takes else None for run in waiting.values()} | {
        holder.id: holder.end for holder in on.values()
    }
    queue = [waiting.get(run.id, run) for run in found.waiting]
    holders = [on.get(holder.id, holder) for holder in found.holders]
    return Outlay(
        len(seconds),
        like,
        None if like == len(seconds) else assumed,
        near.runs if near else 0,
        _hours({run_id: demand.cores for run_id, demand in part.demands.items()}, seconds),
        _hours({run_id: demand.gpus for run_id, demand in part.demands.items()}, seconds),
        None if disturbed else _last_end(free, on.values(), forecast(free, list(on.values()), found.room)),
        _last_end(free, on.values(), forecast(queue, holders, found.room)),
        len(waiting) - len(free),
        sum(run.takes is not None and run.takes.whole_s is not None for run in waiting.values()),
        disturbed,
        any(run.takes is not None and run.takes.scaled_from for run in part.waiting),
    )


def _filled(run: Waiting, assumed_s: float | None, near: Estimate | None) -> Waiting:
    if run.takes or assumed_s is None:
        return run
    whole_s, disturbed = (near.whole_s, near.disturbed) if near else (None, False)
    times = (assumed_s, assumed_s, assumed_s)
    return replace(run, takes=Estimate(*times, 0, whole_s=whole_s, disturbed=disturbed))


def _hours(slots: Mapping[int, int], seconds: Mapping[int, float | None]) -> float | None:
    """Return slots times seconds in hours, None if one is unknown."""
    found = [None if each is None else each * slots[run_id] for run_id, each in seconds.items()]
    return None if None in found else sum(each for each in found if each is not None) / 3600


def _last_end(waiting: Collection[Waiting], on: Collection[Holder], starts: Mapping[int, float]) -> float | None:
    """Return the time of the last end, None if one is unknown."""
    ends = [holder.end for holder in on]
    ends += [starts[run.id] + run.takes.median if run.takes and run.id in starts else None for run in waiting]
    return None if None in ends else max((end for end in ends if end is not None), default=0.0)
