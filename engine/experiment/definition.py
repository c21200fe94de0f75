"""The definition of an experiment for pages, command line, runner and analysis: one `Experiment` in its folder.

Torch-free, and so is everything an `Experiment` refers to. Only its `method.py`, which runs in ranks, imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.config import Config
from engine.errors import UnknownName
from engine.experiment.contender import Contender
from engine.experiment.ideal_lines import Scaling
from engine.experiment.result import ACCURACY, Result
from engine.experiment.work import Work
from engine.metrics import LAST_EPISODES

Answer = Literal["sweet spot", "scaling", "contest", "staleness"]
"""What a ready-made sweep answers: which value of a setting takes least time, how work per second grows with a count,
which value of its first setting does most work per second, whether stale gradients cost accuracy.
"""
MessagePattern = Literal[
    "batched server",
    "asynchronous server",
    "shared memory",
    "average",
    "batched requests",
    "queue",
    "stages",
    "one process",
]
"""The ways in which processes send each other messages; the launch page animates each."""


@dataclass(frozen=True)
class Preset:
    """A named config: it only sets values."""

    sentence: str
    settings: Mapping[str, Any]
    expects: Mapping[str, float] = field(default_factory=dict)
    """Minimum value of each metric that a run of this preset reaches, shown before launch."""
    takes: str = ""
    """Approximate duration and machine, in words; empty if not measured."""


@dataclass(frozen=True)
class Flow:
    """One arrow of a card's diagram: source, target and what is sent."""

    source: str
    target: str
    what: str


@dataclass(frozen=True)
class ReadySweep:
    """A sweep that answers a common question, offered on the launch page."""

    question: str
    preset: str
    over: Mapping[str, str]
    """Values of one or two fields, as they are typed into the form: `{"splits": "1, 2, 4, 8"}`."""
    answer: Answer
    """The kind of its answer (engine/analysis/scaling/answers.py)."""
    seeds: int = 3
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset's."""
    equal_work: bool = False
    """Whether the length is adjusted so that all its runs do the same total work."""
    is_timed: bool = False
    """Whether it is a sweep for timing: one run at a time, repeated until the median times are known."""


HEADLINE = (
    *("test/accuracy", "test/loss", "train/loss", "perf/samples_per_second", "perf/env_steps_per_second"),
    LAST_EPISODES,
)
"""Metrics at the top of a run's page unless the experiment overrides them."""


@dataclass(frozen=True)
class UpdateClock:
    """The metric whose points count a model's updates: the sum of all ranks' `steps` (each updates the one model),
    their `mean` (each has a copy), the `most` of a rank (each update is of all that still have data), or one update
    per point (`points`).
    """

    metric: str
    counts: Literal["steps", "mean", "most", "points"] = "steps"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The torch-free definition of one experiment."""

    # ---- card
    name: str
    """The name of its folder, in the table and on the command line."""
    title: str
    """Display name."""
    tagline: str
    """What it does, in at most 45 characters."""
    sentence: str
    """One sentence that describes it."""
    pattern: MessagePattern
    """How its processes send messages."""
    flows: tuple[Flow, ...]
    """The arrows of its diagram."""
    source: str
    """The paper or tutorial, in one line."""

    # ---- runs
    config: type[Config]
    """The settings class."""
    presets: Mapping[str, Preset]
    """Named configs; each experiment has `published`, `tuned` and `quick`."""
    ready_sweeps: tuple[ReadySweep, ...] = ()
    """Sweeps offered on the launch page."""
    resumable: bool = False
    """Whether its runs save checkpoints (`checkpoint_every_s`) that another run can resume."""
    work: Callable[[Any], Work] | None = None
    """The total work of a run of that config; None where runs train nothing."""

    # ---- one run
    result: Result = ACCURACY
    """The number that ranks its runs."""
    headline: tuple[str, ...] = HEADLINE
    """Metrics at the top of a run's page after the result, in this order, if the run has them."""
    goals: Callable[[Any], Mapping[str, float]] = lambda config: {}
    """Target value of a metric for a run of that config, drawn as a line in the metric's chart."""
    update_clock: UpdateClock | Callable[[Mapping[str, Any]], UpdateClock] | None = None
    """What counts the model's updates, or a function of a run's settings that returns it; None where nothing does, so
    that updates can't be an x-axis.
    """
    stale_gradients: str = ""
    """What records stale gradients, in words after "by"; empty if nothing does."""
    sections: tuple[str, ...] = ()
    """Sections that only its runs' pages have."""

    # ---- comparison of runs
    axis: str
    """The default field of a sweep."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Fields whose increase should speed up the run, each with its singular noun: `{"trainers": "trainer"}`."""
    scaling: Scaling | None = None
    """The reference lines of a sweep along one of its fields, and its per-rank charts."""
    duel: Contender | None = None
    """How it takes part in duels; None if it doesn't."""

    @property
    def server_roles(self) -> tuple[str, ...]:
        """Roles that serve the others: they use one thread and don't count among the ranks that share the cores."""
        return self.config.server_roles

    def clock(self, settings: Mapping[str, Any]) -> UpdateClock | None:
        """Return what counts the updates of a run with those settings."""
        return self.update_clock(settings) if callable(self.update_clock) else self.update_clock

    def preset(self, name: str) -> Preset:
        """Return the preset of that name; raises UnknownName."""
        if name not in self.presets:
            raise UnknownName("preset", name, self.presets, field="preset")
        return self.presets[name]

    def configure(self, preset: str | None = None, changes: Mapping[str, Any] | None = None) -> Config:
        """Return a checked config: the preset's values (or the defaults) updated by `changes`."""
        base = dict(self.preset(preset).settings) if preset else {}
        return self.config.check(base | dict(changes or {}))
