"""The table of experiments: the only place to register a new experiment of ours outside its folder. Those of the lab's
own (`engine.own_methods`) are found by their folders.

Torch-free: an experiment's `config.py` is imported on use, with pydantic; its `method.py` only by the worker.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from engine.errors import UnknownName
from engine.home import Home

if TYPE_CHECKING:
    from engine.experiment import Experiment
    from engine.own_methods.cards import Offer
    from engine.script.command import Command

EXPERIMENTS = (
    "reference",
    "parameter_server",
    "async_sgd",
    "sync_sgd",
    "fsdp",
    "hogwild",
    "batched_reinforce",
    "dppo",
    "pipeline",
    "tensor_parallel",
)
UNLISTED = ("fault_museum",)
"""Launched from a separate page, and hidden from the lists of experiments."""


def experiment(name: str, code: str = "") -> "Experiment":
    """Return the experiment of that name, one of the lab's own as its folder is now or with that version of its code;
    raises UnknownName with the closest name, MethodFault for one of the lab's own that can't be used.
    """
    if not is_ours(name) and os.environ.get(IMPORTED) != name:
        if not is_registered(name):
            raise UnknownName("experiment", name, EXPERIMENTS, field="experiment")
        return cast("Experiment", _own("cards").current(Home.find(), name, code))
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
        config: Mapping[str, Any] = getattr(of, "config", {})  # the runs of a sweep may have several versions
        return experiment(of.experiment, str(config.get("code", "")) if is_own(of) else "")
    from engine.script.settings import definition_of  # with pydantic, which the list of names doesn't need

    return definition_of(of.command, of.experiment)


def known_experiment(name: str, code: object = "") -> "Experiment | None":
    """Return the experiment of that name, None if unknown: a run may come from another program. One of the lab's own
    has that version of its code or, where that isn't kept, its last card; no process is started.
    """
    if is_ours(name):
        return experiment(name)
    return (
        cast("Experiment | None", _own("cards").latest(Home.find(), name, str(code))) if is_registered(name) else None
    )


def is_ours(name: str) -> bool:
    """Return whether an experiment of Parallab has that name."""
    return name in EXPERIMENTS + UNLISTED


def is_registered(name: str) -> bool:
    """Return whether an experiment of Parallab or one of the lab's own has that name."""
    return is_ours(name) or bool(_own("folders").is_there(Home.find(), name))


def is_own(of: Launchable) -> bool:
    """Return whether a launch, a run or a sweep is of an experiment of the lab's own: its code is the lab's too."""
    return of.command is None and not is_ours(of.experiment) and is_registered(of.experiment)


def experiment_title(name: str) -> str:
    """Return the title of the experiment of that name; the name itself if unknown."""
    known = known_experiment(name)
    return known.title if known else name


def experiments() -> "list[Experiment]":
    """Return all experiments in table order, then those of the lab's own that can be used."""
    return [*map(experiment, EXPERIMENTS), *(each.experiment for each in own_experiments() if each.experiment)]


def own_experiments(within_s: float = 0.0) -> "list[Offer]":
    """Return the lab's own experiments, with what is wrong with them; new ones are read beside the caller, who waits
    for them up to `within_s`.
    """
    return cast("list[Offer]", _own("cards").offers(Home.find(), EXPERIMENTS + UNLISTED, within_s=within_s))


def is_setting(name: str) -> bool:
    """Return whether any experiment has a setting of that name."""
    if name in _settings(EXPERIMENTS + UNLISTED):
        return True
    return any(name in each.experiment.config.model_fields for each in own_experiments() if each.experiment)


@cache
def _settings(names: tuple[str, ...]) -> frozenset[str]:
    """Return the names of all settings of experiments of ours: a table asks for each of its columns."""
    return frozenset(chain.from_iterable(experiment(name).config.model_fields for name in names))


def server_roles() -> frozenset[str]:
    """Return the server roles of all experiments; role names mean the same everywhere."""
    return frozenset(role for name in EXPERIMENTS + UNLISTED for role in experiment(name).server_roles)


def method(name: str) -> Callable[..., None]:
    """Return the experiment's `run`; imports torch, so only for the worker."""
    run: Callable[..., None] = _module(experiment(name).name, "method").run
    return run


IMPORTED = "PARALLAB_EXPERIMENT"
"""The variable of a run's own process that has the experiment of the lab's own which it imports."""


def _module(name: str, part: str) -> ModuleType:
    """Return an experiment's `config` or `method`."""
    if not is_ours(name):
        return import_module(f"parallab_experiments.{name}.{part}")
    return import_module(f"engine.museum.{part}" if name in UNLISTED else f"engine.experiments.{name}.{part}")


def _own(part: str) -> ModuleType:
    """Return what knows the lab's own experiments: their `folders`, or their `cards`, with pydantic."""
    return import_module(f"engine.own_methods.{part}")
