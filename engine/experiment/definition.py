"""What an experiment is to pages, command line, runner and analysis: one `Experiment`, which stands in its folder.

Torch-free, and so is whatever an `Experiment` refers to. Only its `method.py`, which ranks carry out, knows torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.config import Config
from engine.errors import UnknownName
from engine.experiment.contender import Contender
from engine.experiment.ideal_lines import Scaling

Of = Literal["last", "mean"]
STATISTICS: dict[Of, str] = {"last": "last", "mean": "mean over the run"}


@dataclass(frozen=True)
class Preset:
    """A named config: it only sets values."""

    sentence: str
    settings: Mapping[str, Any]
    expects: Mapping[str, float] = field(default_factory=dict)
    """The least value of each metric that a run of this preset reaches, shown before the launch."""
    takes: str = ""
    """About how long it takes and where, in words; empty where it was not tried."""


@dataclass(frozen=True)
class Flow:
    """One arrow of a card's diagram: who writes what to whom."""

    source: str
    target: str
    what: str


@dataclass(frozen=True)
class Result:
    """The one number by which runs of one task are ranked; engine.metrics knows whether more or less is better."""

    metric: str = "test/accuracy"
    of: Of = "last"
    """Which of its values: the last one (never the best on the way, which would be chosen by the test set), or the mean
    of all.
    """
    task: tuple[str, ...] = ("dataset",)
    """Settings that say what was worked on: numbers of different tasks can't be ranked together."""
    own_tasks: tuple[tuple[str, str], ...] = ()
    """Settings with a value that makes a task of its own, whatever those of `task` say."""
    nothing_to_learn: tuple[str, ...] = ("synthetic",)
    """Tasks that are there for timing alone."""

    @property
    def statistic(self) -> str:
        """Which of its values, in words."""
        return STATISTICS[self.of]


ACCURACY = Result()
"""That of most experiments: the last accuracy on the data set's tests."""
HEADLINE = (
    *("test/accuracy", "test/loss", "train/loss", "perf/samples_per_second", "perf/env_steps_per_second"),
    "charts/episodic_return",
)
"""What the top of a run's page tells unless its experiment says otherwise."""


@dataclass(frozen=True)
class UpdateClock:
    """Which metric's points tell how many updates a run's model has had: the `steps` of all ranks that record it added
    up, their `mean`, or each of its `points` is one update.
    """

    metric: str
    counts: Literal["steps", "mean", "points"] = "steps"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """All that is known of one experiment without importing torch."""

    # ---- its card
    name: str
    """That of its folder, of the table and of the command line."""
    title: str
    """What people call it."""
    sentence: str
    """What it does."""
    flows: tuple[Flow, ...]
    """Who writes what to whom, the arrows of its diagram."""
    source: str
    """The paper or tutorial, in one line."""

    # ---- its runs
    config: type[Config]
    """Its settings."""
    presets: Mapping[str, Preset]
    """Named configs; each experiment has `published`, `tuned` and `quick`."""
    resumable: bool = False
    """Whether its runs keep checkpoints (`checkpoint_every_s`), from which another run can go on."""

    # ---- one run read
    result: Result = ACCURACY
    """What its runs are ranked by."""
    headline: tuple[str, ...] = HEADLINE
    """Metrics that the top of a run's page tells after the result, in this order, as far as the run has them."""
    goals: Callable[[Any], Mapping[str, float]] = lambda config: {}
    """The value of a metric from which a run of that config has done what it is for, a line over the metric's curve."""
    update_clock: UpdateClock | None = None
    """What counts the model's updates; None where nothing does, so that curves can't be laid along them."""
    stale_gradients: str = ""
    """By whom gradients older than the weights they change are recorded, in words after "by"; empty for nobody."""
    sections: tuple[str, ...] = ()
    """Sections of a run's page that only its runs have."""

    # ---- runs compared
    axis: str
    """The field that a sweep varies first unless another is chosen."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Fields along which more should be faster, each with the word for one: `{"trainers": "trainer"}`."""
    scaling: Scaling | None = None
    """The lines that a sweep along one of its fields is read against, and what is drawn a rank."""
    duel: Contender | None = None
    """How it takes part in duels; None where it can't."""

    @property
    def server_roles(self) -> tuple[str, ...]:
        """Its roles that serve the others: they compute on one thread and count as no rank that shares the cores."""
        return self.config.server_roles

    def preset(self, name: str) -> Preset:
        """Return the preset of that name; raises UnknownName."""
        if name not in self.presets:
            raise UnknownName("preset", name, self.presets, field="preset")
        return self.presets[name]

    def configure(self, preset: str | None = None, changes: Mapping[str, Any] | None = None) -> Config:
        """Return a checked config: the preset's values (the defaults without one) with `changes` laid over."""
        base = dict(self.preset(preset).settings) if preset else {}
        return self.config.check(base | dict(changes or {}))
