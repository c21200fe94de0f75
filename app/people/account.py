"""The parts of the Account page: identity, permissions and signed-in browsers."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import streamlit as st

from app.core.assets import at
from app.links import addresses
from app.people.dialogs import UNTIL_CLOSED, show_secrets, unclosed
from app.ui import components, current_user
from app.ui.html import as_text, entry, facts, link, strong, table, when
from app.ui.store_access import command, give, reading, say_trouble
from app.ui.widgets import page_address
from engine.access.agents import AGENT_RUNS, MOST_AGENT_RUNS
from engine.access.rules import ROLE_WORDS, ROLES, Role, abilities
from engine.errors import counted
from engine.home import ROOT, Home
from engine.store import Person, Store
from engine.store.access.sign_ins import IDLE_S, LASTS_S, SCOPES, TOKEN_DAYS, Scope, SignIn, Token
from engine.store.timestamps import now

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


@addresses.fragment
def no_accounts() -> None:
    """Explain the lab without accounts, and how to add the first one, which the open page then notices."""
    st.write(
        "This lab has no accounts, so no sign-in is required. The console is reachable from its own machine only, "
        "and every user has full access."
    )
    st.write(
        "Adding the first account, which must be an admin, enables sign-in and roles. In a terminal of this machine, "
        "with your name in place of NAME:"
    )
    st.code(first_account(Home.find(), ROOT), language=None, wrap_lines=True)
    st.write(
        "It asks for a password. Then sign in: this page adds the other accounts, also from a list of names, and makes "
        "slips of their passwords to print."
    )
    st.write("Until then scripts need no token: the API answers on this machine, and a launch names its owner.")
    with reading() as reader:
        components.pulse(reader.runs.token())


def first_account(home: Home, folder: Path) -> str:
    """Return the commands that add the first account of a home, as they run in any folder of this machine."""
    python = Path(sys.executable)
    short = python.relative_to(folder) if python.is_relative_to(folder) else python
    where = "" if home.path == folder / ".parallab" else f"PARALLAB_HOME={shlex.quote(str(home.path))} "
    return f"cd {shlex.quote(str(folder))}\n{where}{shlex.quote(str(short))} -m engine users add NAME --role admin"


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


# ---- API tokens of a person: create, show once, list, revoke -------------------------------------------------------

SCOPE_WORDS: dict[Scope, str] = {
    "read": "read: view runs and series",
    "launch": "launch: read, and launch runs in your name",
    "agent": "agent: as launch, marked in the audit log, with a quota of its own",
}
USUAL_DAYS = 90
USES_S = 10.0
"""Interval at which the list of tokens is read again."""
_NAME, _SCOPE, _DAYS, _RUNS = (f"account.token.{name}" for name in ("name", "scope", "days", "runs"))


def tokens(me: Person) -> None:
    """Show the form, new tokens until they are closed, the list of tokens, and how one is used."""
    scopes: list[Scope] = [*SCOPES] if ROLES.index(me.role) >= ROLES.index("member") else ["read"]
    with st.form("account.token", border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input("Purpose", key=_NAME, max_chars=60, placeholder="nightly report")
            st.selectbox("Scope", scopes, key=_SCOPE, format_func=SCOPE_WORDS.__getitem__, width=320)
            st.number_input(
                "Valid for (days)", min_value=1, max_value=TOKEN_DAYS, value=USUAL_DAYS, step=1, key=_DAYS, width=140
            )
            if "agent" in scopes:
                words = "For scope agent: how many of its runs may be queued or running at once."
                st.number_input("Runs of an agent", 1, MOST_AGENT_RUNS, AGENT_RUNS, 1, key=_RUNS, width=140, help=words)
        st.form_submit_button("Create token", on_click=_make, args=(me.name,))
        say_trouble(_NAME)
    show_secrets()
    _list(me.name)
    st.caption("In a script or a terminal, with the token in PARALLAB_TOKEN:")
    address = page_address("/api/v1/runs?limit=3")
    st.code(f'curl -H "Authorization: Bearer $PARALLAB_TOKEN" "{address}"', language=None)
    st.html(link("HTTP API", at("/docs?page=api")))


@st.fragment(run_every=USES_S)
def _list(name: str) -> None:
    """List the person's tokens, updated as scripts use them."""
    with reading() as reader:
        found = reader.tokens.of(name)
    for each in found:
        _entry(each, name)
    if not found:
        st.caption("No tokens yet. Scripts use a token to access the API without a password.")


def _entry(one: Token, name: str) -> None:
    over = "revoked" if one.revoked_at else "expired" if one.expires_at <= now() else ""
    facts = [
        f"scope {one.scope}" + (f", {counted(one.agent_runs, 'run')} at once" if one.agent_runs else ""),
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
    """Create the token before the page reruns, which shows it."""
    purpose, scope, days = str(st.session_state[_NAME]), st.session_state[_SCOPE], int(st.session_state[_DAYS])
    runs = int(st.session_state[_RUNS]) if scope == "agent" else None
    kept = unclosed()

    def make(store: Store) -> None:
        made = store.tokens.make(name, purpose, scope, by=name, days=days, agent_runs=runs)
        kept.append((f"Token created. The lab stores only its hash. {UNTIL_CLOSED}", made))

    if give(make, _NAME):
        st.session_state[_NAME] = ""


def _revoke(one: Token, name: str) -> None:
    def revoke(store: Store) -> bool:
        return store.tokens.revoke(one.id, by=name)

    if command(revoke) is not None:
        st.toast(f"Token {as_text(one.name)} revoked.")
