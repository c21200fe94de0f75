"""The table of experiments: the one place where a new experiment is named.

Torch-free: an experiment's `config.py` is imported on use, its `method.py` by the worker alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from engine.config import Config
from engine.errors import UnknownName
from engine.ideal_lines import Scaling
from engine.results import ACCURACY, Result

UNLISTED = ("fault_museum",)
"""Launched from a page of its own, so that it is no card, no row of the list, and no choice among experiments."""
EXPERIMENTS = (
    "reference",
    "parameter_server",
    "async_sgd",
    "sync_sgd",
    "hogwild",
    "batched_reinforce",
    "dppo",
    "pipeline",
)
"""What an experiment's sweeps are read by, beside what they measured; most have nothing."""


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
class Experiment:
    """What pages, command line and runner need to know of a method without importing torch."""

    name: str
    title: str
    sentence: str
    config: type[Config]
    presets: Mapping[str, Preset]
    axis: str
    """The field that scaling charts count along."""
    flows: tuple[Flow, ...]
    source: str
    """The paper or tutorial, in one line."""
    resumable: bool = False
    """Whether its runs keep checkpoints (`checkpoint_every_s`), from which another run can go on."""
    goals: Callable[[Any], Mapping[str, float]] = lambda config: {}
    """The value of a metric from which a run of that config has done what it is for; drawn as a line over the metric's
    curve.
    """
    scaling: Scaling | None = None
    """The lines that a sweep along one of its fields is read against, and what is drawn a rank."""
    result: Result = ACCURACY
    """What its runs are ranked by."""

    def preset(self, name: str) -> Preset:
        """Return the preset of that name; raises UnknownName."""
        if name not in self.presets:
            raise UnknownName("preset", name, self.presets, field="preset")
        return self.presets[name]

    def configure(self, preset: str | None = None, changes: Mapping[str, Any] | None = None) -> Config:
        """Return a checked config: the preset's values (the defaults without one) with `changes` laid over."""
        base = dict(self.preset(preset).settings) if preset else {}
        return self.config.check(base | dict(changes or {}))


def experiment(name: str) -> Experiment:
    """Return the experiment of that name; raises UnknownName with the nearest one."""
    if name not in EXPERIMENTS + UNLISTED:
        raise UnknownName("experiment", name, EXPERIMENTS, field="experiment")
    found = import_module(f"engine.experiments.{name}.config").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def experiments() -> list[Experiment]:
    """Return all experiments in the order of the table."""
    return [experiment(name) for name in EXPERIMENTS]


def method(name: str) -> Callable[..., None]:
    """Return the experiment's `run`; imports torch, so only the worker may ask."""
    run: Callable[..., None] = import_module(f"engine.experiments.{experiment(name).name}.method").run
    return run
