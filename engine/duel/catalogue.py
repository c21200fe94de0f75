"""Strategies to choose from by a short name, and how a person writes one of their own: `hogwild`,
`async_sgd:rule=plain`, `Locked=hogwild:lock=true`.
"""

from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from engine.config import Config, read_settings
from engine.duel.methods import contender, methods
from engine.duel.spec import SHARED, Strategy, of_the_duel
from engine.errors import ConfigError, Problem, UnknownName
from engine.registry import experiment


def ready() -> dict[str, Strategy]:
    """Return the strategies that are offered, by short name, in the order of the table of experiments."""
    return {
        short: Strategy(each.title, name, each.settings)
        for name in methods()
        for short, each in contender(name).strategies.items()
    }


def read_strategy(text: str) -> Strategy:
    """Return what a person wrote: a ready one's name, then maybe `:` and settings apart by `;`, before it maybe a name
    of its own and `=`.

    Raises ConfigError for what is no strategy.
    """
    head, _, tail = text.partition(":")
    title, found, name = head.rpartition("=")
    name = name.strip()
    offered = ready()
    if name not in offered:
        raise UnknownName("strategy", name, offered, field="strategies")
    base = offered[name]
    own = checked_settings(base, tail)
    told = ", ".join(part.strip() for part in tail.split(";") if part.strip())
    usual = f"{base.name}, {told}" if told else base.name
    return Strategy(title.strip() if found else usual, base.experiment, {**base.settings, **own})


def shared_fields() -> Mapping[str, FieldInfo]:
    """Return the fields that all strategies share, as the first experiment has them that has all."""
    return _shared_config().model_fields


def read_shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all share, each in its field's type; raises ConfigError for one that is not shared or
    breaks its rule.
    """
    for name in values:
        if name not in SHARED:
            raise UnknownName("setting that strategies share", name, SHARED, field="shared")
    config = _shared_config()
    return {name: config.check_field(name, value) for name, value in values.items()}


def checked_settings(one: Strategy, text: str) -> dict[str, Any]:
    """Return settings written as `lock=true; trainers=2`, each in its field's type; raises ConfigError for one that is
    not the strategy's to give.
    """
    config, barred = experiment(one.experiment).config, of_the_duel()
    own: dict[str, Any] = {}
    for name, value in read_settings(part for part in text.split(";") if part.strip()).items():
        if name in barred:
            raise ConfigError([Problem("strategies", f"{one.name}: {name} can't be a strategy's own: {barred[name]}.")])
        own[name] = config.check_field(name, value)
    return own


def _shared_config() -> type[Config]:
    configs = [experiment(name).config for name in methods()]
    return next(config for config in configs if set(SHARED) <= set(config.model_fields))
