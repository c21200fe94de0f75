"""The dialogs of the People page: set a password, and disable an account."""

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import command
from engine.access import passwords
from engine.store import Person, Store

_TYPED = "people.typed"


def shown_once(name: str, password: str) -> None:
    """Show a generated password, for an admin to hand over."""
    st.write(
        as_text(
            f"Password of {name}, shown only once. Send it through a private channel; it can be changed on the "
            "Account page."
        )
    )
    st.code(password, language=None)


@st.dialog("Set password")
def ask_password(name: str) -> None:
    """Set a typed or generated password; the person is signed out everywhere."""
    st.write(as_text(f"This signs {name} out of all browsers."))
    with st.form("people.password", border=False, clear_on_submit=True):
        typed = st.text_input(
            "Password",
            type="password",
            key=_TYPED,
            autocomplete="new-password",
            placeholder="leave empty to generate one",
        )
        sent = st.form_submit_button("Set password", type="primary")
    if sent:
        _set(name, typed)


def _set(name: str, typed: str) -> None:
    made, who = "" if typed else passwords.made(), current_user.whoever()

    def change(store: Store) -> Person:
        return store.people.set_password(name, typed or made, by=who)

    if command(change) is not None:
        st.success(as_text(f"Password of {name} changed. All their browsers are signed out."))
        if made:
            shown_once(name, made)


@st.dialog("Disable this account?")
def ask_shut_out(name: str) -> None:
    """Confirm, then disable an account."""
    st.write(
        as_text(f"{name} is signed out immediately and can't sign in again. Their API tokens are revoked permanently.")
    )
    st.write("Their runs continue and stay under their name. An admin can enable the account again.")
    who = current_user.whoever()

    def shut_out(store: Store) -> Person:
        return store.people.shut_out(name, by=who)

    with st.container(horizontal=True):
        ordered = command(shut_out) if st.button("Disable account", type="primary", key="people.out.now") else None
        if ordered is not None:
            st.rerun()
        if st.button("Keep enabled"):
            st.rerun()
