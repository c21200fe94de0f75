"""API tokens of a person: create, show once, list, revoke."""

from collections.abc import Sequence

import streamlit as st

from app.ui.html import as_text, entry, strong, when
from app.ui.store_access import command, give, say_trouble
from engine.access.rules import ROLES
from engine.store import Person, Store
from engine.store.access.sign_ins import TOKEN_DAYS, Scope, Token
from engine.store.timestamps import now

SCOPES: dict[Scope, str] = {
    "read": "read: view runs and series",
    "launch": "launch: read, and launch runs in your name",
}
USUAL_DAYS = 90
_NAME, _SCOPE, _DAYS, _MADE = "account.token.name", "account.token.scope", "account.token.days", "account.token.made"


def tokens(me: Person, found: Sequence[Token]) -> None:
    """Show the form, the token just created, and the list of tokens."""
    scopes: list[Scope] = ["read", "launch"] if ROLES.index(me.role) >= ROLES.index("member") else ["read"]
    with st.form("account.token", border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input("Purpose", key=_NAME, max_chars=60, placeholder="nightly report")
            st.selectbox("Scope", scopes, key=_SCOPE, format_func=SCOPES.__getitem__, width=320)
            st.number_input(
                "Valid for (days)", min_value=1, max_value=TOKEN_DAYS, value=USUAL_DAYS, step=1, key=_DAYS, width=140
            )
        st.form_submit_button("Create token", on_click=_make, args=(me.name,))
        say_trouble(_NAME)
    if (made := st.session_state.pop(_MADE, None)) is not None:
        st.success("Token created. Copy it now: it is shown only once, and the lab stores only its hash.")
        st.code(made, language=None)
    for each in found:
        _entry(each, me.name)
    if not found:
        st.caption("No tokens yet. Scripts use a token to access the API without a password.")


def _entry(one: Token, name: str) -> None:
    over = "revoked" if one.revoked_at else "expired" if one.expires_at <= now() else ""
    facts = [
        f"scope {one.scope}",
        "created " + when(one.made_at),
        "last used " + when(one.used_at) if one.used_at else "not used yet",
        over or _until(one),
    ]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.html(entry(strong(one.name), facts), width="stretch")
        if not over:
            st.button(
                "Revoke",
                key=f"account.revoke.{one.id}",
                on_click=_revoke,
                args=(one, name),
                help="Takes effect immediately and can't be undone.",
            )


def _until(one: Token) -> str:
    return f"expires {one.expires_at[:10]}"


def _make(name: str) -> None:
    """Create the token before the page reruns; the page shows it once."""
    purpose, scope, days = str(st.session_state[_NAME]), st.session_state[_SCOPE], int(st.session_state[_DAYS])

    def make(store: Store) -> None:
        st.session_state[_MADE] = store.tokens.make(name, purpose, scope, by=name, days=days)

    if give(make, _NAME):
        st.session_state[_NAME] = ""


def _revoke(one: Token, name: str) -> None:
    def revoke(store: Store) -> bool:
        return store.tokens.revoke(one.id, by=name)

    if command(revoke) is not None:
        st.toast(f"Token {as_text(one.name)} revoked.")
