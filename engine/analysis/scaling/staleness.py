"""How old the gradients of asynchronous trainers are, against what their number lets expect, and what accuracy pays for
it. Pure, torch-free.

The accounts: a trainer's push that goes into update u is answered with the weights after u, so up to its next push, in
update v, it ages by v - u - 1. Over a trainer's pushes that adds up to all updates less its own pushes; over N trainers
that push P gradients into P / K updates of K gradients each, the mean is N / K - 1, and N - 1 where every gradient is
an update. That holds whoever is fast or slow, as long as all are there: a trainer that ends before the others, or is
held back by a bound, and gradients that are dropped, make it less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Literal

from engine.analysis.scaling.scaling_data import differing
from engine.analysis.seedings import mixture
from engine.analysis.statistics.confidence import student
from engine.analysis.statistics.counts import Counts, mean, percentile, together
from engine.analysis.statistics.intervals import Interval, mean_interval, slope
from engine.metrics import metric
from engine.store.records import RunRow

HISTOGRAM = "staleness"
SIZES = ("trainers", "batch_update_size")
"""The settings that the expected mean comes from."""
LEAST_RANGE = 0.25
"""Updates that means must lie apart before anything is laid along them."""
NEAR = 0.05
"""A mean this share of the expected one (and at least so many updates) below it needs no reason."""


@dataclass(frozen=True)
class Stale:
    """One run: where it stands, how old its gradients were, and how it came out."""

    run_id: int
    line: tuple[Any, ...]
    """The values of what tells lines apart; empty where nothing does."""
    trainers: int
    expected: float
    """The mean that its trainers' number lets expect, in updates."""
    counts: Counts
    """Gradients by staleness, over all trainers."""
    result: float | None
    """Its last value of a metric, None where it recorded none."""

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
    """Staleness that 99 of 100 gradients do not exceed, over all runs."""
    highest: int
    result: Interval | None


@dataclass(frozen=True)
class Price:
    """The line of least squares of results along mean staleness: its change per update of staleness, with Student's 95
    % interval.
    """

    change: Interval
    at_none: float
    """The line's value at no staleness."""

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """Whether results fall (-1) or rise (1) with staleness; 0 where the interval holds both."""
        return 1 if self.change.low > 0 else -1 if self.change.high < 0 else 0

    def at(self, staleness: float) -> float:
        """Return the line's value."""
        return self.at_none + self.change.mean * staleness


def expected(config: Mapping[str, Any]) -> float | None:
    """Return the mean staleness that a config lets expect, in updates; None where it has no trainers."""
    trainers = config.get("trainers")
    return trainers / int(config.get("batch_update_size", 1)) - 1 if isinstance(trainers, int) else None


def stale_runs(
    runs: Sequence[RunRow], counts: Mapping[int, Mapping[str, Counts]], result: str = "", lines: Sequence[str] = ()
) -> list[Stale]:
    """Return those of the runs that recorded staleness; `counts` has it by run and role, `result` names the metric of
    how they came out.
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
    """Return the runs by line and expected mean, in the order of lines and sizes; `bounds` are those of a result."""
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
    """Return what a result changes by per update of mean staleness, or why that can't be told, with the cure."""
    pairs = [(run.mean, run.result) for run in runs if run.result is not None]
    if len(pairs) < 3:
        return (
            f"A line takes at least 3 runs with a result, and there {'is' if len(pairs) == 1 else 'are'} "
            f"{len(pairs)}. Add seeds or sizes."
        )
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if max(xs) - min(xs) < LEAST_RANGE:
        return (
            f"All runs have nearly the same mean staleness ({min(xs):.2f} to {max(xs):.2f} updates), so "
            "nothing can be laid along it. "
            "Add runs with other numbers of trainers, or other bounds."
        )
    steep, middle = slope(xs, ys), sum(xs) / len(xs)
    at_none = sum(ys) / len(ys) - steep * middle
    off = sum((y - at_none - steep * x) ** 2 for x, y in pairs)
    half = student(0.95, len(pairs) - 2) * sqrt(off / (len(pairs) - 2) / sum((x - middle) ** 2 for x in xs))
    return Price(Interval(steep, steep - half, steep + half, len(pairs)), at_none)


def mean_in_words(trainers: int, wanted: float, found: float) -> str:
    """Return how old gradients were on average beside what was expected, in a sentence."""
    who = f"{trainers} {'trainer' if trainers == 1 else 'trainers'}"
    batch = round(trainers / (wanted + 1))
    accounts = f"N - 1 = {trainers - 1}" if batch == 1 else f"N / {batch} - 1 = {wanted:.3g}"
    said = f"With {who} gradients are {found:.2f} updates old on average ({accounts})"
    if found < wanted - NEAR * max(1.0, wanted):
        return (
            f"{said}: less, as trainers that end before others, test, or wait for a bound, and gradients that are "
            "dropped, make it."
        )
    return f"{said}."


def price_in_words(found: Price, name: str) -> str:
    """Return what a metric pays for staleness, in a sentence."""
    known, change = metric(name), found.change
    unit = {"%": " points", "": ""}.get(known.unit, f" {known.unit}")
    runs = f"{change.count} runs"
    if not found.direction:
        both = f"{change.mean:+.2g}{unit} per update, 95 % interval {change.low:+.2g} to {change.high:+.2g}"
        return f"Whether {known.label.lower()} changes with staleness can't be told from {runs}: {both}."
    low, high = sorted((abs(change.low), abs(change.high)))
    way = "rises" if found.direction > 0 else "falls"
    return (
        f"{known.label} {way} by {abs(change.mean):.2g}{unit} per update of staleness (95 % interval {low:.2g} to "
        f"{high:.2g}, {runs})."
    )


def cautions(runs: Sequence[RunRow], stale: Sequence[Stale], lines: Sequence[str]) -> list[str]:
    """Return what stands against reading much into the runs, a sentence each."""
    said, there = [], [run for run in runs if run.id in {each.run_id for each in stale}]
    if left_out := [run.id for run in runs if run not in there]:
        some = ", ".join(map(str, left_out[:6])) + (f" and {len(left_out) - 6} more" if len(left_out) > 6 else "")
        said.append(
            f"Without staleness: {'run' if len(left_out) == 1 else 'runs'} {some}. It is recorded where a "
            "gradient can be older than the weights it changes."
        )
    if mixed := mixture(there):
        said.append(mixed)
    experiments = sorted({run.experiment for run in there})
    if len(experiments) > 1:
        said.append(
            f"The runs are of {len(experiments)} experiments ({', '.join(experiments)}), so more than "
            "staleness sets them apart. Choose runs of one."
        )
    elif others := [name for name in differing(there) if name not in (*SIZES, *lines)]:
        said.append(
            f"The runs differ in {' and '.join(others[:4])} too, so what is seen may come of that. Choose runs "
            "that are alike, or let it tell lines apart."
        )
    if stale and all(size.runs == 1 for size in sizes(stale)):
        said.append("Every size is one run: how much seeds alone scatter is not known. More seeds tell.")
    if len({(each.line, each.expected) for each in stale}) == 1:
        said.append("All runs are of one size, so there is nothing to hold it against.")
    return said
