"""The order of forwards and backwards in a stage. Torch-free.

Two stages, four micro-batches; F forward, B backward, time to the right:

    gpipe   stage 1   F0 F1 F2 F3 .  .  B0 B1 B2 B3       1f1b   stage 1   F0 F1 .  B0 F2 B1 F3 B2 .  B3
            stage 2   .  F0 F1 F2 F3 B0 B1 B2 B3 .               stage 2   .  F0 B0 F1 B1 F2 B2 F3 B3 .

GPipe (Huang et al. 2019) holds the activations of all micro-batches; one forward, one backward (1F1B, Narayanan et al.
2019) holds at most as many as there are stages from this one to the last.
"""

from typing import Literal, NamedTuple

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
