"""The tokens of a person, which scripts show in place of a password: made, shown once, listed, taken back."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from app.ui.html import as_text, when
from app.ui.store_access import command
from engine.access.rules import ROLES
from engine.store import Person, Store
from engine.store.access.sign_ins import Scope
from engine.store.access.tokens import TOKEN_DAYS, Token
from engine.store.timestamps import now

SCOPES: dict[Scope, str] = {
    "read": "read: look at runs and series",
    "launch": "launch: that, and launch runs in your name",
}
USUAL_DAYS = 90
_NAME, _SCOPE, _DAYS, _MADE = "account.token.name", "account.token.scope", "account.token.days", "account.token.made"


def tokens(me: Person, found: Sequence[Token]) -> None:
    """Show the form for another one, the one that was just made, and those that there are."""
    scopes: list[Scope] = ["read", "launch"] if ROLES.index(me.role) >= ROLES.index("member") else ["read"]
    with st.form("account.token", border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input("What it is for", key=_NAME, max_chars=60, placeholder="nightly report")
            st.selectbox("It may", scopes, key=_SCOPE, format_func=SCOPES.__getitem__, width=320)
            st.number_input("Days", min_value=1, max_value=TOKEN_DAYS, value=USUAL_DAYS, step=1, key=_DAYS, width=140)
        st.form_submit_button("Make a token", on_click=_make, args=(me.name,))
    if (made := st.session_state.pop(_MADE, None)) is not None:
        st.success("This is the token. Copy it now: it is shown this once, and the lab keeps only its fingerprint.")
        st.code(made, language=None)
    for each in found:
        _entry(each, me.name)
    if not found:
        st.caption("You have no token. A script that shows one to the API needs no password.")


def _entry(one: Token, name: str) -> None:
    over = "taken back" if one.revoked_at else "ran out" if one.expires_at <= now() else ""
    said = [
        f"may {escape(one.scope)}",
        f"made {when(one.made_at)}",
        f"used {when(one.used_at)}" if one.used_at else "not used yet",
        over or _until(one),
    ]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        parts = "".join(f"<span>{each}</span>" for each in said)
        st.html(
            f'<div class="pl-entry"><strong>{escape(one.name)}</strong><div class="pl-row">{parts}</div></div>',
            width="stretch",
        )
        if not over:
            st.button(
                "Take back",
                key=f"account.revoke.{one.id}",
                on_click=_revoke,
                args=(one, name),
                help="At once and for good: scripts with it are refused.",
            )


def _until(one: Token) -> str:
    return f"lasts until {escape(one.expires_at[:10])}"


def _make(name: str) -> None:
    """Make the token before the page runs again; it stands on it once."""
    told, scope, days = str(st.session_state[_NAME]), st.session_state[_SCOPE], int(st.session_state[_DAYS])

    def make(store: Store) -> str:
        return store.tokens.make(name, told, scope, by=name, days=days)

    if (made := command(make)) is not None:
        st.session_state[_MADE] = made
        st.session_state[_NAME] = ""


def _revoke(one: Token, name: str) -> None:
    def revoke(store: Store) -> bool:
        return store.tokens.revoke(one.id, by=name)

    if command(revoke) is not None:
        st.toast(f"{as_text(one.name)} is taken back.")
