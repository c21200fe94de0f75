"""What to change in a pipeline, in one sentence, and how much faster than one process it can be where it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis.pipeline.spans import Measures, ideal_bubble

WORTH = 0.05
"""A loss below this share of all stages' time is not worth a change."""
COSTLY = 1.25
"""Times as much work an image as with fewer splits, from which micro-batches count as too small; less may be chance."""
CROWDED = 0.9
"""Stages at work for each place to compute, from which the places are the limit."""
UNEQUAL = 1.1
"""The slowest stage's work over an equal share, from which stages count as unequal."""


@dataclass(frozen=True)
class SpeedupBound:
    """The most that a pipeline can be faster than one process with as many threads as one rank has, and why no more."""

    speed_up: float
    because: str
    places: float
    """How many stages can compute at one time, whatever the cut."""
    room: str
    """What they compute on, in words."""


@dataclass(frozen=True)
class Settings:
    """What of a run's config and cut the advice goes by; roles are stage1, stage2, …"""

    mode: str
    schedule: str
    batch_size: int
    layers: int
    """Layers that the net can be cut between."""
    transport: str = "auto"
    cuts: tuple[int, ...] = ()
    """The layers that begin stages 2, 3, …; empty where they are not known."""


@dataclass(frozen=True)
class SplitCost:
    """Another run's cost: `times` as much work per image here as there, with its fewer `splits`."""

    run_id: int
    splits: int
    times: float


def best_speed_up(
    devices: Sequence[str], cores: int, threads: int, shares: Sequence[float], splits: int, bound: float
) -> SpeedupBound:
    """Return the most that stages on these devices (one each, such as cpu or cuda:0) can gain, by what there is and by
    how the net is cut.

    `bound` is the most that stages of these shares can gain in so many splits, wherever they are.
    """
    stages = len(devices)
    chips, on_cpu = {device for device in devices if device != "cpu"}, sum(device == "cpu" for device in devices)
    places = max(1.0, min(stages, len(chips) + min(on_cpu, cores / threads)))
    room = (
        f"{_counted(cores, 'CPU core')} at {_counted(threads, 'thread')} a rank"
        if on_cpu
        else f"{_counted(len(chips), 'device')} ({', '.join(sorted(chips))})"
    )
    if places < bound or places == 1:
        return SpeedupBound(places, f"{stages} stages on {room}.", places, room)
    parts = ", ".join(f"{_percent(share)}" for share in shares)
    return SpeedupBound(bound, f"Stages with {parts} of the work, in {_counted(splits, 'split')}.", places, room)


def advice(measures: Measures, settings: Settings, best: SpeedupBound, slower: SplitCost | None = None) -> str:
    """Return what to change first, going by the largest of the losses: the schedule's, unequal stages', waiting's, that
    of small micro-batches.
    """
    if best.places <= 1:
        return (
            f"All stages share {best.room}: splits can't make this faster than one process; give each stage a core "
            "or a GPU of its own."
        )
    stages = len(measures.shares)
    if best.places < stages and measures.at_work >= CROWDED * best.places:
        full = f"{stages} stages share {best.room}, on which {measures.at_work:.2g} work at a time"
        return f"{full}: that is the limit, so take fewer stages or a core or GPU for each."
    costly = (1 - 1 / slower.times) * (1 - measures.bubble) if slower and slower.times >= COSTLY else 0.0
    losses = {
        "schedule": measures.of_schedule,
        "unevenness": measures.of_unevenness,
        "waiting": measures.of_waiting,
        "costly": costly,
    }
    worst = max(losses, key=lambda name: losses[name])
    if losses[worst] < WORTH:
        return (
            f"Near what can be had: of the {_percent(measures.bubble)} of the time that stages idle, no single "
            f"cause makes up {_percent(WORTH)} or more."
        )
    if worst == "costly" and slower:
        here = f"an image takes {slower.times:.2g} times the work that it takes in run {slower.run_id}"
        return f"Lower splits to {slower.splits}: {here}, whose micro-batches are larger."
    if worst == "unevenness":
        return _move_a_layer(measures, settings)
    return _more_splits(measures, settings) if worst == "schedule" else _less_waiting(measures, settings)


def _more_splits(measures: Measures, settings: Settings) -> str:
    lost, stages = (
        (
            f"With {_counted(measures.splits, 'split')} the schedule alone idles {_percent(measures.of_schedule)} "
            "of the time"
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
        return f"{lost}, and a batch of {settings.batch_size} can't be cut further: take a larger batch_size{fewer}."
    more = next((count for count in can_be if count >= 2 * measures.splits), can_be[-1])
    small = f"if micro-batches of {_counted(settings.batch_size // more, 'image')} cost no more each"
    return f"{lost}: raise splits to {more}, where equal stages idle {_percent(ideal_bubble(stages, more))}, {small}."


def _move_a_layer(measures: Measures, settings: Settings) -> str:
    shares, stages = measures.shares, len(measures.shares)
    slowest = max(range(stages), key=lambda stage: shares[stage])
    if shares[slowest] * stages < UNEQUAL:
        lost = f"which idles {_percent(measures.of_unevenness)} of the time"
        return (
            f"Stages are equal, but micro-batches take unequal times, {lost}: look for other programs on their cores."
        )
    neighbour = min(
        (stage for stage in (slowest - 1, slowest + 1) if 0 <= stage < stages), key=lambda stage: shares[stage]
    )
    says = (
        f"stage{slowest + 1} has {_percent(shares[slowest])} of the work and stage{neighbour + 1} "
        f"{_percent(shares[neighbour])}"
    )
    end = "first" if neighbour < slowest else "last"
    if len(settings.cuts) != stages - 1:
        return f"{says}: move the {end} layer of stage{slowest + 1} to stage{neighbour + 1} by cut."
    begins = (0, *settings.cuts, settings.layers)
    if begins[slowest + 1] - begins[slowest] < 2:
        fewer = "; fewer stages would be more equal" if stages > 2 else ""
        return f"{says}, but stage{slowest + 1} has one layer only, so no cut makes them more equal{fewer}."
    cuts, edge = list(settings.cuts), min(slowest, neighbour)
    layer = cuts[edge] if end == "first" else cuts[edge] - 1
    cuts[edge] += 1 if end == "first" else -1
    return (
        f"{says}: move layer {layer} to stage{neighbour + 1}, which is cut {','.join(map(str, cuts))} (now "
        f"{','.join(map(str, settings.cuts))})."
    )


def _less_waiting(measures: Measures, settings: Settings) -> str:
    lost = f"{_percent(measures.of_waiting)} of the time stages wait for more than the schedule asks"
    if settings.mode == "rpc":
        return (
            f"{lost}, for messages above all: mode gpipe or 1f1b hands activations from stage to stage without a "
            "master."
        )
    if settings.mode == "torch_pipelining":
        return (
            f"{lost}, torch's transfers among it, which it does not tell apart: hold mode {settings.schedule} "
            "against it."
        )
    if measures.moving < measures.of_waiting / 2:
        small = "micro-batches are small beside the time of a hand-over"
        return (
            f"{lost}, though sending takes only {_percent(measures.moving)}: {small}; lower splits, or free the "
            "stages' cores."
        )
    if settings.transport == "rpc":
        return f"{lost}, and sending takes {_percent(measures.moving)}: choose transport shared_memory."
    fewer = "take fewer stages, or " if len(measures.shares) > 2 else ""
    return (
        f"{lost}, and sending takes {_percent(measures.moving)}: {fewer}cut where activations are smaller, which "
        "is deeper in the net."
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
