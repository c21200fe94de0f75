"""Links to the launch form: reading one, and making the one that fills the form again.

An invalid part of a link gives a warning, never an error.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from pydantic import TypeAdapter, ValidationError

from app.links.addresses import is_run_id
from engine.config import Config, choices_of, is_fixed
from engine.config_values import value_in_words
from engine.errors import ConfigError, UnknownName
from engine.experiment import Experiment
from engine.launch_options import LaunchOptions
from engine.registry import experiment, known_experiment
from engine.script.command import Command, Rendered
from engine.store import Sweep
from engine.store.records import Run, RunRow
from engine.store.sweeps.sweeps import SEED

SEPARATOR = ":"
MOST_VARIED, MOST = 2, 10_000
"""Settings that a sweep's form varies, and the largest count of a link."""
LAUNCH = "/launch"
"""The path of the launch form."""
ASKED = (
    *("experiment", "preset", "set", "sweep", "seeds", "as", "draws", "clone", "on", "nodes"),
    *("command", "folder", "python", "recipe"),
)
"""The parameters of a link to it."""


@dataclass(frozen=True)
class Wish:
    """The content of the form from a link; `sentences` are warnings about ignored parts."""

    experiment: str | None = None
    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, str] | None = None
    """The settings of a sweep, whose form is then open, with their values as typed; empty text for the usual ones. No
    settings are repeats alone.
    """
    seeds: int = 3
    purposes: tuple[str, ...] = ()
    """Of the sweep: `timing`, `equal-work`."""
    draws: int = 0
    """Combinations of a random search; 0 for a grid."""
    clone: int | None = None
    """The run that the settings came from."""
    target: str | None = None
    """The cluster to run on, empty for this machine; None leaves the form's choice."""
    nodes: int = 1
    sentences: tuple[str, ...] = ()


def read_link(
    experiment_name: str | None,
    preset: str | None,
    settings: Sequence[str],
    sweep: Sequence[str] = (),
    clone: str | None = None,
    target: str | None = None,
    nodes: str | None = None,
    seeds: str | None = None,
    purposes: str | None = None,
    draws: str | None = None,
) -> Wish:
    """Return the valid parts of a link; a value out of bounds is kept, for the form to mark."""
    if not experiment_name:
        cure = (
            ("The link must name an experiment, such as ?experiment=hogwild.",) if preset or settings or sweep else ()
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
            sentences.append(f"Link setting '{text[:80]}' ignored. {error}")
    over = _varied(sweep)
    for name in [name for name in over if name not in found.config.model_fields]:
        sentences.append(f"Link parameter sweep must be a setting of {found.name}, got '{name[:80]}'; ignored.")
        del over[name]
    return Wish(
        found.name,
        preset,
        changes,
        over if over or _repeats(sweep, seeds, purposes) else None,
        _count(seeds, 3),
        tuple((purposes or "").split(",")),
        _count(draws, 0),
        int(clone) if clone and is_run_id(clone) else None,
        "" if clone and target is None else target,
        max(1, _count(nodes, 1)),
        tuple(sentences),
    )


@dataclass(frozen=True)
class CommandWish:
    """The content of the form of a person's own command from a link, which executes nothing."""

    text: str = ""
    folder: str = ""
    python: str = ""
    recipe: str = ""
    clone: int | None = None
    """The run whose command and settings it takes."""
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Values by setting, as texts."""
    sweep: Mapping[str, str] | None = None
    """The settings of a sweep, as in `Wish`."""
    seeds: int = 1
    purposes: tuple[str, ...] = ()
    draws: int = 0
    target: str | None = None
    nodes: int = 1


def read_command_link(query: Mapping[str, Sequence[str]]) -> CommandWish | None:
    """Return what a link asks of the form of a person's own command; None for a link to an experiment."""
    one = {name: values[0] for name, values in query.items() if values}
    clone = one.get("clone", "")
    if "experiment" in one or not (one.keys() & {"command", "recipe"} or is_run_id(clone)):
        return None
    pairs = (text.partition(SEPARATOR) for text in query.get("set", ()))
    swept, nodes = query.get("sweep", ()), one.get("nodes", "")
    return CommandWish(
        one.get("command", ""),
        one.get("folder", ""),
        one.get("python", ""),
        one.get("recipe", ""),
        int(clone) if is_run_id(clone) else None,
        {name.strip(): None if value == "none" else value for name, found, value in pairs if found},
        _varied(swept) if swept or _repeats(swept, one.get("seeds"), one.get("as")) else None,
        _count(one.get("seeds"), 1),
        tuple(one.get("as", "").split(",")),
        _count(one.get("draws"), 0),
        "" if clone and "on" not in one else one.get("on"),
        max(1, int(nodes)) if is_run_id(nodes) else 1,
    )


def command_query(
    command: Command, values: Mapping[str, Any], base: Mapping[str, Any], recipe: str = "", clone: int | None = None
) -> dict[str, str | list[str]]:
    """Return the query that fills the form with a command and its settings, as changes of `base`; the recipe or the run
    that it is from by name, else its text.
    """
    query: dict[str, str | list[str]]
    if recipe or clone is not None:
        query = {"recipe": recipe} if recipe else {"clone": str(clone)}
    else:
        query = {"command": Rendered(list(command.argv), command.environment).text, "folder": command.folder}
        query |= {"python": command.python} if command.python else {}
    changed = {name: value for name, value in values.items() if name in base and value != base[name]}
    texts = {name: shlex.join(map(str, value)) if isinstance(value, list) else value for name, value in changed.items()}
    if texts:
        query["set"] = [f"{name}{SEPARATOR}{'none' if text is None else text}" for name, text in texts.items()]
    return query


def _varied(texts: Sequence[str]) -> dict[str, str]:
    return {name: text for name, _, text in (each.partition(SEPARATOR) for each in texts[:MOST_VARIED])}


def _repeats(swept: Sequence[str], seeds: str | None, purposes: str | None) -> bool:
    """Return whether a link asks for a sweep that varies nothing but the seed."""
    return not swept and bool(seeds or purposes)


def _count(text: str | None, otherwise: int) -> int:
    return min(int(text), MOST) if text and is_run_id(text) else otherwise


def changes_of(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` that differ from the preset's (the defaults without one)."""
    base, fields = found.configure(preset).model_dump(), found.config.model_fields
    return {
        name: value
        for name, value in values.items()
        if name in base and value != base[name] and not is_fixed(fields[name])
    }


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


def clone_query(run: Run | RunRow) -> dict[str, str | list[str]]:
    """Return the query that fills the launch form with a run's settings, as changes of its preset or the nearest one.

    Raises UnknownName for an experiment that this version doesn't have.
    """
    if run.command_id is not None:
        return {"clone": str(run.id)} | target_query(run)
    return _of_run(run, run.config) | {"clone": str(run.id)} | target_query(run)


def sweep_query(sweep: Sweep, run: RunRow) -> dict[str, str | list[str]]:
    """Return the query that fills the launch form with a sweep like this one, of which `run` is one.

    Raises UnknownName for an experiment that this version doesn't have.
    """
    first = {SEED: sweep.seeds[0]} if sweep.seeds else {}
    texts = sweep.draw.over if sweep.draw else {name: _typed(sweep.grid[name]) for name in sweep.fields}
    purposes = [*(["timing"] if sweep.timing else []), *(["equal-work"] if sweep.equal_work else [])]
    if run.command_id is not None:
        shared: dict[str, str | list[str]] = {"clone": str(run.id)}
    else:
        shared = _of_run(run, {**run.config, **first, **sweep.equal_work})
    return (
        shared
        | {"sweep": [f"{name}{SEPARATOR}{text}" for name, text in texts.items()]}
        | ({} if sweep.timing else {"seeds": str(len(sweep.seeds) or 1)})
        | ({"as": ",".join(purposes)} if purposes else {})
        | ({"draws": str(sweep.draw.count)} if sweep.draw else {})
        | target_query(run)
    )


def _typed(values: Sequence[Any]) -> str:
    return ", ".join(map(value_in_words, values))


def _of_run(run: Run | RunRow, values: Mapping[str, Any]) -> dict[str, str | list[str]]:
    found = known_experiment(run.experiment) or experiment(run.experiment)
    nearest = min(found.presets, key=lambda preset: len(changes_of(found, preset, values)), default=None)
    return launch_query(found, run.preset or nearest, values)


def target_query(at: LaunchOptions | Run | RunRow) -> dict[str, str | list[str]]:
    """Return the part of a query that chooses where to run; empty for this machine."""
    nodes: dict[str, str | list[str]] = {"nodes": str(at.nodes)} if at.nodes > 1 else {}
    return {"on": at.target, **nodes} if at.target else {}


def as_path(path: str, query: Mapping[str, str | list[str]]) -> str:
    """Return the path of a page with its query."""
    return f"{path}?{urlencode(query, doseq=True, safe=':')}"


def _setting(config: type[Config], text: str) -> dict[str, Any]:
    """Return one setting in its field's type. Raises ConfigError for an unknown field or another type."""
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
    config.parse([text], separator=SEPARATOR)  # raises with the message
    return {}


def _kind_of(config: type[Config], name: str) -> Any:
    return config.model_fields[name].annotation
