"""Whether a run learned, judged by its summaries alone: values that are not finite, a collapse, a result at chance
level, and a training loss that did not fall. Torch-free and pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from engine.analysis.result import Ranked, ranked
from engine.data.catalogue import DATA_SETS
from engine.metrics import EPISODES, LAST_EPISODES, LOSS, LOSS_FALL, WINDOW, metric
from engine.registry import known_experiment
from engine.store.records import RunRow, is_complete

LEAST_STEPS, LEAST_EPISODES = 30, 100
"""Recorded training steps, or finished episodes, below which a run is too short to be judged."""
SIGMAS = 3
"""Standard errors above chance up to which a result counts as chance: one of 740 that guess is higher."""
CLASSES = 10
"""Classes of each data set; the nets know no others."""
MOST_TESTED = 10_000
"""Test samples of a data set whose number is unknown; a smaller one has a larger margin."""
MOST_COMMON = {"mnist": 0.1135}
"""Share of the most common class of a test set, where it is far above 1 / classes: a net that always names it."""
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
        return _judged(Ranked.of("test/accuracy", value), run.best.get("test/accuracy"), _chance_of_accuracy(run))
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


def _chance_of_accuracy(run: RunRow) -> _Chance:
    data = str(run.config.get("dataset", ""))
    classes = 2 if run.config.get("model") == "sparse_logistic" else CLASSES
    share, tested = 1 / classes, DATA_SETS[data].test if data in DATA_SETS and classes > 2 else MOST_TESTED
    highest = max(share, MOST_COMMON.get(data, 0.0))
    upto = highest + SIGMAS * sqrt(highest * (1 - highest) / tested)
    return _Chance(100 * share, 100 * upto, f"chance for {classes} classes")


def _judged(found: Ranked, best: float | None, chance: _Chance) -> NotLearned | None:
    """Return that a result is chance, or that it lost more than half of what the best one was above chance."""
    label = metric(found.result.metric).label.lower()
    is_chance = found.value <= chance.upto
    learned = best is not None and best > chance.upto and best - chance.upto > chance.upto - chance.level
    if learned and best is not None and found.value < (chance.level + best) / 2:
        top = Ranked(found.result, best)
        return NotLearned(
            "collapsed", f"{label} fell from {top.short} to {found.short}{f', {chance.words}' if is_chance else ''}"
        )
    return NotLearned("did not learn", f"{label} {found.short} is {chance.words}") if is_chance else None
