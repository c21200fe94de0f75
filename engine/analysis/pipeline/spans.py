"""Analysis of a pipeline's recorded spans: batches, busy times, idle share and its causes. Times are seconds.

With p equal stages and m splits the bubble is at least (p-1)/(m+p-1) (Huang et al. 2019). The bound for unequal stages
is simulated (engine/pipelining.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.pipelining import Schedule, makespan, play
from engine.recorder import Span

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
