"""The table of experiments: the one place outside its folder where a new experiment is named.

Torch-free: an experiment's `config.py` is imported on use, its `method.py` by the worker alone.
"""

from collections.abc import Callable
from importlib import import_module

from engine.errors import UnknownName
from engine.experiment.definition import Experiment

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
"""Launched from a page of its own, so that it is no card, no row of the list, and no choice among experiments."""


def experiment(name: str) -> Experiment:
    """Return the experiment of that name; raises UnknownName with the nearest one."""
    if name not in EXPERIMENTS + UNLISTED:
        raise UnknownName("experiment", name, EXPERIMENTS, field="experiment")
    found = import_module(f"engine.experiments.{name}.config").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def known_experiment(name: str) -> Experiment | None:
    """Return the experiment of that name, None where this version has none: a run may come from another program."""
    return experiment(name) if name in EXPERIMENTS + UNLISTED else None


def experiments() -> list[Experiment]:
    """Return all experiments in the order of the table."""
    return [experiment(name) for name in EXPERIMENTS]


def server_roles() -> frozenset[str]:
    """Return the roles that serve others in any experiment: a role's name means the same in all of them."""
    return frozenset(role for name in EXPERIMENTS + UNLISTED for role in experiment(name).server_roles)


def method(name: str) -> Callable[..., None]:
    """Return the experiment's `run`; imports torch, so only the worker may ask."""
    run: Callable[..., None] = import_module(f"engine.experiments.{experiment(name).name}.method").run
    return run
