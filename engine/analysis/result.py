"""The result of a run: the value by which its experiment ranks runs, with its statistic. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from engine.analysis.disturbance import depends_on_time
from engine.experiment.result import Result
from engine.metrics import metric
from engine.registry import known_experiment
from engine.store.records import RunRow


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
        unit = metric(self.result.metric).unit
        value = f"{self.value:,.0f}" if abs(self.value) >= 1_000 else f"{self.value:{'.2f' if unit == '%' else '.4g'}}"
        return " ".join(filter(None, (value, unit)))

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
    means = {name: Ranked(own[0][1].result, fmean(each.value for _, each in own)) for name, own in found.items()}
    best, *_, worst = sorted(means, key=lambda name: -means[name].value)
    of = every[0][1].result.of
    label, average = f"{of} {known.label.lower()}", " on average" if len(every) > len(found) else ""
    high, low = means[best].short, means[worst].short
    if high == low:
        return f"The {label} of all is {high}{average}."
    lowest, highest = (f(r.value for _, r in found[name]) for f, name in ((min, best), (max, worst)))
    overlap = " Their runs overlap." if average and lowest <= highest else ""
    if len(means) == 2:
        return f"{_upper(label)}{average}: {best} {high}, {worst} {low}.{overlap}"
    return f"Highest {label}{average}: {best}, {high}; lowest: {worst}, {low}.{overlap}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
