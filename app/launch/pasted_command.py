"""The command of the launch form between two visits of a person: the text, folder and interpreter that are given, what
was read from them, and the values of its settings.

Nothing of it runs. Scripts are read only for people who may run commands: what a script holds is theirs.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from app.launch import sweep_form
from app.links.launch import CommandWish
from app.ui import config_form, current_user
from app.ui.store_access import reading
from engine.config_values import usual_values
from engine.errors import ConfigError, EngineError
from engine.experiment import Experiment
from engine.script.command import Command, Rendered, read_command
from engine.script.enrich import enriched
from engine.script.settings import definition_of
from engine.store.records import Run
from engine.store.scripts import Recipe

TEXT, FOLDER, PYTHON = "own.text", "own.folder", "own.python"
"""Keys of the fields; they keep their values while other pages are visited."""
GIVEN, READ, VALUES, SUGGESTED = "own.given", "own.read", "own.values", "own.python.suggested"


@dataclass(frozen=True)
class Given:
    """A command that a run or a recipe has; it stands while the fields are as it fills them."""

    command: Command
    name: str
    """The name that its runs have as their experiment."""
    changes: Mapping[str, Any]
    """Values that differ from those of the command."""
    cloned: int | None = None
    recipe: str = ""

    @property
    def text(self) -> str:
        """Return the command as a person would paste it."""
        return Rendered(list(self.command.argv), self.command.environment).text


@dataclass(frozen=True)
class Own:
    """The command of the form, with its settings."""

    command: Command
    definition: Experiment
    given: Given | None = None


def is_begun() -> bool:
    """Return whether a command is in the form."""
    return bool(st.session_state.get(TEXT))


def take(wish: CommandWish) -> tuple[str, ...]:
    """Fill the form from a link, which executes nothing; return a warning for each part that could not be applied."""
    try:
        given = _given(wish)
    except EngineError as error:
        return (str(error),)
    before = read()
    st.session_state[GIVEN] = given
    st.session_state.pop(READ, None)
    command = given.command if given else None
    if command:
        fill(given.text if given else "", command.folder, command.python)
    else:
        fill(wish.text, wish.folder or None, wish.python or None)
    if (own := read()) is None:
        return ()
    changes, sentences = dict(given.changes) if given else {}, []
    for name, text in wish.settings.items():
        try:
            changes |= {name: own.definition.config.check_field(name, text)}
        except EngineError as error:
            sentences.append(f"Link setting '{name[:80]}' ignored. {error}")
    _set_values(own, changes)
    fields, values = own.definition.config.model_fields, own.command.defaults() | changes
    over = {
        name: text or usual_values(own.definition.config, name, values)
        for name, text in (wish.sweep or {}).items()
        if name in fields
    }
    if over or wish.sweep == {}:
        sweep_form.start(own.definition, over, draws=wish.draws)
        sweep_form.resize(own.definition, wish.seeds, is_timed="timing" in wish.purposes)
    elif not wish.recipe or before is None or before.definition.name != own.definition.name:
        sweep_form.stop(own.definition)  # not where the command in the form was saved as this recipe
    return tuple(sentences)


def _given(wish: CommandWish) -> Given | None:
    if wish.clone is not None:
        with reading() as reader:
            run = reader.runs.one(wish.clone)
        return of_run(run)
    if wish.recipe:
        with reading() as reader:
            return of_recipe(reader.recipes.one(wish.recipe))
    return None


def of_run(run: Run) -> Given | None:
    """Return the command of a run with the values of its settings; None if it has none."""
    if run.command is None:
        return None
    known = {each.name for each in run.command.fields}
    changes = {name: value for name, value in run.config.items() if name in known}
    return Given(run.command, run.experiment, changes, run.id)


def of_recipe(recipe: Recipe) -> Given:
    """Return the command of a recipe, whose values are the defaults."""
    return Given(recipe.command, recipe.name, {}, recipe=recipe.name)


def fill(text: str, folder: str | None, python: str | None) -> None:
    """Put a command into the fields before they are drawn; None leaves a field as it is."""
    for key, value in ((TEXT, text), (FOLDER, folder), (PYTHON, python)):
        if value is not None:
            st.session_state[key] = value
    st.session_state[SUGGESTED] = st.session_state.get(PYTHON) if python is None else None


def read() -> Own | None:
    """Return the command of the fields with its settings; None if there is none, or it can't be read."""
    text, folder, python = (str(st.session_state.get(key) or "").strip() for key in (TEXT, FOLDER, PYTHON))
    given: Given | None = st.session_state.get(GIVEN)
    if not text:
        st.session_state.pop(READ, None)
        return None
    key = (text, folder, python)
    kept = st.session_state.get(READ)
    if kept is None or kept[0] != key or kept[3] != _written_at(kept[1]):
        before: Own | None = kept[1] if kept else None
        own, sentence = _own(text, folder, python, given)
        st.session_state[READ] = kept = (key, own, sentence, _written_at(own))
        if own:
            carry(before, own)
    own = kept[1]
    if own:
        _refill(own)
    return own


def _own(text: str, folder: str, python: str, given: Given | None) -> tuple[Own | None, str]:
    """Return the command of some fields, or why there is none."""
    is_same = given is not None and text == given.text
    if given and is_same and (folder, python) == (given.command.folder, given.command.python):
        return Own(given.command, definition_of(given.command, given.name), given), ""
    try:
        command = read_command(text, folder, python)
    except ConfigError as error:
        return None, error.problems[0].sentence
    if current_user.why_no_commands() is None:
        command = enriched(command)
    else:
        command = replace(command, why_not="Only people who may run commands can have its script read.")
    if given and is_same:
        command = replace(command, result=given.command.result, better=given.command.better)
    name = given.name if given and is_same else command.name
    return Own(command, definition_of(command, name), given if is_same else None), ""


def _written_at(own: Own | None) -> int:
    """Return when the script of a command was changed last; 0 if that is not to be known."""
    with suppress(OSError):
        if own and own.command.script and current_user.why_no_commands() is None:
            return Path(own.command.folder, own.command.script).stat().st_mtime_ns
    return 0


# ---- The values of the settings: they outlast a search, a folded section, and a visit to another page ----------------


def _set_values(own: Own, changes: Mapping[str, Any]) -> None:
    values = {name: config_form.as_typed(value) for name, value in (own.command.defaults() | dict(changes)).items()}
    st.session_state[VALUES] = values
    config_form.fill(own.definition, values)


def carry(before: Own | None, own: Own) -> None:
    """Give the fields of a command that was read again their values, with those that a person changed before."""
    held: Mapping[str, Any] = {}
    if before:
        _refill(before)
        held = config_form.values_of(before.definition)
    old = {each.name: each for each in before.command.fields} if before else {}
    carried = {
        each.name: held[each.name]
        for each in own.command.fields
        if (was := old.get(each.name)) and each.name in held and (was.type, was.default) == (each.type, each.default)
    }
    _set_values(own, (dict(own.given.changes) if own.given else {}) | carried)


def _refill(own: Own) -> None:
    """Give fields that weren't drawn their values, which Streamlit has forgotten."""
    held: Mapping[str, Any] = st.session_state.get(VALUES, {})
    for name, field in own.definition.config.model_fields.items():
        key = config_form.key_of(own.definition.name, name)
        if key not in st.session_state:
            st.session_state[key] = held.get(name, config_form.as_typed(field.default))


def recipe_chosen() -> str:
    """Return the recipe whose command the form has, "" if it has none."""
    own = read()
    return own.given.recipe if own and own.given else ""


def leave_recipe() -> None:
    """Keep the text of a recipe's command as the person's own."""
    st.session_state.pop(GIVEN, None)
    st.session_state.pop(READ, None)


def why_unread() -> str:
    """Return why the command of the fields can't be read; empty if it can."""
    read()
    kept = st.session_state.get(READ)
    return str(kept[2]) if kept else ""


def chosen_folder() -> str:
    """Return the folder that the command runs in: that of the field, or where a leading `cd` leads from there."""
    own = read()
    return own.command.folder if own else str(st.session_state.get(FOLDER) or "").strip()
