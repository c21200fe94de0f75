"""Pipelines: analysis of recorded spans, and advice with the highest possible speed-up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.errors import counted
from engine.pipelining import Action, Layout, Took, What, bubble, makespan, play
from engine.recorder import Span

# ---- Analysis of a pipeline's recorded spans: batches, busy times, idle share and its causes -----------------------
# Times are seconds. A batch's bound is simulated (engine/pipelining.py), in the order in which its stages worked.

BACKWARDS = ("backward", "input_gradient")
WORK: tuple[What, ...] = ("forward", "backward", "input_gradient", "weight_gradient")
BUSY: tuple[What, ...] = (*WORK, "update")
MOVING = ("send", "receive")


@dataclass(frozen=True)
class BatchSpans:
    """The spans of one batch (from 0)."""

    number: int
    layout: Layout
    spans: tuple[Span, ...]

    @property
    def stages(self) -> int:
        return self.layout.stages

    @property
    def splits(self) -> int:
        return self.layout.splits

    def stage_of(self, span: Span) -> int:
        """Return a span's stage (from 0)."""
        return span.stage % self.stages

    def action_of(self, span: Span) -> Action:
        """Return the action of a span of work."""
        what: What = span.name  # type: ignore[assignment]
        if what == "update":
            return Action("update", 0)
        return Action(what, span.micro_batch - self.number * self.splits, span.stage // self.stages)

    @property
    def complete(self) -> bool:
        """Whether every stage has recorded a forward and a backward of every micro-batch in every chunk, and its update
        if any stage has one, which follows all its other work.
        """
        first = self.number * self.splits
        numbers = range(first, first + self.splits)
        worked = (
            {(span.stage, span.micro_batch) for span in self.spans if span.name in names}
            for names in (("forward",), BACKWARDS)
        )
        every = {(part, number) for part in range(self.layout.parts) for number in numbers}
        updated = {self.stage_of(span) for span in self.spans if span.name == "update"}
        return all(every <= each for each in worked) and len(updated) in (0, self.stages)

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

    `bubble` is the idle share of stage time, the sum of three parts: `ideal`, the bubble of the same order with equal
    stages, without transfers; `of_unevenness`, the difference to it of the batch's bubble without transfers and delays
    (`bound_bubble`, in `least_s`), negative where unequal micro-batches or updates fill it; and `of_waiting`, the
    addition by transfers and delays.
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
    ideal: float

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

    def ideal_with(self, splits: int) -> float:
        """Return the ideal bubble with another number of splits: the idle time is that of the same micro-batches."""
        idle = self.splits * self.ideal / (1 - self.ideal)
        return idle / (splits + idle)

    @property
    def moving(self) -> float:
        """Share of stage time spent sending or receiving."""
        return sum(self.moving_s) / (len(self.shares) * self.window_s)


def batches(spans: Iterable[Span], layout: Layout) -> list[BatchSpans]:
    """Return the spans by batch, in order, including incomplete batches; spans without a stage are dropped."""
    found: dict[int, list[Span]] = {}
    for span in spans:
        if 0 <= span.stage < layout.parts:
            found.setdefault(span.micro_batch // layout.splits, []).append(span)
    return [
        BatchSpans(number, layout, tuple(sorted(found[number], key=lambda span: span.t0_ns)))
        for number in sorted(found)
    ]


def measure(batch: BatchSpans) -> Measures:
    """Return the measures of a complete batch."""
    window, stages = batch.window_s, batch.stages
    busy, moving = _covered(batch, BUSY), _covered(batch, MOVING)
    work = [sum(each) for each in stage_work(batch)]
    table = recorded_order(batch)
    return Measures(
        splits=batch.splits,
        window_s=window,
        least_s=makespan(table, batch.layout, _took(batch)),
        busy_s=tuple(busy),
        moving_s=tuple(moving),
        waiting_s=tuple(window - spent for spent in _covered(batch, (*BUSY, *MOVING))),
        shares=tuple(spent / sum(work) for spent in work),
        bubble=1 - sum(busy) / (stages * window),
        ideal=bubble(table, batch.layout, _equal(batch)),
    )


def recorded_order(batch: BatchSpans) -> list[list[Action]]:
    """Return the actions of each stage in the order in which they began."""
    table: list[dict[Action, None]] = [{} for _ in range(batch.stages)]
    for span in batch.spans:
        if span.name in BUSY:
            table[batch.stage_of(span)].setdefault(batch.action_of(span))
    return [list(order) for order in table]


def _took(batch: BatchSpans) -> Took:
    """Return the recorded duration of each action."""
    spent: dict[tuple[int, Action], float] = {}
    for span in batch.spans:
        if span.name in BUSY:
            key = batch.stage_of(span), batch.action_of(span)
            spent[key] = spent.get(key, 0.0) + (span.t1_ns - span.t0_ns) / 1e9
    return lambda stage, action: spent[stage, action]


def _equal(batch: BatchSpans) -> Took:
    """Return the mean duration of each kind of work, as of equal stages; updates take no time."""
    took, table = _took(batch), recorded_order(batch)
    each = {
        what: [took(at, one) for at, order in enumerate(table) for one in order if one.what == what] for what in WORK
    }
    means = {what: sum(spent) / len(spent) for what, spent in each.items() if spent}
    return lambda stage, action: means.get(action.what, 0.0)


def work_s(batch: BatchSpans) -> float:
    """Return the total seconds of all forwards and backwards."""
    return sum(map(sum, stage_work(batch)))


def stage_work(batch: BatchSpans) -> list[tuple[float, ...]]:
    """Return the seconds of each stage's forwards, its backwards or input gradients, and its weight gradients."""
    spent = [[0.0, 0.0, 0.0] for _ in range(batch.stages)]
    for span in batch.spans:
        if span.name in WORK:
            kind = {"forward": 0, "weight_gradient": 2}.get(span.name, 1)
            spent[batch.stage_of(span)][kind] += (span.t1_ns - span.t0_ns) / 1e9
    return [tuple(each) for each in spent]


def unhindered(batch: BatchSpans) -> BatchSpans:
    """Return the batch as its own durations allow in the same order, without transfers and delays."""
    first, start = batch.number * batch.splits, batch.start_ns
    spans = [
        Span(
            each.action.what,
            batch.layout.part(each.stage, each.action.chunk),
            first + each.action.micro_batch,
            start + round(each.start * 1e9),
            start + round(each.end * 1e9),
        )
        for each in play(recorded_order(batch), batch.layout, _took(batch))
    ]
    return replace(batch, spans=tuple(span for span in spans if span.t1_ns > span.t0_ns))


def _covered(batch: BatchSpans, names: Sequence[str]) -> list[float]:
    """Return the seconds of each stage covered by spans with these names; overlapping spans count once."""
    covered, reached = [0] * batch.stages, [batch.start_ns] * batch.stages
    for span in batch.spans:
        if span.name in names:
            stage = batch.stage_of(span)
            covered[stage] += max(0, span.t1_ns - max(span.t0_ns, reached[stage]))
            reached[stage] = max(span.t1_ns, reached[stage])
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
    batch_size: int
    layers: int
    """Number of layers that the net can be cut between."""
    transport: str = "auto"
    cuts: tuple[int, ...] = ()
    """The layers that start parts 2, 3, …; empty if unknown."""
    chunks: int = 1
    peer_schedule: str = ""


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
    step = stages if settings.chunks > 1 else 1
    can_be = [
        count
        for count in range(measures.splits + step, settings.batch_size + 1, step)
        if not divides or settings.batch_size % count == 0
    ]
    if not can_be:
        fewer = " or fewer stages" if stages > 2 else ""
        return f"{lost}, and a batch of {settings.batch_size} can't be split further. Use a larger batch_size{fewer}."
    more = next((count for count in can_be if count >= 2 * measures.splits), can_be[-1])
    small = f"if micro-batches of {counted(settings.batch_size // more, 'image')} don't cost more per image"
    return f"{lost}. Raise splits to {more}: equal stages then idle {_percent(measures.ideal_with(more))}, {small}."


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
    if settings.chunks > 1:
        return f"{says}. Choose parts of more equal time with the setting cut."
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
            f"{settings.peer_schedule}."
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
