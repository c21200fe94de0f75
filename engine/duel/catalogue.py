"""Predefined strategies by short name, and the syntax for custom ones: `hogwild`, `async_sgd:rule=plain`,
`Locked=hogwild:lock=true`.
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
    """Return the predefined strategies by short name, in the order of the experiment table."""
    return {
        short: Strategy(each.title, name, each.settings)
        for name in methods()
        for short, each in contender(name).strategies.items()
    }


def read_strategy(text: str) -> Strategy:
    """Parse `[title=]name[:setting=value; ...]`, where `name` is a predefined strategy; raises ConfigError."""
    head, _, tail = text.partition(":")
    title, found, name = head.rpartition("=")
    name = name.strip()
    offered = ready()
    if name not in offered:
        raise UnknownName("strategy", name, offered, field="strategies")
    base = offered[name]
    own = checked_settings(base, tail)
    settings = ", ".join(part.strip() for part in tail.split(";") if part.strip())
    usual = f"{base.name}, {settings}" if settings else base.name
    return Strategy(title.strip() if found else usual, base.experiment, {**base.settings, **own})


def shared_fields() -> Mapping[str, FieldInfo]:
    """Return the shared fields, from the first experiment that has all of them."""
    return _shared_config().model_fields


def read_shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared settings, with their fields' types; raises ConfigError for an unknown or invalid one."""
    for name in values:
        if name not in SHARED:
            raise UnknownName("shared setting", name, SHARED, field="shared")
    config = _shared_config()
    return {name: config.check_field(name, value) for name, value in values.items()}


def checked_settings(one: Strategy, text: str) -> dict[str, Any]:
    """Parse `lock=true; trainers=2` into values of their fields' types; raises ConfigError for a setting that the duel
    controls.
    """
    config, barred = experiment(one.experiment).config, of_the_duel()
    own: dict[str, Any] = {}
    for name, value in read_settings(part for part in text.split(";") if part.strip()).items():
        if name in barred:
            raise ConfigError([Problem("strategies", f"{one.name}: {name} can't be set per strategy: {barred[name]}.")])
        own[name] = config.check_field(name, value)
    return own


def _shared_config() -> type[Config]:
    configs = [experiment(name).config for name in methods()]
    return next(config for config in configs if set(SHARED) <= set(config.model_fields))
