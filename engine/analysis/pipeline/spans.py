"""What a pipeline's recorded spans say: its batches, who worked when, how much of the time stages idled and why. Times
are seconds.

With p stages and m splits a bubble can't be below (p-1)/(m+p-1) where all stages are equal (Huang et al. 2019). What
unequal ones can reach is played (engine/pipelining/simulation.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.pipelining.schedules import Schedule
from engine.pipelining.simulation import makespan, play, speed_up_bound
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
        """Whether each stage has recorded forward and backward of every micro-batch, and all of them their update where
        one has.
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
        """When its first span began, on the machine's monotonic clock."""
        return min(span.t0_ns for span in self.spans)

    @property
    def window_s(self) -> float:
        """From the start of its first span to the end of its last."""
        return (max(span.t1_ns for span in self.spans) - self.start_ns) / 1e9


@dataclass(frozen=True)
class Measures:
    """The numbers of one complete batch; tuples have an entry a stage, shares are from 0 to 1.

    `bubble` is the idle share of all stages' time, and the sum of three: `of_schedule`, what equal stages would idle
    too; `of_unevenness`, what the measured durations add; `of_waiting`, all that lies between the measured window and
    the least one (`least_s`): transfers and delays.
    """

    splits: int
    window_s: float
    least_s: float
    busy_s: tuple[float, ...]
    moving_s: tuple[float, ...]
    waiting_s: tuple[float, ...]
    """Neither busy nor moving; sending beside other work counts in `moving_s` all the same."""
    shares: tuple[float, ...]
    bubble: float
    of_schedule: float
    of_unevenness: float
    of_waiting: float
    bound: float
    """The most that stages with these forwards and backwards can be faster than one stage at a time, in equal
    micro-batches.
    """

    @property
    def ideal(self) -> float:
        """The bubble of equal stages whose transfers take no time."""
        return ideal_bubble(len(self.shares), self.splits)

    @property
    def bound_bubble(self) -> float:
        """The bubble that this bound means."""
        return 1 - self.bound / len(self.shares)

    @property
    def at_work(self) -> float:
        """How many stages worked at a time, on average."""
        return sum(self.busy_s) / self.window_s

    @property
    def moving(self) -> float:
        """The share of all stages' time in which they sent or received."""
        return sum(self.moving_s) / (len(self.shares) * self.window_s)


def batches(spans: Iterable[Span], stages: int, splits: int) -> list[BatchSpans]:
    """Return the spans by batch, in order, incomplete ones too; what belongs to no stage is left out."""
    found: dict[int, list[Span]] = {}
    for span in spans:
        if 0 <= span.stage < stages:
            found.setdefault(span.micro_batch // splits, []).append(span)
    return [
        BatchSpans(number, stages, splits, tuple(sorted(found[number], key=lambda span: span.t0_ns)))
        for number in sorted(found)
    ]


def measure(batch: BatchSpans, schedule: Schedule) -> Measures:
    """Return the numbers of a complete batch that ran in the order of `schedule`."""
    window, stages, splits = batch.window_s, batch.stages, batch.splits
    busy, moving = _covered(batch, BUSY), _covered(batch, MOVING)
    forward, backward = durations(batch, "forward"), durations(batch, "backward")
    work = [sum(ahead) + sum(back) for ahead, back in zip(forward, backward, strict=True)]
    least = makespan(schedule, forward, backward, updates(batch))
    bubble = 1 - sum(busy) / (stages * window)
    of_waiting = min(bubble, max(0.0, 1 - least / window))
    of_schedule = min(bubble - of_waiting, sum(work) * (stages - 1) / splits / (stages * window))
    return Measures(
        splits=splits,
        window_s=window,
        least_s=least,
        busy_s=tuple(busy),
        moving_s=tuple(moving),
        waiting_s=tuple(window - spent for spent in _covered(batch, (*BUSY, *MOVING))),
        shares=tuple(spent / sum(work) for spent in work),
        bubble=bubble,
        of_schedule=of_schedule,
        of_unevenness=bubble - of_waiting - of_schedule,
        of_waiting=of_waiting,
        bound=speed_up_bound(schedule, list(map(sum, forward)), list(map(sum, backward)), splits),
    )


def ideal_bubble(stages: int, splits: int) -> float:
    """Return the bubble of equal stages whose transfers take no time."""
    return (stages - 1) / (splits + stages - 1)


def durations(batch: BatchSpans, name: str) -> list[list[float]]:
    """Return the seconds of each micro-batch at each stage in spans of one name: [stage][micro-batch]."""
    spent = [[0.0] * batch.splits for _ in range(batch.stages)]
    for span in batch.spans:
        if span.name == name:
            spent[span.stage][span.micro_batch % batch.splits] += (span.t1_ns - span.t0_ns) / 1e9
    return spent


def work_s(batch: BatchSpans) -> float:
    """Return the seconds of all forwards and backwards of all stages together."""
    return sum(span.t1_ns - span.t0_ns for span in batch.spans if span.name in WORK) / 1e9


def stage_work(batch: BatchSpans) -> list[tuple[float, float]]:
    """Return the seconds of each stage's forwards and backwards."""
    return list(zip(map(sum, durations(batch, "forward")), map(sum, durations(batch, "backward")), strict=True))


def updates(batch: BatchSpans) -> list[float]:
    """Return the seconds of each stage's update."""
    return [sum(spent) for spent in durations(batch, "update")]


def unhindered(batch: BatchSpans, schedule: Schedule) -> BatchSpans:
    """Return the batch as its own durations would let it run, were there neither transfers nor delays."""
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
    """Return the seconds of each stage that lie in at least one span of these names; spans that overlap count once."""
    covered, reached = [0] * batch.stages, [batch.start_ns] * batch.stages
    for span in batch.spans:
        if span.name in names:
            covered[span.stage] += max(0, span.t1_ns - max(span.t0_ns, reached[span.stage]))
            reached[span.stage] = max(span.t1_ns, reached[span.stage])
    return [spent / 1e9 for spent in covered]
