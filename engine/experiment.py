"""The definition of an experiment, which all but its ranks read: card, presets, roles, work, part in duels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from engine.config import Config
from engine.errors import UnknownName, counted
from engine.metrics import ACCURACY, LAST_EPISODES, Result, depends_on_time

# ---- The total work of a run, as its config declares it before it starts -------------------------------------------
# Torch-free and pure.


@dataclass(frozen=True)
class Work:
    """What a run does until its end, over all ranks."""

    length: str
    """The setting that its amount is proportional to, such as `epochs`."""
    amount: int
    """Units of work, as the run's progress counts them."""
    unit: str = "samples"
    passes: float | None = None
    """Passes over the training data by all ranks; None where there is no data set."""
    updates: float = 0.0
    """Updates of the model; where each rank has its own, of one of them. 0 where nothing counts them."""
    steps: float | None = None
    """Steps of a rank; None where they differ between ranks or nothing counts them."""
    batches: str = ""
    """Its mini-batches and micro-batches in words, where these are not its updates."""

    @property
    def pass_size(self) -> int | None:
        """Units of work in a pass; None where there is no data set."""
        return round(self.amount / self.passes) if self.passes else None

    def share(self, share: float) -> "Work":
        """Return that share of it; without its steps and batches, which are not counted as they go."""
        passes = None if self.passes is None else self.passes * share
        amount, updates = round(self.amount * share), float(round(self.updates * share))
        return replace(self, amount=amount, passes=passes, updates=updates, steps=None, batches="")

    def shortly(self) -> str:
        """Return its passes, where there are some, or else its units: `24 passes`, `200,000 env steps`."""
        return f"{self.amount:,} {self.unit}" if self.passes is None else in_passes(self.passes)

    def in_words(self) -> str:
        """Return `24 passes, 34,488 samples, 1,080 updates`."""
        units = [] if self.passes is None else [f"{self.amount:,} {self.unit}"]
        updates = counted(round(self.updates), "update") if self.updates else ""
        return ", ".join(filter(None, [self.shortly(), *units, updates, self.batches]))


def in_passes(passes: float) -> str:
    """Return a number of passes: `24 passes`, `0.25 passes`."""
    return f"{passes_number(passes)} {'pass' if passes == 1 else 'passes'}"


def passes_number(passes: float) -> str:
    """Return the number alone, with at most four significant digits: `24`, `0.3333`, `1,440`."""
    return f"{passes:,.0f}" if passes >= 1000 else f"{passes:.4g}"


# ---- How an experiment takes part in duels; a field of its `Experiment` --------------------------------------------
# Torch-free and pure.

Kind = Literal["seconds", "passes", "updates", "bytes"]
KINDS: tuple[Kind, ...] = ("seconds", "passes", "updates", "bytes")


@dataclass(frozen=True)
class Pace:
    """The work of a method in one unit of its length and in one pass over the data."""

    passes: float
    """Passes over the data by all trainers in one unit of length; also between two tests."""
    updates: float
    """Model updates per pass."""
    bytes: float | None
    """Bytes sent between processes per pass; None for shared memory or a single process."""
    step_passes: float | None = None
    """Passes per step of the rank that tests, where others keep training meanwhile; None where each test records its
    own passes exactly.
    """
    step_updates: float = 1.0
    """Model updates per recorded step."""

    def units(self, kind: Kind, amount: float) -> int | None:
        """Return the length that reaches a budget, at least 1; None for seconds, which can't be computed, and for bytes
        where none are sent.
        """
        passes = self.passes_of(kind, amount)
        return None if passes is None else max(1, ceil(passes / self.passes - 1e-9))

    def passes_of(self, kind: Kind, amount: float) -> float | None:
        """Return a budget in passes, or None where it can't be computed."""
        if kind == "passes":
            return amount
        each = {"updates": self.updates, "bytes": self.bytes}.get(kind)
        return amount / each if each else None

    def spent(self, kind: Kind, step: int, time_s: float, passes: float | None) -> float:
        """Return the budget spent at a test, given its step, its time and (if recorded) its passes."""
        if kind == "seconds":
            return time_s
        if kind == "updates":
            return step * self.step_updates
        stood = step * self.step_passes if self.step_passes else passes or 0.0
        return stood if kind == "passes" else stood * (self.bytes or 0.0)


@dataclass(frozen=True)
class Ready:
    """A strategy offered under a short name."""

    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the shared ones."""


@dataclass(frozen=True)
class Contender:
    """The description of a method for duels. The method trains the shared net on the shared data and tests during
    training.
    """

    length: str
    """The setting for the length of training."""
    pace: Callable[[Any], Pace]
    """The work in one unit of that length under a config."""
    strategies: Mapping[str, Ready]
    """Strategies offered, under short names unique among all experiments."""
    data: str
    """The data each trainer trains on, in words."""
    momentum: Callable[[Any], str]
    """Who owns the momentum under a config, in words."""
    tests: str
    """Which rank tests, and which ranks wait for it, in words."""
    gradients: Callable[[Any], int] = lambda config: 1
    """Gradients per update under a config."""
    given: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: {}
    """Settings that the duel derives from all others; a strategy's own settings take precedence."""

    def work(self, config: Any, pass_size: int) -> Work:
        """Return the total work of a run of that config, whose passes have `pass_size` samples."""
        pace = self.pace(config)
        passes = getattr(config, self.length) * pace.passes
        steps = round(passes / pace.step_passes) if pace.step_passes else None
        return Work(self.length, round(passes * pass_size), passes=passes, updates=passes * pace.updates, steps=steps)


# ---- Reference lines for execution time in an experiment's sweeps --------------------------------------------------
# Torch-free.


@dataclass(frozen=True)
class Baseline:
    """The measurement at the start value of the axis: one config, means over its finished runs."""

    config: Mapping[str, Any]
    execution_time_s: float
    stage_work: Sequence[Sequence[float]] = ()
    """Seconds of each stage's forwards, backwards and separate weight gradients per batch; empty if no batch was
    recorded.
    """


@dataclass(frozen=True)
class Reference:
    """One reference line: a label, a dash style, and a time in seconds per value of the axis."""

    label: str
    dash: Literal["dash", "dot"]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class Scaling:
    """How the sweeps of an experiment are drawn."""

    field: str
    """The axis: lines are drawn where it is the first field of a sweep."""
    start: Any
    """The axis value whose measured execution time the lines start from."""
    references: Callable[[Baseline, Sequence[int]], list[Reference]]
    """Compute the lines at the given axis values from the measurement at `start`."""
    explained: str
    """Explanation of the lines, shown with the chart."""
    called: str = "The lines"
    """Name of the lines at the start of a sentence."""
    at_once: str = ""
    """The setting with the number of parallel workers, if it is not the axis."""
    rank_metrics: tuple[str, ...] = ()
    """Metrics drawn with one line per rank."""


# ------------------------------------------------------------------------------------------------------------------
# The definition of an experiment for pages, command line, runner and analysis: one `Experiment` in its folder.
# Torch-free, and so is everything an `Experiment` refers to. Only its `method.py`, which runs in ranks, imports
# torch.


@dataclass(frozen=True)
class TradeOff:
    """The question of a sweep for the least cost at the same quality: which values cost least while their quality stays
    within a tolerance of the baseline's.
    """

    cost: str
    """What should be little: a metric with its statistic, as Compare spells it, such as `perf/exchanged.last`."""
    quality: str
    """What may not get worse, spelled likewise: `test/accuracy.last`."""
    tolerance: float
    """By how much the quality may be worse than the baseline's, in the metric's unit."""
    is_relative: bool = False
    """Whether the tolerance is in % of the baseline's quality instead."""
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """Values of some of the varied settings, which the baseline's runs have; empty: the best quality is the baseline.
    """
    asks_cost: bool = False
    """Whether the question is about the cost, so that the page of its sweep opens on it instead of the quality."""

    @property
    def asked(self) -> str:
        """The name of the value that the question is about."""
        return self.cost if self.asks_cost else self.quality

    def __post_init__(self) -> None:
        for name in (self.cost, self.quality):
            if "." not in name.rpartition("/")[2]:
                raise ValueError(f"A trade-off weighs metrics with a statistic, such as {name}.last; got {name}.")


Answer = Literal["sweet spot", "scaling", "contest", "staleness"] | TradeOff
"""What a ready-made sweep answers: which value of a setting takes least time, how work per second grows with a count,
which value of its first setting does most work per second, whether stale gradients cost accuracy, which values cost
least at the same quality.
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


ENDS_EARLY = "stop_when_solved"
"""The setting with which a run may end before its length: its time left is a bound."""


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
    """The kind of its answer (engine/analysis/scaling/answers.py), or the cost and quality that it weighs."""
    seeds: int = 3
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset's."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """What a value of `over` changes besides what the question asks, as a sentence that the answer ends with."""
    run_s: float | None = None
    """Mean seconds of one of its runs on two cores, with its start-up: the estimate where nothing similar has run."""

    @property
    def equal_work(self) -> bool:
        """Whether the length is adjusted so that all its runs do the same total work."""
        return isinstance(self.answer, TradeOff) or self.answer in ("scaling", "contest")

    @property
    def is_timed(self) -> bool:
        """Whether it is a sweep for timing: one run at a time, repeated until the median times are known."""
        if isinstance(self.answer, TradeOff):
            return any(depends_on_time(name.rpartition(".")[0]) for name in (self.answer.cost, self.answer.quality))
        return self.answer != "staleness"


HEADLINE = (
    *("test/accuracy", "test/loss", "train/loss", "perf/samples_per_second", "perf/env_steps_per_second"),
    LAST_EPISODES,
)
"""Metrics at the top of a run's page unless the experiment overrides them."""


@dataclass(frozen=True)
class Clock:
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
    api: int = 1
    """The version of `engine.plugin` that it was written for."""

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
    update_clock: Clock | Callable[[Mapping[str, Any]], Clock] | None = None
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

    def clock(self, settings: Mapping[str, Any]) -> Clock | None:
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
