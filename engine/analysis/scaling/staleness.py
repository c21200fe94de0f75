"""The age of asynchronous trainers' gradients compared with the value expected from their number, and its effect on
accuracy. Pure, torch-free.

Derivation: a trainer's push that goes into update u is answered with the weights after u, so its next push, in update
v, has age v - u - 1. The sum over a trainer's pushes is the number of all updates minus its own pushes; for N trainers
that push P gradients into P / K updates of K gradients each, the mean is N / K - 1, and N - 1 if every gradient is an
update. This holds for any speeds, while all trainers are active: a trainer that ends earlier or is held back by a
bound, and dropped gradients, reduce it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, log10
from typing import Any, Literal, NamedTuple

from engine.analysis.comparability import block_of, mixture
from engine.analysis.run_values import lower_title
from engine.analysis.scaling.scaling_data import differing
from engine.analysis.statistics.groups import Counts, mean, percentile, together
from engine.analysis.statistics.intervals import Interval, mean_interval, slope_within
from engine.metrics import metric, unit_of_difference
from engine.registry import experiment_title, known_experiment
from engine.store.records import Run, RunRow

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
    block: Hashable = None
    """What it shares with the runs that it is compared with: its seed."""

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
    """Least-squares line of results by mean staleness, parallel for all seeds: its change per update of staleness, with
    Student's 95 % interval.
    """

    change: Interval
    at_none: float
    """The value at zero staleness of the line through the mean of all runs."""
    seeds: int = 1
    """Number of seeds with a line of their own; 1 if no seed has several runs."""

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """Whether results fall (-1) or rise (1) with staleness; 0 if the interval includes 0."""
        return 1 if self.change.low > 0 else -1 if self.change.high < 0 else 0

    def at(self, staleness: float) -> float:
        """Return the line's value."""
        return self.at_none + self.change.mean * staleness

    @property
    def basis(self) -> str:
        """The runs that it is computed from, in words."""
        return f"{self.change.count} runs{', compared seed by seed' if self.seeds > 1 else ''}"


class NoPrice(NamedTuple):
    """Why the change of a result can't be estimated, and what cures it; a sentence each."""

    why: str
    cure: str


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
            block_of(run),
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


def price(runs: Sequence[Stale]) -> Price | NoPrice:
    """Return the change of a result per update of mean staleness. Runs are compared with those of the same seed; if no
    seed has two, with all.
    """
    known = [(run.mean, run.result, run.block) for run in runs if run.result is not None]
    several = len({block for *_, block in known}) < len(known)
    blocks = [block if several else None for *_, block in known]
    seeds = max(1, len(set(blocks)))
    of_seeds = f" for {seeds} seeds" if seeds > 1 else ""
    if len(known) < seeds + 2:
        return NoPrice(
            f"At least {seeds + 2} runs with a result are needed{of_seeds}; got {len(known)}.", "Add seeds or sizes."
        )
    xs, ys = [x for x, *_ in known], [y for _, y, _ in known]
    of_blocks = [[x for x, each in zip(xs, blocks, strict=True) if each == block] for block in set(blocks)]
    furthest = max(max(own) - min(own) for own in of_blocks)
    if furthest < LEAST_RANGE:
        same = " of the same seed" if seeds > 1 else ""
        return NoPrice(
            f"The mean staleness of runs{same} differs by at most {furthest:.2f} updates.",
            f"Add runs with other numbers of trainers{' for each seed' if seeds > 1 else ''}.",
        )
    change = slope_within(xs, ys, blocks)
    return Price(change, (sum(ys) - change.mean * sum(xs)) / len(known), seeds)


def age_in_words(mean: float) -> str:
    """Return a mean age of gradients or policies, with the same decimals wherever it is said."""
    return f"{mean:.2f} updates"


def mean_in_words(trainers: int, wanted: float, found: float, runs: Iterable[Run | RunRow]) -> str:
    """Return the mean age of gradients in some runs and the most that N trainers can have, as a sentence; without runs,
    not why it is lower.
    """
    who = f"{trainers} {'trainer' if trainers == 1 else 'trainers'}"
    batch = round(trainers / (wanted + 1))
    accounts = f"N - 1 = {trainers - 1}" if batch == 1 else f"N / {batch} - 1 = {wanted:.3g}"
    said = f"With {who}, mean staleness is {age_in_words(found)} (at most {accounts})"
    whys = dict.fromkeys(why for run in runs for why in _less(run))
    if not whys or found >= wanted - NEAR * max(1.0, wanted):
        return f"{said}."
    return f"{said}: lower, because {' and '.join(whys)}."


def _less(run: Run | RunRow) -> Iterable[str]:
    """Yield what lowers the mean in a run, as its experiment and its settings say."""
    yield "trainers end earlier than others"
    if (known := known_experiment(run.experiment)) and not known.server_roles:
        yield "trainers hold weights only while they compute and write"
    if run.config.get("staleness_bound") is not None:
        yield "the staleness bound makes trainers wait"
    if run.config.get("late") == "drop":
        yield "late gradients are dropped"


def price_in_words(found: Price, name: str, runs: Sequence[Stale]) -> str:
    """Return the change of a metric per update of staleness as an association, and what else differs between its runs
    that may explain it.
    """
    known, change = metric(name), found.change
    unit = unit_of_difference(name)
    if not found.direction:
        each, least, most = (rounded(one, change.high - change.low) for one in (change.mean, change.low, change.high))
        both = f"{each}{unit} per update, 95 % interval {least} to {most}"
        return f"No significant association of {known.label.lower()} with staleness in {found.basis}: {both}."
    low, high = sorted((abs(change.low), abs(change.high)))
    way = "higher" if found.direction > 0 else "lower"
    said = (
        f"{known.label} is {abs(change.mean):.2g}{unit} {way} per update of staleness (95 % interval {low:.2g} to "
        f"{high:.2g}, {found.basis}), by a line through all runs; the best and the worst value alone may still overlap."
    )
    others = _confounders(runs)
    return f"{said} An association: the runs also differ in {others}, which may explain it." if others else said


def rounded(value: float, width: float) -> str:
    """Return a change with its sign, to two digits of the width of its interval."""
    digits = max(0, 1 - floor(log10(width))) if width > 0 else 3
    return f"{round(value, digits) or 0.0:+.{digits}f}"


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


def cautions(
    runs: Sequence[RunRow], stale: Sequence[Stale], lines: Sequence[str], *, goes_on: bool = False
) -> list[str]:
    """Return cautions about the runs, a sentence each; `goes_on` if more of their sweep are queued or running."""
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
        said.append(f"Variation between seeds is unknown: every size is one run.{'' if goes_on else ' Add seeds.'}")
    if len({(each.line, each.expected) for each in stale}) == 1 and not goes_on:
        said.append("Nothing to compare: all runs have the same size.")
    return said
