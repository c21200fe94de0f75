"""The forms that add an account, or one for each name of a list; passwords are typed, or generated and shown once."""

import streamlit as st

from app.people.dialogs import show_sheet, shown_once
from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import give, say_trouble
from engine.access import passwords
from engine.access.rules import ROLE_WORDS, ROLES
from engine.commands.accounts import MOST, Slip, from_list
from engine.errors import ConfigError, Problem
from engine.store import Store
from engine.store.access.people import EMAIL_LENGTH, NAME_LENGTH

_NAME, _ROLE, _EMAIL, _PASSWORD, _PROVIDER, _ADDED = (
    f"people.add.{each}" for each in ("name", "role", "email", "password", "provider", "done")
)

_NAMES, _LIST_ROLE, _SLIPS = (f"people.list.{each}" for each in ("names", "role", "done"))


def adding_list() -> None:
    """Show the collapsed form for a list of names; the passwords of its result are slips to print."""
    with st.expander("Add accounts from a list"), st.form("people.list", border=False):
        st.text_area(
            "Names",
            key=_NAMES,
            placeholder="Ada Lovelace\nMo, mo@lab.org",
            help=f"At most {MOST} lines: a name, or a name, a comma and an e-mail address. All are added, or none.",
        )
        st.selectbox("Role of all", ROLES, index=1, key=_LIST_ROLE)
        st.form_submit_button("Add all", type="primary", on_click=_add_list)
        say_trouble(_NAMES)
    if slips := st.session_state.pop(_SLIPS, None):
        show_sheet(slips)


def _add_list() -> None:
    """Add the people before the page reruns; only the browser keeps the passwords then."""
    who, role = current_user.whoever(), st.session_state[_LIST_ROLE]

    made: list[Slip] = []

    def add(store: Store) -> None:
        people, slips = from_list(st.session_state[_NAMES])
        names = store.people.add_all(people, role, by=who)
        made.extend(Slip(name, slip.password) for name, slip in zip(names, slips, strict=True))

    if give(add, _NAMES):
        st.session_state[_SLIPS] = made
        st.session_state[_NAMES] = ""


def adding() -> None:
    """Show the collapsed form and its result."""
    with st.expander("Add account"), st.form("people.add", border=False):
        left, right = st.columns(2, gap="medium")
        with left:
            st.text_input(
                "Name",
                key=_NAME,
                max_chars=NAME_LENGTH,
                help="User name, and owner of the runs they launch. Names are unique and never reused.",
            )
            words = "; ".join(f"{role}: {words}" for role, words in ROLE_WORDS.items())
            st.selectbox("Role", ROLES, index=1, key=_ROLE, help=as_text(f"{words}."))
        with right:
            st.text_input(
                "E-mail",
                key=_EMAIL,
                max_chars=EMAIL_LENGTH,
                placeholder="optional",
                help="Links the account to the provider sign-in with this verified address.",
            )
            st.text_input(
                "Password",
                type="password",
                key=_PASSWORD,
                autocomplete="new-password",
                placeholder="leave empty to generate one",
            )
        st.toggle("OpenID sign-in only (no password)", key=_PROVIDER)
        st.form_submit_button("Add", type="primary", on_click=_add)
        say_trouble(_NAME)
    if (added := st.session_state.pop(_ADDED, None)) is not None:
        name, role, made = added
        st.success(as_text(f"Account {name} added with role {role}."))
        if made:
            shown_once(name, made)


def _add() -> None:
    """Add the person before the page reruns, and clear the typed password."""
    name, role, email, typed = (str(st.session_state.get(each) or "") for each in (_NAME, _ROLE, _EMAIL, _PASSWORD))
    at_provider, who = bool(st.session_state.get(_PROVIDER)), current_user.whoever()
    st.session_state[_PASSWORD] = ""
    made = "" if typed or at_provider else passwords.made()

    def add(store: Store) -> None:
        if at_provider and not email.strip():
            raise ConfigError(
                [
                    Problem(
                        "email",
                        (
                            "email is required for an account without a password: the provider's verified address "
                            "identifies the person."
                        ),
                    )
                ]
            )
        kept = store.people.add(name, role, by=who, password=None if at_provider else typed or made, email=email)  # type: ignore[arg-type]
        st.session_state[_ADDED] = (kept, role, made)

    if give(add, _NAME):
        st.session_state[_NAME] = st.session_state[_EMAIL] = ""
