"""Links into the console: what a link to the launch form asks for, and the link that fills the form anew.

Whatever stands in a link may be nonsense: it gives a sentence, never an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from pydantic import TypeAdapter, ValidationError

from app.core.base_path import at
from engine.config import Config, choices_of
from engine.errors import ConfigError, UnknownName
from engine.experiment.definition import Experiment
from engine.registry import experiment

SEPARATOR = ":"
LAUNCH = "/launch"
"""The path of the launch form."""
ASKED = ("experiment", "preset", "set")
"""What a link to it can ask for."""


@dataclass(frozen=True)
class Wish:
    """What a link asks the form to hold; `sentences` say what of it could not be had."""

    experiment: str | None = None
    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()


def read_link(experiment_name: str | None, preset: str | None, settings: Sequence[str]) -> Wish:
    """Return what a link asks for, as far as it makes sense; a value out of bounds is kept, for the form to
    point at.
    """
    if not experiment_name:
        cure = (
            ("A link that fills the form names its experiment, such as ?experiment=hogwild.",)
            if preset or settings
            else ()
        )
        return Wish(sentences=cure)
    try:
        found = experiment(experiment_name)
    except UnknownName as error:
        return Wish(sentences=(str(error),))
    sentences: list[str] = []
    if preset:
        try:
            found.preset(preset)
        except UnknownName as error:
            sentences.append(str(error))
            preset = None
    changes: dict[str, Any] = {}
    for text in settings:
        try:
            changes |= _setting(found.config, text)
        except ConfigError as error:
            sentences.append(f"The link's setting '{text[:80]}' was left out. {error}")
    return Wish(found.name, preset, changes, tuple(sentences))


def changes_of(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` that differ from the preset's (the defaults without one)."""
    base = found.configure(preset).model_dump()
    return {name: value for name, value in values.items() if name in base and value != base[name]}


def launch_query(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return the query that fills the launch form with these values."""
    if preset not in found.presets:
        preset = None
    changes = changes_of(found, preset, values)
    query: dict[str, str | list[str]] = {"experiment": found.name}
    if preset:
        query["preset"] = preset
    if changes:
        query["set"] = [f"{name}{SEPARATOR}{'none' if value is None else value}" for name, value in changes.items()]
    return query


def as_path(path: str, query: Mapping[str, str | list[str]]) -> str:
    """Return the address of a page with its query."""
    return f"{at(path)}?{urlencode(query, doseq=True, safe=':')}"


def _setting(config: type[Config], text: str) -> dict[str, Any]:
    """Return one setting in its field's type; raises ConfigError where it has no such field or is of another type."""
    name, found, value = text.partition(SEPARATOR)
    name, value = name.strip(), value.strip()
    if found and name in config.model_fields:
        plain = None if value.lower() in ("none", "") else value
        try:
            value_of_kind = TypeAdapter(_kind_of(config, name)).validate_python(plain)
        except ValidationError:
            pass
        else:
            known = choices_of(config.model_fields[name])
            if not known or value_of_kind in known:
                return {name: value_of_kind}
    config.parse([text], separator=SEPARATOR)  # says in a sentence what is wrong
    return {}


def _kind_of(config: type[Config], name: str) -> Any:
    return config.model_fields[name].annotation
