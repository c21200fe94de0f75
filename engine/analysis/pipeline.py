"""Pipelines: analysis of recorded spans, and advice with the highest possible speed-up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.errors import counted
from engine.pipelining import Schedule, makespan, play
from engine.recorder import Span

# ---- Analysis of a pipeline's recorded spans: batches, busy times, idle share and its causes -----------------------
# Times are seconds. With p equal stages and m splits the bubble is at least (p-1)/(m+p-1) (Huang et al. 2019). The
# bound for unequal stages is simulated (engine/pipelining.py).

WORK = ("forward", "backward")
BUSY = (*WORK, "update")
MOVING = ("send", "receive")


@dataclass(frozen=True)
class BatchSpans:
    """The spans of one batch (from 0) of `splits` micro-batches in `stages` stages."""

    number: int
    stages: int
    splits: int
    spans: tuple[Span, ...]

    @property
    def complete(self) -> bool:
        """Whether every stage has recorded forward and backward of every micro-batch, and its update if any stage has
        one.
        """
        found = {(span.name, span.stage, span.micro_batch) for span in self.spans}
        first = self.number * self.splits
        numbers = range(first, first + self.splits)
        worked = all(
            (name, stage, number) in found for name in WORK for stage in range(self.stages) for number in numbers
        )
        return worked and len({span.stage for span in self.spans if span.name == "update"}) in (0, self.stages)

    @property
    def start_ns(self) -> int:
        """Start of its first span, on the machine's monotonic clock."""
        return min(span.t0_ns for span in self.spans)

    @property
    def window_s(self) -> float:
        """Time from the start of its first span to the end of its last."""
        return (max(span.t1_ns for span in self.spans) - self.start_ns) / 1e9


@dataclass(frozen=True)
class Measures:
    """The measures of one complete batch; tuples have an entry per stage, shares are from 0 to 1.

    `bubble` is the idle share of stage time, the sum of three parts: `ideal`, the bubble of equal stages;
    `of_unevenness`, the difference to it of the batch's bubble without transfers and delays (`bound_bubble`, in
    `least_s`), negative where unequal micro-batches or updates fill it; and `of_waiting`, the addition by transfers
    and delays.
    """

    splits: int
    window_s: float
    least_s: float
    busy_s: tuple[float, ...]
    moving_s: tuple[float, ...]
    waiting_s: tuple[float, ...]
    """Neither busy nor moving; sending that overlaps other work still counts in `moving_s`."""
    shares: tuple[float, ...]
    bubble: float

    @property
    def ideal(self) -> float:
        """The bubble of equal stages with zero transfer time."""
        return ideal_bubble(len(self.shares), self.splits)

    @property
    def bound(self) -> float:
        """Maximum speed-up of this batch's stages over serial execution: without transfers and delays."""
        return sum(self.busy_s) / self.least_s

    @property
    def bound_bubble(self) -> float:
        """The bubble at this bound."""
        return 1 - self.bound / len(self.shares)

    @property
    def of_unevenness(self) -> float:
        return self.bound_bubble - self.ideal

    @property
    def of_waiting(self) -> float:
        return self.bubble - self.bound_bubble

    @property
    def at_work(self) -> float:
        """Average number of busy stages."""
        return sum(self.busy_s) / self.window_s

    @property
    def moving(self) -> float:
        """Share of stage time spent sending or receiving."""
        return sum(self.moving_s) / (len(self.shares) * self.window_s)


def batches(spans: Iterable[Span], stages: int, splits: int) -> list[BatchSpans]:
    """Return the spans by batch, in order, including incomplete batches; spans without a stage are dropped."""
    found: dict[int, list[Span]] = {}
    for span in spans:
        if 0 <= span.stage < stages:
            found.setdefault(span.micro_batch // splits, []).append(span)
    return [
        BatchSpans(number, stages, splits, tuple(sorted(found[number], key=lambda span: span.t0_ns)))
        for number in sorted(found)
    ]


def measure(batch: BatchSpans, schedule: Schedule) -> Measures:
    """Return the measures of a complete batch that ran in the order of `schedule`."""
    window, stages, splits = batch.window_s, batch.stages, batch.splits
    busy, moving = _covered(batch, BUSY), _covered(batch, MOVING)
    forward, backward = durations(batch, "forward"), durations(batch, "backward")
    work = [sum(ahead) + sum(back) for ahead, back in zip(forward, backward, strict=True)]
    return Measures(
        splits=splits,
        window_s=window,
        least_s=min(window, makespan(schedule, forward, backward, updates(batch))),  # torch may use another order
        busy_s=tuple(busy),
        moving_s=tuple(moving),
        waiting_s=tuple(window - spent for spent in _covered(batch, (*BUSY, *MOVING))),
        shares=tuple(spent / sum(work) for spent in work),
        bubble=1 - sum(busy) / (stages * window),
    )


def ideal_bubble(stages: int, splits: int) -> float:
    """Return the bubble of equal stages with zero transfer time."""
    return (stages - 1) / (splits + stages - 1)


def durations(batch: BatchSpans, name: str) -> list[list[float]]:
    """Return the seconds of each micro-batch at each stage in spans of one name: [stage][micro-batch]."""
    spent = [[0.0] * batch.splits for _ in range(batch.stages)]
    for span in batch.spans:
        if span.name == name:
            spent[span.stage][span.micro_batch % batch.splits] += (span.t1_ns - span.t0_ns) / 1e9
    return spent


def work_s(batch: BatchSpans) -> float:
    """Return the total seconds of all forwards and backwards."""
    return sum(span.t1_ns - span.t0_ns for span in batch.spans if span.name in WORK) / 1e9


def stage_work(batch: BatchSpans) -> list[tuple[float, float]]:
    """Return the seconds of each stage's forwards and backwards."""
    return list(zip(map(sum, durations(batch, "forward")), map(sum, durations(batch, "backward")), strict=True))


def updates(batch: BatchSpans) -> list[float]:
    """Return the seconds of each stage's update."""
    return [sum(spent) for spent in durations(batch, "update")]


def unhindered(batch: BatchSpans, schedule: Schedule) -> BatchSpans:
    """Return the batch as its own durations allow without transfers and delays."""
    first, start = batch.number * batch.splits, batch.start_ns
    played = play(schedule, durations(batch, "forward"), durations(batch, "backward"), updates(batch))
    spans = [
        Span(
            each.what,
            each.stage,
            first + each.micro_batch,
            start + round(each.start * 1e9),
            start + round(each.end * 1e9),
        )
        for each in played
    ]
    return replace(batch, spans=tuple(span for span in spans if span.t1_ns > span.t0_ns))


def _covered(batch: BatchSpans, names: Sequence[str]) -> list[float]:
    """Return the seconds of each stage covered by spans with these names; overlapping spans count once."""
    covered, reached = [0] * batch.stages, [batch.start_ns] * batch.stages
    for span in batch.spans:
        if span.name in names:
            covered[span.stage] += max(0, span.t1_ns - max(span.t0_ns, reached[span.stage]))
            reached[span.stage] = max(span.t1_ns, reached[span.stage])
    return [spent / 1e9 for spent in covered]


# ---- Advice for a pipeline in one sentence, and its maximum speed-up over one process on this machine --------------

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
        f"{counted(cores, 'CPU core')} with {counted(threads, 'thread')} per rank"
        if on_cpu
        else f"{counted(len(chips), 'device')} ({', '.join(sorted(chips))})"
    )
    if places < bound or places == 1:
        return SpeedupBound(places, f"{stages} stages on {room}.", places, room)
    parts = ", ".join(f"{_percent(share)}" for share in shares)
    return SpeedupBound(bound, f"Stage shares {parts}, {counted(splits, 'split')}.", places, room)


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
            f"With {counted(measures.splits, 'split')} the schedule alone leaves stages idle "
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
    small = f"if micro-batches of {counted(settings.batch_size // more, 'image')} don't cost more per image"
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
