"""The parts of the Account page: identity, permissions and signed-in browsers."""

import re
from collections.abc import Iterator, Sequence

import streamlit as st

from app.core.base_path import at
from app.ui import current_user
from app.ui.html import as_text, facts, link, table, when
from app.ui.store_access import command
from engine.access.rules import ROLE_WORDS, Role, abilities
from engine.store import Person, Store
from engine.store.access.sign_ins import IDLE_S, LASTS_S, SignIn

HOUR_S, DAY_S = 3_600, 86_400
_BROWSERS = (
    ("Firefox/", "Firefox"),
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
"""User agent marks; browsers whose user agent contains others' marks come first."""
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def no_accounts() -> None:
    """Explain the lab without accounts, and how to add the first one."""
    st.write(
        "This lab has no accounts, so no sign-in is required. The console is reachable from its own machine only, "
        "and every user has full access."
    )
    st.write("Adding the first account, which must be an admin, enables sign-in and roles:")
    st.code("python -m engine users add NAME --role admin", language=None)


def who(me: Person) -> None:
    """Show the person's identity and the permissions of their role."""
    st.html(
        facts(
            [
                ("Name", me.name),
                ("Role", me.role),
                ("E-mail", me.email or "–"),
                ("Sign-in method", ways(me)),
                *_since(me),
            ]
        )
    )
    st.text(f"{me.role.capitalize()}: {ROLE_WORDS[me.role]}.")
    with st.expander("Permissions"):
        st.html(table(["Permission", "Applies to"], list(_rows(me.role)), caption="Permissions of your role"))


def ways(one: Person) -> str:
    """Return a person's sign-in methods."""
    found = [*(["password"] if one.has_password else []), *([one.issuer] if one.issuer else [])]
    return ", ".join(found) or ("the lab's provider (not linked yet)" if one.email else "none yet")


def _since(me: Person) -> list[tuple[str, str]]:
    return [("Created", when(me.created_at) + f" by {me.created_by}")]


def _rows(role: Role) -> Iterator[list[str]]:
    for each in abilities():
        if reach := each.reach[role]:
            yield [each.words, "" if reach == "yes" else reach]


def browsers(me: Person, found: Sequence[SignIn]) -> None:
    """List the person's sign-ins, with a button that ends all others."""
    here = current_user.key()
    others = [each for each in found if each.key != here]
    st.html(
        table(
            ["Browser", "Signed in", "Last used", ""],
            [_line(each, here) for each in found],
            caption="Signed-in browsers",
        )
    )
    st.caption(f"A sign-in expires after {LASTS_S / DAY_S:.0f} days, or after {IDLE_S / HOUR_S:.0f} hours without use.")
    words = "This browser stays signed in." if others else "You are signed in only on this browser."
    st.button(
        "Sign out other browsers",
        key="account.others",
        on_click=_end_others,
        args=(me.name, here),
        disabled=not others,
        help=words,
    )


def _line(one: SignIn, here: str) -> list[str]:
    return [
        in_words(one.browser),
        when(one.began_at) + f" by {one.way}",
        when(one.seen_at),
        "this browser" if one.key == here else "",
    ]


def _end_others(name: str, here: str) -> None:
    def end(store: Store) -> int:
        return store.people.end_sign_ins(name, by=name, but_key=here)

    if (ended := command(end)) is not None:
        st.toast(f"Signed out of {ended} other {'browser' if ended == 1 else 'browsers'}.")


def password(me: Person) -> None:
    """Link to the page that changes the password."""
    if me.has_password:
        st.html(link("Change password", at("/password")))
        st.caption("You need your current password. All other browsers are signed out.")
    else:
        st.write(as_text(f"You sign in at {me.issuer or 'the lab’s provider'}. This lab stores no password for you."))


def in_words(agent: str) -> str:
    """Return a short name for a user agent, such as 'Firefox on Linux'; its first word where unknown."""
    name = next((words for mark, words in _BROWSERS if mark in agent), "")
    system = next((words for mark, words in _SYSTEMS if mark in agent), "")
    if name or system:
        return " on ".join(filter(None, (name or "Browser", system)))
    return next(iter(re.findall(r"[\w.-]+", agent)), "unknown")[:40]
