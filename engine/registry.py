"""The table of experiments: the only place to register a new experiment outside its folder.

Torch-free: an experiment's `config.py` is imported on use, with pydantic; its `method.py` only by the worker.
"""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from engine.errors import UnknownName

if TYPE_CHECKING:
    from engine.experiment import Experiment

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
    if name not in EXPERIMENTS + UNLISTED:
        raise UnknownName("experiment", name, EXPERIMENTS, field="experiment")
    found: Experiment = _module(name, "config").EXPERIMENT
    return found


def known_experiment(name: str) -> "Experiment | None":
    """Return the experiment of that name, None if unknown: a run may come from another program."""
    return experiment(name) if name in EXPERIMENTS + UNLISTED else None


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
