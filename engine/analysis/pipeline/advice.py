"""Advice for a pipeline in one sentence, and its maximum speed-up over one process on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis.pipeline.spans import Measures, ideal_bubble

WORTH = 0.05
"""Losses below this share of stage time are not worth a change."""
COSTLY = 1.25
"""Ratio of work per image to that with fewer splits from which micro-batches count as too small; below, it may be
noise.
"""
CROWDED = 0.9
"""Busy stages per device slot from which the device slots are the limit."""
UNEQUAL = 1.1
"""Ratio of the slowest stage's work to an equal share from which stages count as unequal."""


@dataclass(frozen=True)
class SpeedupBound:
    """The maximum speed-up of a pipeline over one process with as many threads as one rank, and the reason for the
    limit.
    """

    speed_up: float
    because: str
    places: float
    """Number of stages that can compute at the same time, for any cut."""
    room: str
    """The devices that they compute on, in words."""


@dataclass(frozen=True)
class Settings:
    """The parts of a run's config and cut that advice is based on; roles are stage1, stage2, …"""

    mode: str
    schedule: str
    batch_size: int
    layers: int
    """Number of layers that the net can be cut between."""
    transport: str = "auto"
    cuts: tuple[int, ...] = ()
    """The layers that start stages 2, 3, …; empty if unknown."""


@dataclass(frozen=True)
class SplitCost:
    """Cost compared with another run: `times` as much work per image here as in that run, which has fewer `splits`."""

    run_id: int
    splits: int
    times: float


def best_speed_up(
    devices: Sequence[str], cores: int, threads: int, shares: Sequence[float], splits: int, bound: float
) -> SpeedupBound:
    """Return the maximum speed-up of stages on these devices (one each, such as cpu or cuda:0), limited by hardware and
    by the cut.

    `bound` is the maximum speed-up of stages with these shares in this number of splits, on any devices.
    """
    stages = len(devices)
    chips, on_cpu = {device for device in devices if device != "cpu"}, sum(device == "cpu" for device in devices)
    places = max(1.0, min(stages, len(chips) + min(on_cpu, cores / threads)))
    room = (
        f"{_counted(cores, 'CPU core')} with {_counted(threads, 'thread')} per rank"
        if on_cpu
        else f"{_counted(len(chips), 'device')} ({', '.join(sorted(chips))})"
    )
    if places < bound or places == 1:
        return SpeedupBound(places, f"{stages} stages on {room}.", places, room)
    parts = ", ".join(f"{_percent(share)}" for share in shares)
    return SpeedupBound(bound, f"Stage shares {parts}, {_counted(splits, 'split')}.", places, room)


def advice(measures: Measures, settings: Settings, best: SpeedupBound, slower: SplitCost | None = None) -> str:
    """Return the most useful change, based on the largest loss: schedule, unequal stages, waiting, or small
    micro-batches.
    """
    if best.places <= 1:
        return f"All stages share {best.room}, so splits can't beat one process. Give each stage its own core or GPU."
    stages = len(measures.shares)
    if best.places < stages and measures.at_work >= CROWDED * best.places:
        full = f"{stages} stages share {best.room}, with {measures.at_work:.2g} busy at a time"
        return f"{full}. The hardware is the limit: use fewer stages, or a core or GPU for each."
    costly = (1 - 1 / slower.times) * (1 - measures.bubble) if slower and slower.times >= COSTLY else 0.0
    losses = {
        "schedule": measures.ideal,
        "unevenness": measures.of_unevenness,
        "waiting": measures.of_waiting,
        "costly": costly,
    }
    worst = max(losses, key=lambda name: losses[name])
    if losses[worst] < WORTH:
        return (
            f"Near the optimum: no single cause makes up {_percent(WORTH)} or more of the "
            f"{_percent(measures.bubble)} idle time."
        )
    if worst == "costly" and slower:
        here = f"an image takes {slower.times:.2g} times as much work as in run {slower.run_id}"
        return f"Lower splits to {slower.splits}: {here}, which has larger micro-batches."
    if worst == "unevenness":
        return _move_a_layer(measures, settings)
    return _more_splits(measures, settings) if worst == "schedule" else _less_waiting(measures, settings)


def _more_splits(measures: Measures, settings: Settings) -> str:
    lost, stages = (
        (
            f"With {_counted(measures.splits, 'split')} the schedule alone leaves stages idle "
            f"{_percent(measures.ideal)} of the time"
        ),
        len(measures.shares),
    )
    divides = settings.mode == "torch_pipelining"
    can_be = [
        count
        for count in range(measures.splits + 1, settings.batch_size + 1)
        if not divides or settings.batch_size % count == 0
    ]
    if not can_be:
        fewer = " or fewer stages" if stages > 2 else ""
        return f"{lost}, and a batch of {settings.batch_size} can't be split further. Use a larger batch_size{fewer}."
    more = next((count for count in can_be if count >= 2 * measures.splits), can_be[-1])
    small = f"if micro-batches of {_counted(settings.batch_size // more, 'image')} don't cost more per image"
    return f"{lost}. Raise splits to {more}: equal stages then idle {_percent(ideal_bubble(stages, more))}, {small}."


def _move_a_layer(measures: Measures, settings: Settings) -> str:
    shares, stages = measures.shares, len(measures.shares)
    slowest = max(range(stages), key=lambda stage: shares[stage])
    if shares[slowest] * stages < UNEQUAL:
        lost = f"{_percent(measures.of_unevenness)} of the time is idle"
        return f"Stages are equal but micro-batch times vary ({lost}). Check for other programs on the same cores."
    neighbour = min(
        (stage for stage in (slowest - 1, slowest + 1) if 0 <= stage < stages), key=lambda stage: shares[stage]
    )
    says = (
        f"stage{slowest + 1} has {_percent(shares[slowest])} of the work and stage{neighbour + 1} "
        f"{_percent(shares[neighbour])}"
    )
    end = "first" if neighbour < slowest else "last"
    if len(settings.cuts) != stages - 1:
        return f"{says}. Move the {end} layer of stage{slowest + 1} to stage{neighbour + 1} with the setting cut."
    begins = (0, *settings.cuts, settings.layers)
    if begins[slowest + 1] - begins[slowest] < 2:
        fewer = ", but fewer stages would" if stages > 2 else ""
        return f"{says}, but stage{slowest + 1} has only one layer: no cut balances them better{fewer}."
    cuts, edge = list(settings.cuts), min(slowest, neighbour)
    layer = cuts[edge] if end == "first" else cuts[edge] - 1
    cuts[edge] += 1 if end == "first" else -1
    return (
        f"{says}. Move layer {layer} to stage{neighbour + 1}: set cut to {','.join(map(str, cuts))} (now "
        f"{','.join(map(str, settings.cuts))})."
    )


def _less_waiting(measures: Measures, settings: Settings) -> str:
    lost = f"Stages wait {_percent(measures.of_waiting)} of the time beyond the schedule"
    if settings.mode == "rpc":
        return f"{lost}, mainly for messages. Modes gpipe and 1f1b pass activations between stages without a master."
    if settings.mode == "torch_pipelining":
        return (
            f"{lost}, including torch's transfers, which are not measured separately. Compare with mode "
            f"{settings.schedule}."
        )
    if measures.moving < measures.of_waiting / 2:
        small = "micro-batches are small compared with the transfer overhead"
        return (
            f"{lost}, though sending takes only {_percent(measures.moving)}: {small}. Lower splits, or free the "
            "stages' cores."
        )
    if settings.transport == "rpc":
        return f"{lost}, and sending takes {_percent(measures.moving)}. Set transport to shared_memory."
    fewer = "use fewer stages, or " if len(measures.shares) > 2 else ""
    return (
        f"{lost}, and sending takes {_percent(measures.moving)}: {fewer}cut deeper in the net, where activations are "
        "smaller."
    )


def percent(share: float) -> str:
    """Return a share of time as a percentage with one decimal, as everywhere on the page of a batch."""
    return f"{share * 100:.1f} %"


def _percent(share: float) -> str:
    return percent(share).replace(".0 %", " %")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
