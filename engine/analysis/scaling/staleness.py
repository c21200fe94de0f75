"""The age of asynchronous trainers' gradients compared with the value expected from their number, and its effect on
accuracy. Pure, torch-free.

Derivation: a trainer's push that goes into update u is answered with the weights after u, so its next push, in update
v, has age v - u - 1. The sum over a trainer's pushes is the number of all updates minus its own pushes; for N trainers
that push P gradients into P / K updates of K gradients each, the mean is N / K - 1, and N - 1 if every gradient is an
update. This holds for any speeds, while all trainers are active: a trainer that ends earlier or is held back by a
bound, and dropped gradients, reduce it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Literal

from engine.analysis.run_values import lower_title
from engine.analysis.scaling.scaling_data import differing
from engine.analysis.seedings import mixture
from engine.analysis.statistics.confidence import student
from engine.analysis.statistics.counts import Counts, mean, percentile, together
from engine.analysis.statistics.intervals import Interval, mean_interval, slope
from engine.metrics import metric, unit_of_difference
from engine.registry import experiment_title
from engine.store.records import RunRow

HISTOGRAM = "staleness"
SIZES = ("trainers", "batch_update_size")
"""The settings that determine the expected mean."""
LEAST_RANGE = 0.25
"""Minimum spread of means, in updates, for a fit against staleness."""
NEAR = 0.05
"""Relative tolerance (of at least one update) below the expected mean; a larger gap is explained."""


@dataclass(frozen=True)
class Stale:
    """One run: its size, the age of its gradients, and its result."""

    run_id: int
    line: tuple[Any, ...]
    """The values that identify its line; empty if there is only one line."""
    trainers: int
    expected: float
    """The expected mean for its number of trainers, in updates."""
    counts: Counts
    """Number of gradients by staleness, over all trainers."""
    result: float | None
    """Its last value of a metric, None if it has none."""

    @property
    def mean(self) -> float:
        """Mean staleness over all gradients, in updates."""
        return mean(self.counts)


@dataclass(frozen=True)
class StalenessPoint:
    """All runs of one line with the same expected mean."""

    line: tuple[Any, ...]
    trainers: int
    expected: float
    runs: int
    mean: Interval
    """Of the runs' means, in updates."""
    p99: int
    """The 99th percentile of staleness over all runs."""
    highest: int
    result: Interval | None


@dataclass(frozen=True)
class Price:
    """Least-squares line of results by mean staleness: its change per update of staleness, with Student's 95 %
    interval.
    """

    change: Interval
    at_none: float
    """The line's value at zero staleness."""

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """Whether results fall (-1) or rise (1) with staleness; 0 if the interval includes 0."""
        return 1 if self.change.low > 0 else -1 if self.change.high < 0 else 0

    def at(self, staleness: float) -> float:
        """Return the line's value."""
        return self.at_none + self.change.mean * staleness


def expected(config: Mapping[str, Any]) -> float | None:
    """Return the expected mean staleness of a config, in updates; None if it has no trainers."""
    trainers = config.get("trainers")
    return trainers / int(config.get("batch_update_size", 1)) - 1 if isinstance(trainers, int) else None


def stale_runs(
    runs: Sequence[RunRow], counts: Mapping[int, Mapping[str, Counts]], result: str = "", lines: Sequence[str] = ()
) -> list[Stale]:
    """Return the runs that recorded staleness; `counts` has it by run and role, `result` names the metric of their
    results.
    """
    return [
        Stale(
            run.id,
            tuple(run.config.get(name) for name in lines),
            int(run.config["trainers"]),
            wanted,
            together(counts[run.id].values()),
            run.last.get(result),
        )
        for run in runs
        if run.id in counts and (wanted := expected(run.config)) is not None
    ]


def sizes(runs: Sequence[Stale], bounds: tuple[float, float] = (-inf, inf)) -> list[StalenessPoint]:
    """Return the runs by line and expected mean, in the order of lines and sizes; `bounds` are the limits of the
    result.
    """
    groups: dict[tuple[tuple[Any, ...], float, int], list[Stale]] = {}
    for run in runs:
        groups.setdefault((run.line, run.expected, run.trainers), []).append(run)
    lines = list(dict.fromkeys(run.line for run in runs))
    return [_size(groups[key], bounds) for key in sorted(groups, key=lambda key: (lines.index(key[0]), key[1:]))]


def _size(runs: Sequence[Stale], bounds: tuple[float, float]) -> StalenessPoint:
    whole, results = together(run.counts for run in runs), [run.result for run in runs if run.result is not None]
    first, of_runs = runs[0], mean_interval([run.mean for run in runs]).within(0.0)
    result = mean_interval(results).within(*bounds) if results else None
    return StalenessPoint(
        first.line, first.trainers, first.expected, len(runs), of_runs, percentile(whole, 99), max(whole), result
    )


def price(runs: Sequence[Stale]) -> Price | str:
    """Return the change of a result per update of mean staleness, or why it can't be estimated, with a remedy."""
    pairs = [(run.mean, run.result) for run in runs if run.result is not None]
    if len(pairs) < 3:
        return f"At least 3 runs with a result are needed; got {len(pairs)}. Add seeds or sizes."
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if max(xs) - min(xs) < LEAST_RANGE:
        return (
            f"All runs have nearly the same mean staleness ({min(xs):.2f} to {max(xs):.2f} updates). Add runs with "
            "other numbers of trainers, or other bounds."
        )
    steep, middle = slope(xs, ys), sum(xs) / len(xs)
    at_none = sum(ys) / len(ys) - steep * middle
    off = sum((y - at_none - steep * x) ** 2 for x, y in pairs)
    half = student(0.95, len(pairs) - 2) * sqrt(off / (len(pairs) - 2) / sum((x - middle) ** 2 for x in xs))
    return Price(Interval(steep, steep - half, steep + half, len(pairs)), at_none)


def mean_in_words(trainers: int, wanted: float, found: float) -> str:
    """Return the mean age of gradients and the expected one, as a sentence."""
    who = f"{trainers} {'trainer' if trainers == 1 else 'trainers'}"
    batch = round(trainers / (wanted + 1))
    accounts = f"N - 1 = {trainers - 1}" if batch == 1 else f"N / {batch} - 1 = {wanted:.3g}"
    said = f"With {who}, mean staleness is {found:.2f} updates (expected: {accounts})"
    if found < wanted - NEAR * max(1.0, wanted):
        return f"{said}: lower, because of trainers that end earlier, test, or wait for a bound, and dropped gradients."
    return f"{said}."


def price_in_words(found: Price, name: str, runs: Sequence[Stale]) -> str:
    """Return the change of a metric per update of staleness as an association, and what else differs between its runs
    that may explain it.
    """
    known, change = metric(name), found.change
    unit = unit_of_difference(name)
    count = f"{change.count} runs"
    if not found.direction:
        both = f"{change.mean:+.2g}{unit} per update, 95 % interval {change.low:+.2g} to {change.high:+.2g}"
        return f"No significant association of {known.label.lower()} with staleness in {count}: {both}."
    low, high = sorted((abs(change.low), abs(change.high)))
    way = "higher" if found.direction > 0 else "lower"
    said = (
        f"{known.label} is {abs(change.mean):.2g}{unit} {way} per update of staleness (95 % interval {low:.2g} to "
        f"{high:.2g}, {count})."
    )
    others = _confounders(runs)
    return f"{said} An association: the runs also differ in {others}, which may explain it." if others else said


def _confounders(runs: Sequence[Stale]) -> str:
    """Return the amounts that differ along with staleness, in words; empty if none does."""
    amounts = {
        "the number of trainers": [run.trainers for run in runs],
        "the number of gradients": [sum(run.counts.values()) for run in runs],
    }
    return " and in ".join(
        f"{word} ({min(values):,} to {max(values):,})"
        for word, values in amounts.items()
        if values and max(values) > (1 + NEAR) * min(values)
    )


def cautions(runs: Sequence[RunRow], stale: Sequence[Stale], lines: Sequence[str]) -> list[str]:
    """Return cautions about the runs, a sentence each."""
    said, there = [], [run for run in runs if run.id in {each.run_id for each in stale}]
    if left_out := [run.id for run in runs if run not in there]:
        some = ", ".join(map(str, left_out[:6])) + (f" and {len(left_out) - 6} more" if len(left_out) > 6 else "")
        said.append(
            f"No staleness recorded: {'run' if len(left_out) == 1 else 'runs'} {some}. It is recorded where a "
            "gradient can be older than the weights it updates."
        )
    if mixed := mixture(there):
        said.append(mixed)
    experiments = sorted({run.experiment for run in there})
    if len(experiments) > 1:
        said.append(
            f"The runs belong to {len(experiments)} experiments ({', '.join(map(experiment_title, experiments))}), so "
            "they differ in more than staleness. Select runs of one experiment."
        )
    elif others := [name for name in differing(there) if name not in (*SIZES, *lines)]:
        said.append(
            f"The runs also differ in {' and '.join(map(lower_title, others[:4]))}, which may explain the association. "
            "Select runs with equal settings, or group by that setting."
        )
    if stale and all(size.runs == 1 for size in sizes(stale)):
        said.append("Variation between seeds is unknown: every size is one run. Add seeds.")
    if len({(each.line, each.expected) for each in stale}) == 1:
        said.append("Nothing to compare: all runs have the same size.")
    return said
