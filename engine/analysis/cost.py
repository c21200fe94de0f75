"""What runs will take, from like runs that finished here: slot-hours, and the time until the last of them ends. Torch-free and pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from engine.store.records import Demand, RunRow

SEED = "seed"


@dataclass(frozen=True)
class Wanted:
    """One run before its launch."""

    config: Mapping[str, Any]
    demand: Demand


@dataclass(frozen=True)
class Cost:
    """What several runs take on an idle machine."""

    runs: int
    core_hours: float
    gpu_hours: float
    time_s: float
    like_runs: int
    """How many finished runs it is told from."""


def cost(wanted: Sequence[Wanted], varied: Collection[str], finished: Sequence[RunRow], *, cores: int, gpus: int, one_at_a_time: bool = False) -> Cost | None:
    """Return what the runs take, None where no like run has finished: one that has the same settings but for `varied` and the seed.

    A run takes as long as the mean of the like runs with the same values of `varied` too; where there are none, of all like runs.
    """
    if not wanted:
        return None
    like = [run for run in finished if run.execution_time_s is not None and _apart(run.config, wanted[0].config) <= {*varied, SEED}]
    if not like:
        return None
    times = [_mean_s(_same(like, each, varied) or like) for each in wanted]
    return Cost(
        len(wanted),
        sum(each.demand.cores * time for each, time in zip(wanted, times, strict=True)) / 3600,
        sum(each.demand.gpus * time for each, time in zip(wanted, times, strict=True)) / 3600,
        sum(times) if one_at_a_time else _packed_s(wanted, times, cores, gpus),
        len(like),
    )


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the settings in which two configs differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _same(like: Sequence[RunRow], wanted: Wanted, varied: Collection[str]) -> list[RunRow]:
    return [run for run in like if all(run.config.get(name) == wanted.config.get(name) for name in varied)]


def _mean_s(runs: Sequence[RunRow]) -> float:
    return sum((run.execution_time_s or 0.0) + (run.startup_time_s or 0.0) for run in runs) / len(runs)


def _packed_s(wanted: Sequence[Wanted], times: Sequence[float], cores: int, gpus: int) -> float:
    """Return when the last run ends, each started in its order as soon as there is room."""
    free_cores, free_gpus, clock = cores, gpus, 0.0
    on: list[tuple[float, int, int]] = []
    for each, time in zip(wanted, times, strict=True):
        while on and (each.demand.cores > free_cores or each.demand.gpus > free_gpus):
            clock, ended_cores, ended_gpus = heappop(on)
            free_cores, free_gpus = free_cores + ended_cores, free_gpus + ended_gpus
        heappush(on, (clock + time, each.demand.cores, each.demand.gpus))
        free_cores, free_gpus = free_cores - each.demand.cores, free_gpus - each.demand.gpus
    return max(end for end, _, _ in on)
