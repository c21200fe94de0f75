"""The dialogs of the People page: another password for somebody, and the question before somebody is shut out."""

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import command
from engine.access import passwords
from engine.store import Person, Store

_TYPED = "people.typed"


def shown_once(name: str, password: str) -> None:
    """Show a password that was made, for an admin to hand over."""
    st.write(
        as_text(
            f"{name}'s password, shown this once. Hand it over where nobody else reads it; they can choose "
            "another one on their Account page."
        )
    )
    st.code(password, language=None)


@st.dialog("Set a password")
def ask_password(name: str) -> None:
    """Have a password made, or take one that is typed; the person is signed out everywhere."""
    st.write(as_text(f"{name} is signed out of every browser by it."))
    with st.form("people.password", border=False, clear_on_submit=True):
        typed = st.text_input(
            "Password",
            type="password",
            key=_TYPED,
            autocomplete="new-password",
            placeholder="empty: one is made, and shown once",
        )
        sent = st.form_submit_button("Set it", type="primary")
    if sent:
        _set(name, typed)


def _set(name: str, typed: str) -> None:
    made, who = "" if typed else passwords.made(), current_user.whoever()

    def change(store: Store) -> Person:
        return store.people.set_password(name, typed or made, by=who)

    if command(change) is not None:
        st.success(as_text(f"{name} has another password, and is signed out everywhere."))
        if made:
            shown_once(name, made)


@st.dialog("Shut somebody out?")
def ask_shut_out(name: str) -> None:
    """Ask once more, then let somebody in no more."""
    st.write(
        as_text(
            f"{name} is signed out at once and can't come in again, and the tokens of their scripts stop "
            "working for good."
        )
    )
    st.write("Their runs go on and stay, under their name. An admin can let them in again.")
    who = current_user.whoever()

    def shut_out(store: Store) -> Person:
        return store.people.shut_out(name, by=who)

    with st.container(horizontal=True):
        ordered = command(shut_out) if st.button("Shut out", type="primary", key="people.out.now") else None
        if ordered is not None:
            st.rerun()
        if st.button("Leave it"):
            st.rerun()
