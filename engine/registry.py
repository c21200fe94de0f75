"""The table of experiments: the only place to register a new experiment outside its folder.

Torch-free: an experiment's `config.py` is imported on use, with pydantic; its `method.py` only by the worker.
"""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from engine.errors import UnknownName

if TYPE_CHECKING:
    from engine.experiment import Experiment
    from engine.script.command import Command

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
UNLISTED = ("fault_museum",)
"""Launched from a separate page, and hidden from the lists of experiments."""


def experiment(name: str) -> "Experiment":
    """Return the experiment of that name; raises UnknownName with the closest name."""
    if not is_registered(name):
        raise UnknownName("experiment", name, EXPERIMENTS, field="experiment")
    found: Experiment = _module(name, "config").EXPERIMENT
    return found


class Launchable(Protocol):
    """A launch, a run or a sweep: of an experiment, or of a command of the lab's own script."""

    @property
    def experiment(self) -> str: ...
    @property
    def command(self) -> "Command | None": ...


def definition(of: Launchable) -> "Experiment":
    """Return what a launch, a run or a sweep is of: its command as an experiment, else the experiment of that name.

    Raises UnknownName for an unknown name, as of a run that another program has made.
    """
    if of.command is None:
        return experiment(of.experiment)
    from engine.script.settings import definition_of  # with pydantic, which the list of names doesn't need

    return definition_of(of.command, of.experiment)


def known_experiment(name: str) -> "Experiment | None":
    """Return the experiment of that name, None if unknown: a run may come from another program."""
    return experiment(name) if is_registered(name) else None


def is_registered(name: str) -> bool:
    """Return whether an experiment has that name."""
    return name in EXPERIMENTS + UNLISTED


def experiment_title(name: str) -> str:
    """Return the title of the experiment of that name; the name itself if unknown."""
    known = known_experiment(name)
    return known.title if known else name


def experiments() -> "list[Experiment]":
    """Return all experiments in table order."""
    return [experiment(name) for name in EXPERIMENTS]


def is_setting(name: str) -> bool:
    """Return whether any experiment has a setting of that name."""
    return any(name in experiment(each).config.model_fields for each in EXPERIMENTS + UNLISTED)


def server_roles() -> frozenset[str]:
    """Return the server roles of all experiments; role names mean the same everywhere."""
    return frozenset(role for name in EXPERIMENTS + UNLISTED for role in experiment(name).server_roles)


def method(name: str) -> Callable[..., None]:
    """Return the experiment's `run`; imports torch, so only for the worker."""
    run: Callable[..., None] = _module(experiment(name).name, "method").run
    return run


def _module(name: str, part: str) -> ModuleType:
    """Return an experiment's `config` or `method`."""
    return import_module(f"engine.museum.{part}" if name in UNLISTED else f"engine.experiments.{name}.{part}")
