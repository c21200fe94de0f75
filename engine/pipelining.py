"""Pipeline schedules: the table of operations of each stage, and the time that any such table needs. Torch-free."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb_h1"]
"""gpipe: all forwards, then all backwards (Huang et al. 2019). 1f1b: one forward, one backward (Narayanan et al. 2019).
interleaved: 1f1b with several parts of the net in each stage (Narayanan et al. 2021). zb_h1: 1f1b whose backwards are
split into the gradients of inputs and of weights; the latter fill the bubble (Qi et al. 2023).
"""
What = Literal["forward", "backward", "input_gradient", "weight_gradient", "update"]
"""A whole backward, or its two halves: the input gradient, which the previous part waits for, and the weight gradient,
which nobody waits for.
"""


@dataclass(frozen=True)
class Layout:
    """How a net and its batches are divided: stages × chunks parts of the net, and micro-batches (splits)."""

    stages: int
    splits: int
    chunks: int = 1
    """Parts of the net in each stage."""

    @property
    def parts(self) -> int:
        """Number of parts of the net."""
        return self.stages * self.chunks

    def part(self, stage: int, chunk: int) -> int:
        """Return the part of the net (from 0) that is a stage's chunk; spans name both by it."""
        return chunk * self.stages + stage

    def place(self, part: int) -> tuple[int, int]:
        """Return the stage of a part of the net, and which of its chunks it is."""
        chunk, place = divmod(part, self.stages)
        return place, chunk


# ---- The operations of a stage, in order ---------------------------------------------------------------------------


class Action(NamedTuple):
    """An operation of a stage on a micro-batch (from 0), in one of its chunks (from 0)."""

    what: What
    micro_batch: int
    chunk: int = 0


def actions(schedule: Schedule, stage: int, layout: Layout) -> list[Action]:
    """Return the operations of a stage (from 0) for one batch, in order.

    The schedules differ in how many forwards precede the first backward, and in zb_h1's weight gradients, of which
    stage k (from 0) is always k behind: every stage then holds as many micro-batches as 1f1b's first one.
    """
    stages, is_split = layout.stages, schedule == "zb_h1"
    onward = [Action("forward", *each) for each in forwards(layout)]
    kind: What = "input_gradient" if is_split else "backward"
    backwards = [Action(kind, number, layout.chunks - 1 - chunk) for number, chunk in forwards(layout)]
    ahead = {
        "gpipe": len(onward),
        "interleaved": 2 * (stages - stage - 1) + (layout.chunks - 1) * stages + 1,
    }.get(schedule, stages - stage)
    order = onward[:ahead]
    for number, backward in enumerate(backwards):
        order.append(backward)
        if is_split and number >= stage:
            order.append(Action("weight_gradient", number - stage))
        order += onward[ahead + number : ahead + number + 1]
    behind = min(stage, layout.splits) if is_split else 0
    return order + [Action("weight_gradient", number) for number in range(layout.splits - behind, layout.splits)]


def forwards(layout: Layout) -> list[tuple[int, int]]:
    """Return the micro-batches and chunks of a stage's forwards, in order: with several chunks, as many micro-batches
    as there are stages go through one chunk, then through the next.
    """
    group = layout.stages if layout.chunks > 1 else layout.splits
    return [
        (number, chunk)
        for first in range(0, layout.splits, group)
        for chunk in range(layout.chunks)
        for number in range(first, min(first + group, layout.splits))
    ]


def orders(schedule: Schedule, layout: Layout) -> list[list[Action]]:
    """Return the operations of every stage."""
    return [actions(schedule, stage, layout) for stage in range(layout.stages)]


def depth(schedule: Schedule, stage: int, layout: Layout, chunk: int = 0) -> int:
    """Return the maximum number of micro-batches that wait between their forward and their gradient in a chunk."""
    waiting = most = 0
    for action in actions(schedule, stage, layout):
        if action.chunk == chunk and action.what != "weight_gradient":
            waiting += 1 if action.what == "forward" else -1
            most = max(most, waiting)
    return most


def sizes(batch_size: int, splits: int) -> list[int]:
    """Return the samples of each micro-batch: as even as possible, larger ones first."""
    least, more = divmod(batch_size, splits)
    return [least + (number < more) for number in range(splits)]


# ---- The minimum time of such tables for given durations -----------------------------------------------------------
# With a unit for each forward and backward, p stages and m micro-batches end after 2 (m + p - 1) units by gpipe and by
# 1f1b alike, of which each stage works 2 m; tests/pipelining/test_schedules.py draws every schedule.

Took = Callable[[int, Action], float]
"""The duration of a stage's action, in any unit."""


class Played(NamedTuple):
    """An action of a stage (from 0), from `start` to `end` in the unit of the durations."""

    stage: int
    action: Action
    start: float
    end: float


def play(table: Sequence[Sequence[Action]], layout: Layout, took: Took, transfer: float = 0.0) -> list[Played]:
    """Return the actions of all stages, each as early as its stage's order and the results of other parts permit.

    `transfer` is the time from the end of an action until another stage has its result. Raises ValueError for a table
    whose stages wait for each other.
    """
    left = [deque(order) for order in table]
    done: dict[Action, tuple[int, float]] = {}
    free = [0.0] * layout.stages
    played: list[Played] = []
    while any(left):
        before = len(played)
        for stage, queue in enumerate(left):
            while queue and (ready := _ready(queue[0], stage, layout, done, transfer)) is not None:
                action = queue.popleft()
                start = max(free[stage], ready)
                free[stage] = start + took(stage, action)
                done[_result(action, layout.part(stage, action.chunk))] = stage, free[stage]
                played.append(Played(stage, action, start, free[stage]))
        if len(played) == before:
            waiting = ", ".join(f"stage {stage + 1} at {queue[0]}" for stage, queue in enumerate(left) if queue)
            raise ValueError(f"The stages wait for each other: {waiting}.")
    return played


def _result(action: Action, part: int) -> Action:
    """Return what an action computes of a part: its output or a gradient, under one name for both kinds of backward."""
    return Action("backward" if action.what == "input_gradient" else action.what, action.micro_batch, part)


def _ready(
    action: Action, stage: int, layout: Layout, done: dict[Action, tuple[int, float]], transfer: float
) -> float | None:
    """Return the time at which an action's input is at its stage, or None if that has not been simulated yet."""
    part, number = layout.part(stage, action.chunk), action.micro_batch
    if action.what == "update" or (action.what == "forward" and part == 0):
        return 0.0
    if action.what == "forward":
        needs = Action("forward", number, part - 1)
    elif action.what == "weight_gradient":
        needs = Action("backward", number, part)
    else:
        needs = Action("forward", number, part) if part == layout.parts - 1 else Action("backward", number, part + 1)
    if needs not in done:
        return None
    source, end = done[needs]
    return end + (transfer if source != stage else 0.0)


def makespan(table: Sequence[Sequence[Action]], layout: Layout, took: Took) -> float:
    """Return the time from the first start to the last end, in the unit of the durations."""
    return max(each.end for each in play(table, layout, took))


def bubble(table: Sequence[Sequence[Action]], layout: Layout, took: Took) -> float:
    """Return the share of the stages' time in which they idle."""
    busy = sum(took(stage, action) for stage, order in enumerate(table) for action in order)
    return 1 - busy / (layout.stages * makespan(table, layout, took))


FORMULAS: dict[Schedule, str] = {
    "gpipe": "(p - 1) / (m + p - 1)",
    "1f1b": "(p - 1) / (m + p - 1)",
    "interleaved": "(p - 1) / (v m + p - 1)",
    "zb_h1": "(p - 1) x / (m (F + B + W) + (p - 1) x) with x the largest of F, B and F + B - W",
}
"""The bubble of p equal stages with v chunks each and m micro-batches; F, B and W are the times of forwards, input
gradients and weight gradients.
"""


def ideal_bubble(schedule: Schedule, layout: Layout, work: Sequence[float] = (1, 1, 1)) -> float:
    """Return the bubble of equal stages without transfers, from the papers' formulas; `work` is the time of a forward,
    an input gradient and a weight gradient.

    `FORMULAS` has them; that of zb_h1 holds for m of at least p. Its paper has F + B - W, for W of at most F and B.
    """
    forward, of_inputs, of_weights = work
    each = forward + of_inputs + of_weights
    filled = max(forward, of_inputs, forward + of_inputs - of_weights)
    lost = filled if schedule == "zb_h1" else each / layout.chunks
    return (layout.stages - 1) * lost / (layout.splits * each + (layout.stages - 1) * lost)


def speed_up_bound(schedule: Schedule, work: Sequence[Sequence[float]], layout: Layout) -> float:
    """Return the maximum speed-up of a batch of equal micro-batches over one stage at a time; `work` is the total time
    of each stage's forwards, of its backwards (or input gradients), and of its weight gradients if they are apart.

    It is exact for this order if transfers take no time. For gpipe it is m (F + B) / (F + B + (m-1) (max f + max b)),
    with F and B the sums of the stages' forwards f and backwards b: the slowest forward and the slowest backward count,
    which may be different stages'.
    """

    def took(stage: int, action: Action) -> float:
        kind = {"forward": 0, "weight_gradient": 2}.get(action.what, 1)
        return work[stage][kind] / (layout.splits * layout.chunks)

    return sum(map(sum, work)) / makespan(orders(schedule, layout), layout, took)
