"""Strategies to choose from by a short name, and how a person writes one of their own: `hogwild`,
`async_sgd:rule=plain`, `Locked=hogwild:lock=true`.
"""

from collections.abc import Mapping
from typing import Any

from engine.config import read_settings
from engine.duel.budget import METHODS
from engine.duel.spec import OF_THE_DUEL, SHARED, Strategy
from engine.errors import ConfigError, Problem, UnknownName
from engine.registry import experiment

READY: Mapping[str, Strategy] = {
    "reference": Strategy("Reference", "reference"),
    "parameter_server": Strategy("Parameter server", "parameter_server"),
    "async_sgd": Strategy("Asynchronous SGD", "async_sgd"),
    "async_scaled": Strategy("Asynchronous SGD, staleness-scaled", "async_sgd", {"rule": "staleness_scaled"}),
    "sync_sgd": Strategy("Synchronous SGD, weights", "sync_sgd"),
    "sync_gradients": Strategy("Synchronous SGD, gradients", "sync_sgd", {"sync": "gradients"}),
    "hogwild": Strategy("Hogwild!", "hogwild"),
    "hogwild_locked": Strategy("Hogwild! with a lock", "hogwild", {"lock": True}),
}


def read_strategy(text: str) -> Strategy:
    """Return what a person wrote: a ready one's name, then maybe `:` and settings apart by `;`, before it maybe a name
    of its own and `=`.

    Raises ConfigError for what is no strategy.
    """
    head, _, tail = text.partition(":")
    title, found, name = head.rpartition("=")
    name = name.strip()
    if name not in READY:
        raise UnknownName("strategy", name, READY, field="strategies")
    ready = READY[name]
    own = checked_settings(ready, tail)
    told = ", ".join(part.strip() for part in tail.split(";") if part.strip())
    usual = f"{ready.name}, {told}" if told else ready.name
    return Strategy(title.strip() if found else usual, ready.experiment, {**ready.settings, **own})


def read_shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all share, each in its field's type; raises ConfigError for one that is not shared or
    breaks its rule.
    """
    for name in values:
        if name not in SHARED:
            raise UnknownName("setting that strategies share", name, SHARED, field="shared")
    config = experiment("sync_sgd").config  # it has all of them
    return {name: config.check_field(name, value) for name, value in values.items()}


def checked_settings(one: Strategy, text: str) -> dict[str, Any]:
    """Return settings written as `lock=true; trainers=2`, each in its field's type; raises ConfigError for one that is
    not the strategy's to give.
    """
    assert one.experiment in METHODS
    config = experiment(one.experiment).config
    own: dict[str, Any] = {}
    for name, value in read_settings(part for part in text.split(";") if part.strip()).items():
        if name in OF_THE_DUEL:
            raise ConfigError(
                [Problem("strategies", f"{one.name}: {name} can't be a strategy's own: {OF_THE_DUEL[name]}.")]
            )
        own[name] = config.check_field(name, value)
    return own
