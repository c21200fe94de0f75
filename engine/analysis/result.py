"""The result of a run: the value by which its experiment ranks runs, with its statistic. Torch-free."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb, sqrt
from statistics import fmean
from typing import Any, Literal

from engine.analysis.comparability import block_of
from engine.analysis.run_values import (
    lower_title,
    metric_among,
    number,
    other_task,
    seed_word,
    setting_among,
    settings_within,
    split,
    telling,
)
from engine.data.catalogue import DATA_SETS
from engine.data.stdlib import BYTES
from engine.errors import enumeration
from engine.metrics import (
    EPISODES,
    LAST_EPISODES,
    LOSS,
    LOSS_FALL,
    WINDOW,
    Metric,
    MetricSetting,
    Result,
    depends_on_time,
    metric,
)
from engine.registry import known_experiment
from engine.store.records import ENDED, RunRow, is_complete

Block = tuple[int, Any]
MOST_LEFT_OUT = 6
LONGEST_CAUSE = 60
"""Letters of a cause up to which it is named beside a result."""
_NUMBERED = re.compile(r"^\w+'s (?=loss )| (?:at step|in batch) [\d,]+.*")
"""What differs between the causes of runs that failed alike: whose loss it was, and when."""


@dataclass(frozen=True)
class Ranked:
    """A run's result."""

    result: Result
    value: float
    run: RunRow | None = field(default=None, repr=False, compare=False)
    """The run that may set the unit of its metric."""

    @classmethod
    def of(cls, name: str, value: float, run: RunRow | None = None) -> "Ranked":
        """Return the last value of any metric in the form of a result."""
        return cls(Result(name), value, run)

    @property
    def metric(self) -> Metric:
        """The metric, with its unit."""
        return self.run.metric(self.result.metric) if self.run else metric(self.result.metric)

    @property
    def words(self) -> str:
        """Metric, value and statistic where there is a choice, such as `test accuracy 96.98 % (last)`."""
        statistic = f" ({self.result.statistic})" if self.result.statistic else ""
        return f"{self.metric.label.lower()} {self.short}{statistic}"

    @property
    def short(self) -> str:
        """Value and unit, such as `96.98 %`."""
        return metric_in_words(self.metric, self.value)

    @property
    def plain(self) -> Mapping[str, Any]:
        """The result as plain text for programs."""
        return {"metric": self.result.metric, "statistic": self.result.of, "value": self.value}


def ranked(run: RunRow) -> Ranked | None:
    """Return a run's result; of a command or another program the last value of the metric that a person chose to rank
    its runs, else of its most telling one. None if it has none.
    """
    known = known_experiment(run.experiment)
    if known is None:
        name = run.ranked_by if run.ranked_by in run.last else next(iter(telling(run.last, run.single)), None)
        return None if name is None else Ranked.of(name, run.last[name], run)
    result: Result | None = known.result
    while result is not None:
        if (value := (run.mean if result.of == "mean" else run.last).get(result.metric)) is not None:
            return Ranked(result, value, run)
        result = result.older
    return None


def ranking_metric(runs: Iterable[RunRow]) -> str:
    """Return the metric that a person chose to rank runs of one's own scripts; empty without one, and with several."""
    runs = list(runs)
    names = {run.ranked_by for run in runs if run.ranked_by in run.last}
    return names.pop() if len(names) == 1 and not any(known_experiment(run.experiment) for run in runs) else ""


def better_values(name: str, runs: Iterable[RunRow]) -> Literal["max", "min"] | None:
    """Return which values of a metric are better: as was chosen with it for the runs, else by its definition, else, of
    another program, by its name: a loss, an error or a time is to be low.
    """
    runs = list(runs)
    chosen = {run.better for run in runs if run.ranked_by == name}
    ranks = chosen.pop() if len(chosen) == 1 else ""
    return ranks or (setting_among(name, runs) or MetricSetting.usual(name)).better or None


def reached_most(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return which group reached the best result, as a sentence, and what was not counted; empty unless all groups with
    complete runs have results of one task that are to be high and do not depend on time; of another
    program without a judgement. The result of a group is the mean over its complete runs.
    """
    done = {name: own for name, runs in groups.items() if (own := [run for run in runs if is_complete(run)])}
    found = {name: [(run, result) for run in runs if (result := ranked(run))] for name, runs in done.items()}
    every = [each for own in found.values() for each in own]
    tasks = {(result.result.of, *(str(run.config.get(name)) for name in result.result.task)) for run, result in every}
    metrics = {result.result.metric for _, result in every}
    if len(groups) < 2 or not every or not all(found.values()) or len(tasks) > 1 or len(metrics) > 1:
        return ""
    known = metric_among(metrics.pop(), [run for run, _ in every])
    is_foreign = all(known_experiment(run.experiment) is None for run, _ in every)
    if (known.better != "max" and not is_foreign) or depends_on_time(known.name):
        return ""
    values = {name: [(block_of(run), each.value) for run, each in own] for name, own in found.items()}
    better = better_values(known.name, (run for run, _ in every))
    own_runs = {name: [run for run, _ in own] for name, own in found.items()}
    return _ordered(values, known, every[0][1].result.of, better, own_runs) + _not_counted(groups)


def best_so_far(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return the groups with the best results while others have none yet, best first, as a sentence; empty for one
    group, without a result, and where the results do not compare.
    """
    found = {
        name: own for name, runs in groups.items() if (own := [each for run in runs if (each := _of_complete(run))])
    }
    results = [each.result for own in found.values() for each in own]
    tasks = {
        tuple(str(run.config.get(name)) for name in results[0].task)
        for runs in groups.values()
        for run in runs
        if results
    }
    if len(groups) < 2 or not results or len({(each.metric, each.of) for each in results}) > 1 or len(tasks) > 1:
        return ""
    known = metric_among(results[0].metric, [run for own in groups.values() for run in own])
    better = better_values(known.name, (run for runs in groups.values() for run in runs))
    if better is None or depends_on_time(known.name):
        return ""
    means = {name: fmean(each.value for each in own) for name, own in found.items()}
    order = sorted(means, key=means.__getitem__, reverse=better == "max")
    named = [
        f"{name} ({metric_in_words(known, means[name])}, {len(found[name])} "
        f"{'run' if len(found[name]) == 1 else 'runs'})"
        for name in order
    ]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"So far best by {lower_first(known.label)}: {', '.join(named[:MOST_NAMED])}{more}."


def _of_complete(run: RunRow) -> Ranked | None:
    return ranked(run) if is_complete(run) else None


def unfinished(runs: Iterable[RunRow]) -> list[str]:
    """Return the status of each run that is not complete: it failed, was lost or cancelled, or has not ended."""
    return [run.status for run in runs if not is_complete(run)]


def _not_counted(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return which runs of groups are not complete, as a sentence after another; empty if all are."""
    named = []
    for name, runs in groups.items():
        on = Counter(status for status in unfinished(runs) if status not in ENDED)
        words = [ends_in_words(runs), *(f"{count} {status}" for status, count in on.items())]
        if said := ", ".join(filter(None, words)):
            named.append(f"{name}, {said}")
    more = f"; and {len(named) - MOST_LEFT_OUT} more" if len(named) > MOST_LEFT_OUT else ""
    return f" Not counted: {'; '.join(named[:MOST_LEFT_OUT])}{more}." if named else ""


def ends_in_words(runs: Sequence[RunRow]) -> str:
    """Return how many of some runs ended early, by status, such as `2 failed: loss became NaN`; empty if none did."""
    early = [run for run in runs if run.status in ENDED and not is_complete(run)]
    counts = {status: [run for run in early if run.status == status] for status in ENDED}
    return ", ".join(f"{len(own)} {status}{_why(own)}" for status, own in counts.items() if own)


def _why(runs: Sequence[RunRow]) -> str:
    """Return what the causes of failed runs have in common, as the end of a clause; empty without such a cause."""
    clauses = {_NUMBERED.sub("", re.split(r"[.:;] ", run.cause.strip(".") + ". ")[0]) for run in runs}
    clause = re.sub(r"\bnan\b", "NaN", clauses.pop()) if len(clauses) == 1 else ""
    return f": {clause}" if 0 < len(clause) <= LONGEST_CAUSE and runs[0].status == "failed" else ""


def compared(groups: Mapping[str, Sequence[RunRow]], name: str, *, with_disturbed: bool = False) -> str:
    """Return which group has the best value of a name such as `train/loss.last`, as a sentence, or that the values do
    not compare, and which runs are not counted; empty if fewer than two have one and all are complete. The value of a
    group is the mean over its complete runs, without disturbed ones where it depends on time, unless `with_disturbed`.
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
                if is_complete(run) and not (is_timed and run.disturbed) and (each := number(run, name)) is not None
            ]
        )
    }
    left_out = _not_counted(groups)
    if len(values) < 2:
        few = "no run" if not values else "one run" if len(groups) == sum(map(len, groups.values())) else "one group"
        alone = f"{known.label} is not compared: {few} is complete and has a value.{left_out}"
        return alone if len(groups) > 1 and left_out else ""
    apart = other_task([run for group in values for run in groups[group]])
    if apart and not known.name.startswith("perf/"):
        return f"{known.label} does not compare: the runs differ in {apart}."
    better = better_values(known.name, (run for group in values for run in groups[group]))
    own_runs = {group: [run for run in groups[group] if is_complete(run)] for group in values}
    return _ordered(values, known, "" if known.is_single else found[1], better, own_runs) + left_out


def _ordered(
    values: Mapping[str, Sequence[tuple[Block, float]]],
    known: Metric,
    of: str,
    better: Literal["max", "min"] | None,
    groups: Mapping[str, Sequence[RunRow]],
) -> str:
    """Return the groups with the best and the worst mean of a metric (the highest and the lowest if neither direction
    is `better`), and whether they differ clearly, as sentences; of single runs, whose spread is unknown, both ends.
    """
    means = {name: fmean(value for _, value in own) for name, own in values.items()}
    first, last = ("Lowest", "highest") if better == "min" else ("Highest", "lowest")
    order = sorted(means, key=means.__getitem__, reverse=better != "min")
    best, worst = order[0], order[-1]
    average = " on average" if sum(map(len, values.values())) > len(values) else ""
    label = lower_first(known.label)
    label = label if of in label.split() else f"{of} {label}"
    near, far = (metric_in_words(known, means[name]) for name in (best, worst))
    if near == far and len(means) > 1:
        return f"The {label} is the same for all: {near}{average}."
    if len(means) == 1:
        return f"{upper_first(label)}{average}: {near} ({best})."
    runs = [run for own in groups.values() for run in own]
    pairs, second, over, unlike = comb(len(means), 2), order[1], seed_word(runs), settings_within(groups.values())
    is_single = all(len(own) == 1 for own in values.values())
    images = few_images(known.name, runs, means[best] - means[second])
    few = f" The difference{' of the first two' if len(means) > 2 else ''} is {images}." if images else ""
    if len(means) == 2:
        unclear = _unclear(values[best], values[worst], pairs, over, unlike)
        return f"{upper_first(label)}{average}: {near} ({best}), {far} ({worst}).{few}{unclear}"
    equal = [name for name in order if metric_in_words(known, means[name]) == near]
    named = enumeration(equal) if len(equal) <= MOST_NAMED else f"{len(equal)} of {len(order)}"
    ends = _unclear(values[best], values[worst], pairs, over, unlike, "" if is_single else "the first and the last")
    images = few_images(known.name, runs, means[best] - means[worst])
    apart = f"{f' The difference is {images}.' if images else ''}{ends}"
    if is_single:  # without a spread no order is claimed
        return f"{upper_first(label)}: {near} ({named}) to {far} ({worst}).{apart}"
    if len(equal) > 1:
        return f"{first} {label}{average}: {named}, {near}; {last}: {worst}, {far}.{apart}"
    next_to = metric_in_words(known, means[second])
    unclear = _unclear(values[best], values[second], pairs, over, unlike, "the first two")
    return f"{first} {label}{average}: {best}, {near}; then {second}, {next_to}; {last}: {worst}, {far}.{few}{unclear}"


FEW_IMAGES = 3
"""A difference in accuracy of at most so many test images is named as such."""


def few_images(name: str, runs: Iterable[RunRow], difference: float) -> str:
    """Return how many test images a difference in accuracy is, in percentage points, such as `1 of 360 test images`;
    empty for none, for more than a few, and where that is no count of images.
    """
    names = {str(run.config.get("dataset")) for run in runs}
    data = DATA_SETS.get(names.pop()) if len(names) == 1 and name == "test/accuracy" else None
    count = abs(difference) / 100 * data.test if data and data.kind == "images" else 0.0
    if data is None or not 0 < count < FEW_IMAGES + 0.5:
        return ""
    return f"{'less than 1' if count < 0.95 else f'{count:.2g}'} of {data.test:,} test images"


def _unclear(
    ours: Sequence[tuple[Block, float]],
    theirs: Sequence[tuple[Block, float]],
    pairs: int,
    over: str,
    unlike: Sequence[str],
    of: str = "",
) -> str:
    """Return that two groups do not differ clearly, or have too few runs to say so, as a sentence after another; empty
    if they do. Runs are compared seed by seed where enough seeds are common, with Bonferroni's correction for the
    choice among `pairs` of groups. `unlike` are the settings besides seeds in which runs of one group differ.
    """
    from engine.analysis.statistics.intervals import FEWEST, LEVEL, mean_interval  # NumPy, which `show` does not need

    common, between = {block for block, _ in ours} & {block for block, _ in theirs}, f" between {of}" if of else ""
    if len(common) >= FEWEST["mean"]:
        by_seed = [
            fmean(value for block, value in ours if block == seed)
            - fmean(value for block, value in theirs if block == seed)
            for seed in common
        ]
        found = mean_interval(by_seed, 1 - (1 - LEVEL) / pairs)
        return "" if found.side(0.0) else f" {over.capitalize()} by {over}, the difference{between} is not clear."
    (low, high), (least, most) = (
        (min(own), max(own)) for own in ([value for _, value in each] for each in (ours, theirs))
    )
    if len(ours) == len(theirs) == 1:
        each = f"{upper_first(of)} have one run each" if of else "One run each"
        return f" {each}: other {over}s may change the order."
    overlaps = low <= most and least <= high
    if overlaps:
        return f" The runs of {of} overlap." if of else " Their runs overlap."
    if min(len(ours), len(theirs)) >= FEWEST["mean"]:
        return ""
    needs = f" Whether the difference{between} is clear needs {FEWEST['mean']} {'run' if unlike else over}s of each."
    named = [*map(lower_title, unlike[:MOST_NAMED])]
    if len(unlike) > MOST_NAMED:
        named.append(f"{len(unlike) - MOST_NAMED} more")
    return f"{needs} The runs of a group also differ in {enumeration(named)}." if unlike else needs


def metric_in_words(known: Metric, value: float) -> str:
    """Return a value of a metric with its unit, such as `96.98 %`."""
    unit = known.unit
    text = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:{'.2f' if unit == '%' else '.4g'}}"
    return " ".join(filter(None, (text, unit)))


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Return a label as it is within a sentence; abbreviations stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


# ------------------------------------------------------------------------------------------------------------------
# Whether a run learned, judged by its summaries alone: values that are not finite, a collapse, a result at chance
# level, and a training loss that did not fall. Torch-free and pure.

LEAST_STEPS, LEAST_EPISODES = 30, 100
"""Recorded training steps, or finished episodes, below which a run is too short to be judged."""
SIGMAS = 3
"""Standard errors above chance up to which a result counts as chance: one of 740 that guess is higher."""
CLASSES = 10
"""Classes of each set of images; the nets know no others."""
TEXTS = tuple(name for name, each in DATA_SETS.items() if each.kind == "text")
MOST_TESTED = 10_000
"""Test samples of a data set whose number is unknown; a smaller one has a larger margin."""
MOST_COMMON = {"mnist": 0.1135, **dict.fromkeys(TEXTS, 0.30)}
"""Share of the most common class of a test set, where it is far above 1 / classes: a net that always names it. Of text
that is the space, a little below this number in each version of Python.
"""
RANDOM_RETURNS = {
    "CartPole-v1": (22.5, 12.3),
    "Acrobot-v1": (-499.9, 0.9),
    "MountainCar-v0": (-200.0, 0.0),
    "Pendulum-v1": (-1_206.0, 264.0),
    "MountainCarContinuous-v0": (-33.3, 1.0),
    "FrozenLake-v1": (0.0137, 0.116),
    "FrozenLake8x8-v1": (0.0025, 0.05),
}
"""Mean and deviation of the return of an episode with random actions; measured over 50 to 3,000 episodes."""
MOST_NAMED = 3


@dataclass(frozen=True)
class NotLearned:
    """Why a run did not learn, or lost what it had learned."""

    short: str
    """In a few words, such as `did not learn`."""
    why: str
    """The numbers, such as `test accuracy 10.00 % is chance for 10 classes`."""

    @property
    def sentence(self) -> str:
        """Both, such as `Did not learn: test accuracy 10.00 % is chance for 10 classes.`"""
        return f"{self.short[:1].upper()}{self.short[1:]}: {self.why}."


@dataclass(frozen=True)
class _Chance:
    """The result of a run that learned nothing."""

    level: float
    upto: float
    """The highest value that is still chance."""
    words: str


def not_learned(run: RunRow) -> NotLearned | None:
    """Return why a complete run did not learn; None if it did, and where that can't be judged: runs that ended early or
    are too short, tasks with nothing to learn, a learning rate of 0, and metrics that are lacking.
    """
    known = known_experiment(run.experiment)
    if known is None or not is_complete(run):
        return None
    for name in (LOSS, "test/loss"):
        if bad := run.nonfinite.get(name):
            values = "value is" if bad == 1 else "values are"
            return NotLearned("not finite", f"{bad:,} {metric(name).label.lower()} {values} NaN or infinite")
    nothing = {*known.result.nothing_to_learn, "random"}
    if run.config.get("learning_rate") == 0 or any(run.config.get(name) in nothing for name in ("dataset", "model")):
        return None
    if "environment" in run.config:
        return _of_returns(run) if run.counts.get(EPISODES, 0) >= LEAST_EPISODES else None
    if run.counts.get(LOSS, 0) < LEAST_STEPS:
        return None
    if (value := run.last.get("test/accuracy")) is not None:
        chance = _chance_of_accuracy(run.config)
        return _judged(Ranked.of("test/accuracy", value), run.best.get("test/accuracy"), chance)
    fall = run.last.get(LOSS_FALL)
    if fall is not None and fall <= 0:
        why = f"the mean training loss of the last {WINDOW} steps is {-fall:.4g} above that of the first {WINDOW}"
        return NotLearned("loss did not fall", why if fall else why.replace("0 above", "equal to"))
    return None


def not_learned_of(runs: Iterable[RunRow]) -> str:
    """Return which of several runs did not learn, as a sentence; empty if all did, or can't be judged."""
    found = [(run.id, bad) for run in runs if (bad := not_learned(run))]
    if not found:
        return ""
    named = "; ".join(f"run {run_id} {bad.short}: {bad.why}" for run_id, bad in found[:MOST_NAMED])
    more = f"; and {len(found) - MOST_NAMED} more runs" if len(found) > MOST_NAMED else ""
    return f"{named[:1].upper()}{named[1:]}{more}."


def _of_returns(run: RunRow) -> NotLearned | None:
    found = ranked(run)
    at_random = RANDOM_RETURNS.get(str(run.config["environment"]))
    if found is None or at_random is None or found.result.of == "mean":
        return None
    mean, deviation = at_random
    episodes = 100 if found.result.metric == LAST_EPISODES else int(run.config.get("evaluation_episodes", 1))
    upto = mean + SIGMAS * deviation / sqrt(episodes)
    return _judged(
        found, run.best.get(found.result.metric), _Chance(mean, upto, f"no more than random actions get ({mean:.4g})")
    )


def is_at_chance(config: Mapping[str, Any], name: str, value: float) -> bool:
    """Return whether a run with these settings reaches a value of a metric without learning anything; False where that
    isn't known.
    """
    return name == "test/accuracy" and value <= _chance_of_accuracy(config).upto


def _chance_of_accuracy(config: Mapping[str, Any]) -> _Chance:
    data = str(config.get("dataset", ""))
    classes = 2 if config.get("model") == "sparse_logistic" else BYTES if data in TEXTS else CLASSES
    share, tested = 1 / classes, DATA_SETS[data].predictions if data in DATA_SETS and classes > 2 else MOST_TESTED
    highest = max(share, MOST_COMMON.get(data, 0.0))
    upto = highest + SIGMAS * sqrt(highest * (1 - highest) / tested)
    return _Chance(100 * share, 100 * upto, f"chance for {classes} classes")


def _judged(found: Ranked, best: float | None, chance: _Chance) -> NotLearned | None:
    """Return that a result is chance, or that it lost more than half of what the best one was above chance."""
    label = found.metric.label.lower()
    is_chance = found.value <= chance.upto
    learned = best is not None and best > chance.upto and best - chance.upto > chance.upto - chance.level
    if learned and best is not None and found.value < (chance.level + best) / 2:
        top = Ranked(found.result, best)
        return NotLearned(
            "collapsed", f"{label} fell from {top.short} to {found.short}{f', {chance.words}' if is_chance else ''}"
        )
    return NotLearned("did not learn", f"{label} {found.short} is {chance.words}") if is_chance else None
