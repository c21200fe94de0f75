"""Recipes on the launch form: what one is, the button that hides it, and the form that saves a command as one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from app.links import addresses
from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import command as store_command
from app.ui.store_access import reading
from engine.metrics import DIRECTIONS
from engine.script.command import Command, read_command
from engine.script.enrich import enriched
from engine.store import Store
from engine.store.scripts import Recipe


def recipe_in_words(recipe: Recipe) -> str:
    """Return what a recipe is, for the list."""
    return f"Version {recipe.version}{': ' if recipe.description else ''}{recipe.description.partition('. ')[0][:80]}"


def about_recipe(name: str) -> bool:
    """Say what a recipe is, with the button that takes it from the list; return whether that was done."""
    with reading() as reader:
        recipe = reader.recipes.one(name)
    with st.container(horizontal=True, vertical_alignment="center"):
        about = f"Recipe {recipe.name}, version {recipe.version}, saved by {recipe.created_by}. {recipe.description}"
        st.caption(as_text(about), width="stretch")
        allowed = current_user.control(
            *("hide recipe", [recipe.created_by]),
            what=f"Recipe {recipe.name}",
            help="Takes it from this list. Its runs stay, and it can be shown again on the command line.",
        )
        return st.button("Hide", key="own.hide", **allowed) and _hidden(recipe.name)


def _hidden(name: str) -> bool:
    def hide(store: Store) -> bool:
        store.recipes.hide(name, by=current_user.whoever())
        return True

    return bool(store_command(hide))


def save_form(command: Command, values: Mapping[str, Any], recipe: str = "") -> None:
    """Show the button that saves a command with these values for the lab; `recipe` is the one that it is from."""
    refusal = current_user.why_not("launch") or current_user.why_no_commands()
    with st.popover("Save as recipe", icon=":material/receipt_long:", **current_user.off(refusal)):
        st.caption(
            "Everyone in this lab finds a recipe in the list. Saving a change under the same name makes the next "
            "version."
        )
        name = st.text_input("Name", value=recipe or Path(command.name).stem, key=f"own.recipe.{command.name}")
        description = st.text_area("Description", key="own.recipe.description", height=70, max_chars=2_000)
        with reading() as reader:
            result, usual = reader.recipes.ranking_of(command.identity(recipe or command.name))
        if command.result:
            result, usual = command.result, command.better
        ranked, direction = st.columns(2)
        metric = ranked.text_input(
            "Ranking metric",
            value=result,
            key=f"own.recipe.metric.{command.name}",
            placeholder="e.g. val/accuracy",
            help="The recorded metric by which its runs are ranked.",
        )
        options: list[Literal["max", "min"]] = ["max", "min"]
        better: Literal["max", "min"] = direction.segmented_control(
            *("Direction", options),
            default="min" if usual == "min" else "max",
            format_func=DIRECTIONS.__getitem__,
            key=f"own.recipe.better.{command.name}",
            required=True,
        )
        if st.button("Save recipe", type="primary", key="own.recipe.save"):
            kept = _with_defaults(command, values)
            kept = replace(kept, result=metric.strip(), better=better if metric.strip() else "")
            _keep(name.strip(), kept, description)


def _keep(name: str, kept: Command, description: str) -> None:
    """Save a command as a recipe under the person's name, and show its form."""
    current_user.require_name(partial(_keep, name, kept, description))

    def save(store: Store) -> int:
        return store.recipes.save(name, kept, by=current_user.whoever(), description=description)

    if version := store_command(save):
        st.toast(as_text(f"Recipe {name} is saved: version {version}."))
        addresses.replace({"recipe": name})
        st.rerun()


def _with_defaults(command: Command, values: Mapping[str, Any]) -> Command:
    """Return a command with these values as its own."""
    if all(each.is_default(values[each.name]) for each in command.fields):
        return command
    return enriched(read_command(command.rendered(values).text, command.folder, command.python))
