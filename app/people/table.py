"""The accounts on the People page: role, sign-in method, last activity, usage, and the actions of admins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from app.core.formatting import size
from app.people.account import ways
from app.people.dialogs import DONE, ask_disable, ask_email, ask_password, ask_quotas
from app.ui import current_user, dialogs
from app.ui.html import as_text, block, fact_row, strong, when
from app.ui.store_access import command, reading
from app.ui.widgets import Colour
from engine.access.confusables import sort_key
from engine.access.quotas import BOUNDS, Value
from engine.access.rules import ROLES, Role
from engine.errors import counted
from engine.home import Home
from engine.queue.forecast import limits_of
from engine.store import Person, Reader, Store
from engine.store.access.quotas import Holding

COLOURS: dict[Role, Colour] = {"viewer": "gray", "member": "blue", "admin": "violet"}
NAMED, LEAST_BYTES = 20, 100_000
_ASKS = "people.asks"


@dataclass(frozen=True)
class Known:
    """Usage and activity by person."""

    holdings: Mapping[str, Holding]
    bytes: Mapping[str, int]
    seen: Mapping[str, str]
    quotas: Mapping[str, Mapping[str, Value]]
    """The individual quotas."""


def disk(reader: Reader) -> Mapping[str, int]:
    """Return the bytes of each owner's runs, by which quotas are checked: folders, points and texts in the store."""
    return {held.person: held.disk_bytes for held in reader.quotas.all_held()}


def open_asked() -> None:
    """Open the requested dialog, and say what the last one did."""
    if done := st.session_state.pop(DONE, None):
        st.toast(done)
    if asked := st.session_state.pop(_ASKS, None):
        which, name = asked
        dialogs.open_soon(_ASKED[which], name)


def searched(people: Sequence[Person]) -> list[Person]:
    """Show the search and the quotas of everyone; return the people found by name, e-mail or role."""
    with st.container(horizontal=True, vertical_alignment="center"):
        text = st.text_input(
            "Search accounts",
            key="people.search",
            placeholder="Search by name, e-mail or role",
            label_visibility="collapsed",
        )
        st.button("Quotas for everyone", key="people.quotas.all", on_click=_ask, args=("quotas", ""))
    st.caption("On disk: folders, points and texts of a person's runs, as quotas count them.")
    words = text.casefold().split()
    found = [
        one
        for one in people
        if all(word in f"{one.name} {one.email}".casefold() or one.role.startswith(word) for word in words)
    ]
    if words:
        st.caption(f"{len(found):,} of {counted(len(people), 'account')}")
    return found


def own_quotas() -> Mapping[str, Mapping[str, Value]]:
    """Return the individual quotas; none while their file can't be read, which the dialog reports."""
    return limits_of(Home.find()).people


def entry(one: Person, known: Known) -> None:
    """Show one person."""
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(block("pl-said", strong(one.name)), width="stretch")
            st.badge(one.role, color=COLOURS[one.role])
            for permission in one.granted:
                st.badge(permission, color="orange")
            if not one.active:
                st.badge("disabled", color="red")
            st.button("Change", key=f"people.change.{one.id}", on_click=_ask, args=("change", one.name))
        st.html(fact_row(_facts(one, known)))


def strangers(people: Sequence[Person], known: Known) -> None:
    """List run owners without an account: from before accounts existed, or imported."""
    names = {one.name for one in people}
    found = [
        f"{owner} ({held.runs:,})"
        for owner, held in sorted(known.holdings.items(), key=lambda item: sort_key(item[0]))
        if owner not in names
    ]
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        st.caption(
            as_text(
                f"Run owners without an account (number of runs): {', '.join(found[:NAMED])}{more}. Only admins can "
                "change these runs."
            )
        )


def are_ending(people: Sequence[Person], known: Known) -> bool:
    """Return whether disabled people still have running runs, which someone may have cancelled just now."""
    return any(one.name in known.holdings and known.holdings[one.name].on for one in people if not one.active)


def _facts(one: Person, known: Known) -> list[str]:
    """Return the facts about a person, as HTML."""
    seen, held = known.seen.get(one.name), known.holdings.get(one.name, Holding(0, 0, 0))
    active = [
        f"{held.on - held.stopping} running" if held.on > held.stopping else "",
        f"{held.stopping} stopping" if held.stopping else "",
        f"{held.queued} queued" if held.queued else "",
    ]
    last = "last request " + when(seen) if seen else "no request yet"
    if one.name == current_user.name():  # the store has it to the minute
        last = "last request now"
    now_on, bytes_ = ", ".join(filter(None, active)), known.bytes.get(one.name, 0)
    return [
        f"sign-in: {ways(one)}",
        last,
        f"{counted(held.runs, 'run')} in total{f' ({now_on})' if now_on else ''}",
        *([f"own quota: {_quota(known.quotas[one.name])}"] if one.name in known.quotas else []),
        *([f"{size(bytes_)} on disk"] if bytes_ >= LEAST_BYTES else []),
        *([one.email] if one.email else []),
        "created " + when(one.created_at) + f" by {one.created_by}",
        *(["disabled " + when(one.disabled_at)] if one.disabled_at else []),
    ]


def _quota(own: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{BOUNDS[field].words} {'without limit' if value is None else f'{value:,g}'}"
        f"{f' {BOUNDS[field].unit}' if BOUNDS[field].unit and value is not None else ''}"
        for field, value in own.items()
    )


@st.dialog("Change account")
def ask_change(name: str) -> None:
    """Show an admin's actions on an account; a dialog fits any window, a menu at the lower edge does not."""
    with reading() as reader:
        one = reader.people.one(name)
    st.caption(as_text(f"{one.name}, {one.role}"))
    for role in ROLES:
        if role != one.role:
            _button(one, f"Make {'an' if role == 'admin' else 'a'} {role}", _giving(one.name, role), f"is {role} now")
    if one.role == "member":
        _permission_button(one)
    _dialog_button("E-mail address", "email", one)
    _dialog_button("Quotas", "quotas", one)
    if one.name == current_user.name():
        st.caption("This is your account: change your password and browsers on the Account page.")
        return
    _dialog_button("Set password", "password", one)
    _button(
        one,
        "Sign out everywhere",
        lambda store, who: store.people.end_sign_ins(one.name, by=who),
        "is signed out everywhere",
    )
    if one.active:
        _dialog_button("Disable account", "disable", one)
    else:
        _button(one, "Enable account", lambda store, who: store.people.enable(one.name, by=who), "can sign in again")


def _permission_button(one: Person) -> None:
    """Show the button that grants or revokes the permission to run commands."""
    if one.granted:
        _button(
            one,
            "Revoke running commands",
            lambda store, who: store.people.forbid(one.name, "run commands", by=who),
            "may not run commands any more",
        )
    else:
        _button(
            one,
            "Allow running commands",
            lambda store, who: store.people.allow(one.name, "run commands", by=who),
            "may run commands now",
        )


def _dialog_button(label: str, which: str, one: Person) -> None:
    """Show a button that opens another dialog instead."""
    if st.button(label, key=f"people.{which}.{one.id}", width="stretch"):
        _ask(which, one.name)
        st.rerun()


def _giving(name: str, role: Role) -> Callable[[Store, str], Person]:
    return lambda store, who: store.people.set_role(name, role, by=who)


def _button(one: Person, label: str, order: Callable[[Store, str], object], said: str) -> None:
    """Show the button of a store command; the dialog closes, or shows the error."""
    if not st.button(label, key=f"people.{label}.{one.id}", width="stretch"):
        return
    who = current_user.whoever()

    def given(store: Store) -> bool:
        order(store, who)
        return True

    if command(given):
        st.session_state[DONE] = f"{as_text(one.name)} {said}."
        st.rerun()


def _ask(which: str, name: str) -> None:
    st.session_state[_ASKS] = (which, name)


_ASKED: dict[str, Callable[..., None]] = {
    "change": ask_change,
    "email": ask_email,
    "password": ask_password,
    "disable": ask_disable,
    "quotas": ask_quotas,
}
