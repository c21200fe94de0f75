"""The answer of a sweep that weighs a cost against a quality: the value that costs least while its quality stays within
a tolerance of the baseline's. Torch-free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.analysis.comparability import block_of
from engine.analysis.result import Block, better_values, lower_first, metric_in_words, not_learned, upper_first
from engine.analysis.run_values import fields_in_words, number, split
from engine.analysis.scaling.scaling_data import NoAnswer, by_values
from engine.analysis.scaling.staleness import rounded
from engine.analysis.statistics.intervals import FEWEST, Interval, mean_interval
from engine.experiment import TradeOff
from engine.metrics import Metric, depends_on_time, metric, unit_of_difference
from engine.store.records import RunRow

SEEDS = FEWEST["mean"]
"""Common seeds from which on a difference in quality has an interval, and a verdict."""


@dataclass(frozen=True)
class Weighed:
    """One combination of values: its mean cost, and its quality by seed."""

    name: str
    cost: float
    quality: Mapping[Block, float]


@dataclass(frozen=True)
class Against:
    """One combination beside the baseline."""

    name: str
    cost: float
    change: Interval
    """Quality minus the baseline's of the same seed: in its unit, or in % of the baseline's."""
    harm: tuple[float, float]
    """By how much the quality is worse, from and to, by the interval."""
    has_all_seeds: bool
    """Whether it has a complete run of each seed of the baseline."""

    def is_within(self, tolerance: float) -> bool | None:
        """Return whether its quality is clearly within the tolerance, or clearly not; None if neither is clear."""
        least, most = self.harm
        if self.change.count < SEEDS:
            return None
        if least > tolerance:
            return False
        return True if most <= tolerance and self.has_all_seeds else None


def weigh(asked: TradeOff, fields: Sequence[str], runs: Sequence[RunRow]) -> str:
    """Return which combination of values costs least within the tolerance, with its cost and its quality beside those
    of the baseline, and why cheaper ones are not it, as sentences; raises NoAnswer.
    """
    baseline, others = _weighed(asked, fields, runs)
    better = better_values(_of(asked.quality).name, runs)
    found = sorted((_against(each, baseline, asked, better) for each in others), key=lambda each: each.cost)
    cheaper = [each for each in found if each.cost < baseline.cost]
    within = next((each for each in cheaper if each.is_within(asked.tolerance)), None)
    ahead = cheaper[: cheaper.index(within)] if within else cheaper
    unclear = [each for each in ahead if each.is_within(asked.tolerance) is None]
    worse = [each for each in ahead if each not in unclear]
    tolerance, of_baseline = _amount(asked.tolerance, asked), metric_in_words(_of(asked.cost), baseline.cost)
    cost = _label(asked.cost)

    def listed(some: Sequence[Against]) -> str:
        return "; ".join(f"{each.name}: {_beside(each, baseline, asked)}" for each in some)

    few = any(each.change.count < SEEDS for each in unclear)
    is_cost_known = few and not within and not depends_on_time(_of(asked.cost).name)  # bytes need no repeats
    needs = f"{SEEDS} seeds of each value" if few else "more seeds"
    if within:
        said = f"{upper_first(listed([within]))}, at most {tolerance} worse."
    elif is_cost_known:
        said = f"Less {cost}: {listed(unclear)}. A verdict on a tolerance of {tolerance} needs {needs}."
    elif unclear:
        said = f"No verdict on a tolerance of {tolerance}."
    elif worse:
        said = (
            f"{upper_first(baseline.name)} ({cost} {of_baseline}): each cheaper value is more than {tolerance} worse."
        )
    else:
        said = f"{upper_first(baseline.name)}: no other value has less {cost} than its {of_baseline}."
    if unclear and not is_cost_known:
        said += f" Cheaper, and not clear whether more than {tolerance} worse: {listed(unclear)}."
        said += f" A verdict needs {needs}."
    return said + (f" Cheaper, but worse: {listed(worse)}." if worse else "")


def needed(asked: TradeOff) -> str:
    """Return what a verdict needs, within a sentence."""
    return f"a verdict on {_label(asked.quality)} needs {SEEDS} seeds of each value"


def _weighed(asked: TradeOff, fields: Sequence[str], runs: Sequence[RunRow]) -> tuple[Weighed, list[Weighed]]:
    """Return the baseline, and the other combinations that recorded both metrics."""
    own = [run for run in runs if asked.baseline.items() <= run.config.items()] if asked.baseline else []
    groups = by_values(fields, [run for run in runs if run not in own])
    others = [each for name, some in groups.items() if (each := _one(name, some, asked))]
    if asked.baseline:
        name = fields_in_words(asked.baseline)
        if not own:
            raise NoAnswer(f"no run of the baseline, {name}, is complete")
        baseline = _one(name, own, asked)
    else:
        better = better_values(_of(asked.quality).name, runs)
        sign = 1 if better == "max" else -1
        baseline = max(others, key=lambda each: sign * fmean(each.quality.values()), default=None)
        own = groups[baseline.name] if baseline else []
    if baseline is None:
        labels = f"{_label(asked.cost)} and {_label(asked.quality)}"
        raise NoAnswer(f"no complete run {'of the baseline ' if own else ''}has recorded both {labels}")
    if why := next((why for run in own if (why := not_learned(run))), None):
        raise NoAnswer(f"the baseline, {baseline.name}, {why.short}: {why.why}")
    return baseline, [each for each in others if each is not baseline]


def _one(name: str, runs: Sequence[RunRow], asked: TradeOff) -> Weighed | None:
    """Return the cost and quality of the runs that recorded both; None if none did."""
    both = [(run, number(run, asked.cost), number(run, asked.quality)) for run in runs]
    held = [(block_of(run), cost, quality) for run, cost, quality in both if cost is not None and quality is not None]
    if not held:
        return None
    by_seed = {seed: fmean(quality for block, _, quality in held if block == seed) for seed, _, _ in held}
    return Weighed(name, fmean(cost for _, cost, _ in held), by_seed)


def _against(each: Weighed, baseline: Weighed, asked: TradeOff, better: str | None) -> Against:
    """Return a combination beside the baseline: seed by seed, or without a common seed by the means alone."""
    common = [seed for seed in baseline.quality if seed in each.quality]
    pairs = [(each.quality[seed], baseline.quality[seed]) for seed in common] or [
        (fmean(each.quality.values()), fmean(baseline.quality.values()))
    ]
    change = mean_interval([100 * (own / base - 1) if asked.is_relative else own - base for own, base in pairs])
    harm = (-change.high, -change.low) if better == "max" else (change.low, change.high)
    return Against(each.name, each.cost, change, harm, len(common) == len(baseline.quality))


# ---- In words ------------------------------------------------------------------------------------------------------


def _beside(each: Against, baseline: Weighed, asked: TradeOff) -> str:
    """Return the cost of a combination as an amount and as a factor of the baseline's, and what its quality lost."""
    known, change = _of(asked.cost), each.change
    width = 0.0 if change.is_constant else change.high - change.low
    mean, low, high = (rounded(value, width) for value in (change.mean, change.low, change.high))
    kind = f"{'95 % interval' if change.is_known else 'range'} {low} to {high}" if width else "the same"
    spread = f" ({kind}, {change.count} seeds)" if change.count > 1 else ""
    return (
        f"{_label(asked.cost)} {metric_in_words(known, each.cost)} instead of "
        f"{metric_in_words(known, baseline.cost)} of {baseline.name} ({each.cost / baseline.cost:.2g} times), "
        f"{_label(asked.quality)} {mean}{_unit(asked)}{spread}"
    )


def _amount(value: float, asked: TradeOff) -> str:
    return f"{value:g}{_unit(asked)}"


def _unit(asked: TradeOff) -> str:
    return " %" if asked.is_relative else unit_of_difference(_of(asked.quality).name)


def _of(name: str) -> Metric:
    """Return the metric of a name such as `test/loss.last`."""
    found = split(name)
    return metric(found[0] if found else name)


def _label(name: str) -> str:
    """Return a name within a sentence: `test loss`, `mean bubble share`."""
    _, way = split(name) or ("", "last")
    return f"{way} " * (way != "last") + lower_first(_of(name).label)
