"""The form that gives somebody an account; a password is made and shown once, or typed."""

import streamlit as st

from app.people.dialogs import shown_once
from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import command
from engine.access import passwords
from engine.access.rules import ROLE_WORDS, ROLES
from engine.errors import ConfigError, Problem
from engine.store import Store
from engine.store.access.people import EMAIL_LENGTH, NAME_LENGTH

_NAME, _ROLE, _EMAIL, _PASSWORD, _PROVIDER, _ADDED = (
    f"people.add.{each}" for each in ("name", "role", "email", "password", "provider", "done")
)


def adding() -> None:
    """Show the form, folded, and what came of it."""
    with st.expander("Add somebody"), st.form("people.add", border=False):
        left, right = st.columns(2, gap="medium")
        with left:
            st.text_input(
                "Name",
                key=_NAME,
                max_chars=NAME_LENGTH,
                help="What they go by, and the owner of what they launch. It is never given twice.",
            )
            words = "; ".join(f"{role}: {words}" for role, words in ROLE_WORDS.items())
            st.selectbox("Role", ROLES, index=1, key=_ROLE, help=as_text(f"{words}."))
        with right:
            st.text_input(
                "E-mail",
                key=_EMAIL,
                max_chars=EMAIL_LENGTH,
                placeholder="may be empty",
                help="Who signs in at the provider with it is this person.",
            )
            st.text_input(
                "Password",
                type="password",
                key=_PASSWORD,
                autocomplete="new-password",
                placeholder="empty: one is made, and shown once",
            )
        st.toggle("Signs in at the lab's OpenID provider, without a password here", key=_PROVIDER)
        st.form_submit_button("Add", type="primary", on_click=_add)
    if (added := st.session_state.pop(_ADDED, None)) is not None:
        name, role, made = added
        st.success(as_text(f"{name} has an account as {role}."))
        if made:
            shown_once(name, made)


def _add() -> None:
    """Add the person before the page runs again, and forget the password that was typed."""
    name, role, email, typed = (str(st.session_state.get(each) or "") for each in (_NAME, _ROLE, _EMAIL, _PASSWORD))
    at_provider, who = bool(st.session_state.get(_PROVIDER)), current_user.whoever()
    st.session_state[_PASSWORD] = ""
    made = "" if typed or at_provider else passwords.made()

    def add(store: Store) -> str:
        if at_provider and not email.strip():
            raise ConfigError(
                [
                    Problem(
                        "email",
                        (
                            "Somebody without a password is known by the address that the provider vouches for: "
                            "give their e-mail."
                        ),
                    )
                ]
            )
        return store.people.add(name, role, by=who, password=None if at_provider else typed or made, email=email)  # type: ignore[arg-type]

    if (kept := command(add)) is not None:
        st.session_state[_ADDED] = (kept, role, made)
        st.session_state[_NAME] = st.session_state[_EMAIL] = ""
