"""The permissions of the current user as controls: enabled, or disabled with the reason as help. Display only: the
store enforces them.
"""

from collections.abc import Collection
from typing import TypedDict

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text


class Control(TypedDict):
    """Whether a control is disabled, and its help."""

    disabled: bool
    help: str | None


def control(
    command: str, owners: Collection[str] = (), *, what: str = "", help: str | None = None, disabled: bool = False
) -> Control:
    """Return the state of a control for a command on objects of `owners`; `help` and `disabled` apply to persons with
    the permission.
    """
    return off(current_user.why_not(command, owners, what), help=help, disabled=disabled)


def off(refusal: str | None, *, help: str | None = None, disabled: bool = False) -> Control:
    """Return the state of a control: disabled by a refusal, which is then its help."""
    return Control(disabled=disabled or refusal is not None, help=as_text(refusal) if refusal else help)


def say_whose(what: str, owner: str) -> None:
    """Show the owner of a run, sweep or duel whose controls are disabled, for people who can't hover over them."""
    here = current_user.standing()
    if here.may("cancel", [owner]):
        return
    allowed = "an admin" if owner == here.name else f"{owner} or an admin"
    if here.may("launch"):
        text = (
            f"{what} belongs to {owner}: you can view it, compare it and launch a similar one. Only {allowed} can "
            "stop, retry or edit it."
        )
    else:
        named = f"{what[:1].lower()}{what[1:]}"
        text = (
            f"You have the viewer role: you can view, compare and export {named}. Only {allowed} can stop, retry or "
            "edit it."
        )
    st.caption(as_text(text))
