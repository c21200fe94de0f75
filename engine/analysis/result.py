"""The result of a run: the value by which its experiment ranks runs, with its statistic. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any

from engine.analysis.disturbance import depends_on_time
from engine.analysis.run_values import number, other_task, split
from engine.analysis.seedings import block_of
from engine.experiment.result import Result
from engine.metrics import Metric, metric
from engine.registry import known_experiment
from engine.store.records import RunRow

Block = tuple[int, Any]


@dataclass(frozen=True)
class Ranked:
    """A run's result."""

    result: Result
    value: float

    @classmethod
    def of(cls, name: str, value: float) -> "Ranked":
        """Return the last value of any metric in the form of a result."""
        return cls(Result(name), value)

    @property
    def words(self) -> str:
        """Metric, value and statistic where there is a choice, such as `test accuracy 96.98 % (last)`."""
        statistic = f" ({self.result.statistic})" if self.result.statistic else ""
        return f"{metric(self.result.metric).label.lower()} {self.short}{statistic}"

    @property
    def short(self) -> str:
        """Value and unit, such as `96.98 %`."""
        return metric_in_words(self.result.metric, self.value)

    @property
    def plain(self) -> Mapping[str, Any]:
        """The result as plain text for programs."""
        return {"metric": self.result.metric, "statistic": self.result.of, "value": self.value}


def ranked(run: RunRow) -> Ranked | None:
    """Return a run's result; None if it has none, or its experiment is unknown."""
    known = known_experiment(run.experiment)
    if known is None:
        return None
    result: Result | None = known.result
    while result is not None:
        if (value := (run.mean if result.of == "mean" else run.last).get(result.metric)) is not None:
            return Ranked(result, value)
        result = result.older
    return None


def reached_most(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return which group reached the best result, as a sentence; empty unless all have results of one task that are to
    be high and do not depend on time. The result of a group is the mean over its runs.
    """
    found = {name: [(run, result) for run in runs if (result := ranked(run))] for name, runs in groups.items()}
    every = [each for own in found.values() for each in own]
    tasks = {(result.result.of, *(str(run.config.get(name)) for name in result.result.task)) for run, result in every}
    metrics = {result.result.metric for _, result in every}
    if len(found) < 2 or not all(found.values()) or len(tasks) > 1 or len(metrics) > 1:
        return ""
    known = metric(metrics.pop())
    if known.better != "max" or depends_on_time(known.name):
        return ""
    return _ordered(
        {name: [(block_of(run), each.value) for run, each in own] for name, own in found.items()},
        known,
        every[0][1].result.of,
    )


def compared(groups: Mapping[str, Sequence[RunRow]], name: str, *, with_disturbed: bool = False) -> str:
    """Return which group has the best value of a name such as `train/loss.last`, as a sentence, or that the values do
    not compare; empty if fewer than two have one. The value of a group is the mean over its runs, without disturbed
    ones where it depends on time, unless `with_disturbed`.
    """
    found = split(name)
    if found is None:
        return ""
    known, is_timed = metric(found[0]), depends_on_time(found[0]) and not with_disturbed
    values = {
        group: held
        for group, runs in groups.items()
        if (
            held := [
                (block_of(run), each)
                for run in runs
                if not (is_timed and run.disturbed) and (each := number(run, name)) is not None
            ]
        )
    }
    if len(values) < 2:
        return ""
    apart = other_task([run for group in values for run in groups[group]])
    if apart and not known.name.startswith("perf/"):
        return f"{known.label} does not compare: the runs differ in {apart}."
    return _ordered(values, known, "" if known.is_single else found[1])


def _ordered(values: Mapping[str, Sequence[tuple[Block, float]]], known: Metric, of: str) -> str:
    """Return the groups with the best and the worst mean of a metric (the highest and the lowest if neither direction
    is better), and whether they differ clearly, as sentences.
    """
    means = {name: fmean(value for _, value in own) for name, own in values.items()}
    first, last = ("Lowest", "highest") if known.better == "min" else ("Highest", "lowest")
    best, *_, worst = sorted(means, key=means.__getitem__, reverse=known.better != "min")
    average = " on average" if sum(map(len, values.values())) > len(values) else ""
    label = _lower(known.label)
    label = label if label.startswith(of) else f"{of} {label}"
    near, far = (metric_in_words(known.name, means[name]) for name in (best, worst))
    if near == far:
        return f"The {label} of all is {near}{average}."
    unclear = _unclear(values[best], values[worst], comb(len(means), 2)) if average else ""
    if len(means) == 2:
        return f"{_upper(label)}{average}: {near} ({best}), {far} ({worst}).{unclear}"
    return f"{first} {label}{average}: {best}, {near}; {last}: {worst}, {far}.{unclear}"


def _unclear(ours: Sequence[tuple[Block, float]], theirs: Sequence[tuple[Block, float]], pairs: int) -> str:
    """Return that two groups do not differ clearly, as a sentence after another; empty if they do. Runs are compared
    seed by seed where enough seeds are common, with Bonferroni's correction for the choice among `pairs` of groups.
    """
    from engine.analysis.statistics.confidence import FEWEST, LEVEL  # NumPy, which `show` does not need
    from engine.analysis.statistics.intervals import mean_interval

    common = {block for block, _ in ours} & {block for block, _ in theirs}
    if len(common) >= FEWEST["mean"]:
        by_seed = [
            fmean(value for block, value in ours if block == seed)
            - fmean(value for block, value in theirs if block == seed)
            for seed in common
        ]
        found = mean_interval(by_seed, 1 - (1 - LEVEL) / pairs)
        return "" if found.side(0.0) else " Seed by seed, the difference is not clear."
    (low, high), (least, most) = (
        (min(own), max(own)) for own in ([value for _, value in each] for each in (ours, theirs))
    )
    return " Their runs overlap." if low <= most and least <= high else ""


def metric_in_words(name: str, value: float) -> str:
    """Return a value of a metric with its unit, such as `96.98 %`."""
    unit = metric(name).unit
    text = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:{'.2f' if unit == '%' else '.4g'}}"
    return " ".join(filter(None, (text, unit)))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """Return a label as it is within a sentence; abbreviations stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
