"""What the person at this browser may do, as controls show it: on, or off with the reason as its help. The store holds
the rule; this only shows it.
"""

from collections.abc import Collection
from typing import TypedDict

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text


class Control(TypedDict):
    """Whether a control is off, and what it says on hover."""

    disabled: bool
    help: str | None


def control(
    command: str, owners: Collection[str] = (), *, what: str = "", help: str | None = None, disabled: bool = False
) -> Control:
    """Return how a control stands that gives a command to what belongs to `owners`; `help` and `disabled` are for those
    who may give it.
    """
    return off(current_user.why_not(command, owners, what), help=help, disabled=disabled)


def off(refusal: str | None, *, help: str | None = None, disabled: bool = False) -> Control:
    """Return how a control stands, where there is a refusal off with that as its help."""
    return Control(disabled=disabled or refusal is not None, help=as_text(refusal) if refusal else help)


def say_whose(what: str, owner: str) -> None:
    """Say in a line whose the run, sweep or duel is whose controls are off, for those who can't rest a pointer on them;
    nothing where they are on.
    """
    here = current_user.standing()
    if here.may("cancel", [owner]):
        return
    whom = "an admin" if owner == here.name else f"{owner} or an admin"
    if here.may("launch"):
        said = (
            f"{what} is {owner}'s: you can look at it, compare it and launch the like. To stop, retry or edit it "
            f"takes {whom}."
        )
    else:
        named = f"{what[:1].lower()}{what[1:]}"
        said = (
            f"You are here as a viewer: you can look at {named}, compare and export it. To stop, retry or edit it "
            f"takes {whom}."
        )
    st.caption(as_text(said))
