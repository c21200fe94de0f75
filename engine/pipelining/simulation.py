"""Simulate a batch of a schedule with given durations and free transfers: the minimum time for those durations.

With a unit for each forward and backward, p stages and m micro-batches end after 2(m+p-1) units by gpipe and by 1f1b
alike, of which each stage works 2m; tests/pipelining/test_schedules.py draws both.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from engine.pipelining.schedules import Action, Schedule, actions

Durations = Sequence[Sequence[float]]
"""Of each micro-batch at each stage: [stage][micro-batch], in any unit."""
_Key = tuple[str, int, int]


class Played(NamedTuple):
    """An action of a stage (from 0) on a micro-batch, from `start` to `end` in the unit of the durations."""

    what: str
    stage: int
    micro_batch: int
    start: float
    end: float


def play(
    schedule: Schedule, forward: Durations, backward: Durations, updates: Sequence[float] = (), transfer: float = 0.0
) -> list[Played]:
    """Return the actions of all stages, each as early as its order and its neighbours permit; an update, if given,
    follows a stage's last backward.

    `transfer` is the time from the end of an action until the neighbour has its result.
    """
    stages, splits = len(forward), len(forward[0])
    left = [deque(actions(schedule, stage, stages, splits)) for stage in range(stages)]
    done: dict[_Key, float] = {}
    free, played = [0.0] * stages, []
    while any(left):
        for stage, queue in enumerate(left):
            while queue and (ready := _ready(queue[0], stage, stages, done, transfer)) is not None:
                what, number = queue.popleft()
                start = max(free[stage], ready)
                free[stage] = start + (forward if what == "forward" else backward)[stage][number]
                done[what, stage, number] = free[stage]
                played.append(Played(what, stage, number, start, free[stage]))
    return played + [
        Played("update", stage, 0, free[stage], free[stage] + spent) for stage, spent in enumerate(updates)
    ]


def makespan(
    schedule: Schedule, forward: Durations, backward: Durations, updates: Sequence[float] = (), transfer: float = 0.0
) -> float:
    """Return the time from the first start to the last end, in the unit of the durations."""
    return max(each.end for each in play(schedule, forward, backward, updates, transfer))


def speed_up_bound(schedule: Schedule, forward: Sequence[float], backward: Sequence[float], splits: int) -> float:
    """Return the maximum speed-up of a batch of equal micro-batches over one stage at a time, from its stages' total
    forwards and backwards.

    It is exact for this order if transfers take no time. For gpipe it is m (F + B) / (F + B + (m-1) (max f + max b)),
    with F and B the sums of the stages' forwards f and backwards b: the slowest forward and the slowest backward count,
    which may be different stages'.
    """
    ahead, back = ([[spent / splits] * splits for spent in stages] for stages in (forward, backward))
    return (sum(forward) + sum(backward)) / makespan(schedule, ahead, back)


def _ready(action: Action, stage: int, stages: int, done: dict[_Key, float], transfer: float) -> float | None:
    """Return the time at which an action's input is at its stage, or None if that has not been simulated yet."""
    what, number = action
    needs: _Key
    if what == "forward":
        if stage == 0:
            return 0.0
        needs = ("forward", stage - 1, number)
    else:
        needs = ("forward", stage, number) if stage == stages - 1 else ("backward", stage + 1, number)
    away = transfer if needs[1] != stage else 0.0
    return done[needs] + away if needs in done else None
