"""Pipeline schedules: the order of forwards and backwards in a stage, and the time that a schedule needs."""

from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

# ---- The order of forwards and backwards in a stage ----------------------------------------------------------------
# Torch-free. Two stages, four micro-batches; F forward, B backward, time to the right: gpipe stage 1 F0 F1 F2 F3 .
# . B0 B1 B2 B3 1f1b stage 1 F0 F1 . B0 F2 B1 F3 B2 . B3 stage 2 . F0 F1 F2 F3 B0 B1 B2 B3 . stage 2 . F0 B0 F1 B1
# F2 B2 F3 B3 . GPipe (Huang et al. 2019) holds the activations of all micro-batches; one forward, one backward
# (1F1B, Narayanan et al. 2019) holds at most as many as there are stages from this one to the last.

Schedule = Literal["gpipe", "1f1b"]


class Action(NamedTuple):
    """A stage's next action: the forward or the backward of a micro-batch (from 0)."""

    what: Literal["forward", "backward"]
    micro_batch: int


def order_of(mode: str, peer_schedule: Schedule) -> Schedule:
    """Return the schedule of a mode; mode rpc works on arrivals, which gives gpipe's order."""
    if mode == "torch_pipelining":
        return peer_schedule
    return "1f1b" if mode == "1f1b" else "gpipe"


def actions(schedule: Schedule, stage: int, stages: int, splits: int) -> list[Action]:
    """Return the actions of stage `stage` (from 0) of `stages` for a batch of `splits` micro-batches, in order."""
    ahead = depth(schedule, stage, stages, splits)
    forwards = [Action("forward", number) for number in range(splits)]
    backwards = [Action("backward", number) for number in range(splits)]
    order = forwards[:ahead]
    for number, backward in enumerate(backwards):
        order.append(backward)
        order += forwards[ahead + number : ahead + number + 1]
    return order


def depth(schedule: Schedule, stage: int, stages: int, splits: int) -> int:
    """Return the maximum number of micro-batches whose activations the stage holds."""
    return splits if schedule == "gpipe" else min(splits, stages - stage)


def sizes(batch_size: int, splits: int) -> list[int]:
    """Return the images of each micro-batch: as even as possible, larger ones first."""
    least, more = divmod(batch_size, splits)
    return [least + (number < more) for number in range(splits)]


# ------------------------------------------------------------------------------------------------------------------
# Simulate a batch of a schedule with given durations and free transfers: the minimum time for those durations. With
# a unit for each forward and backward, p stages and m micro-batches end after 2(m+p-1) units by gpipe and by 1f1b
# alike, of which each stage works 2m; tests/pipelining/test_schedules.py draws both.

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
