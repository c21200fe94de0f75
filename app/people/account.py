"""The parts of the Account page: who one is here, what one may do, and the browsers that one is signed in on."""

import re
from collections.abc import Iterator, Sequence
from html import escape

import streamlit as st

from app.core.base_path import at
from app.core.static_files import static_text
from app.ui import current_user
from app.ui.html import as_text, facts, table, when
from app.ui.store_access import command
from engine.access.permission_table import abilities
from engine.access.rules import ROLE_WORDS, Role
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
"""What each browser says of itself, those first that also say what others do."""
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_sign_out_form = st.components.v2.component(
    "parallab_sign_out",
    html=static_text("sign_in/signout.html"),
    css=static_text("sign_in/signout.css"),
    isolate_styles=False,
)


def no_accounts() -> None:
    """Say what there is in place of accounts, and how they begin."""
    st.write(
        "Nobody has an account in this lab, so nobody has to sign in: whoever reaches this console, on its own "
        "machine alone, may do everything."
    )
    st.write("The first account makes it ask for a sign-in, and roles hold from then on. It has to be an admin's:")
    st.code("python -m engine users add NAME --role admin", language=None)


def who(me: Person) -> None:
    """Show who the person is, and what their role lets them do."""
    st.html(
        facts(
            [
                ("Name", escape(me.name)),
                ("Role", escape(me.role)),
                ("E-mail", escape(me.email) or "–"),
                ("Signs in by", ways(me)),
                *_since(me),
            ]
        )
    )
    st.text(f"{me.role.capitalize()}: {ROLE_WORDS[me.role]}.")
    with st.expander("What you may do"):
        st.html(table(["You may", "Whose"], list(_rows(me.role)), caption="What your role lets you do"))


def ways(one: Person) -> str:
    """Return how somebody signs in, as HTML."""
    found = [*(["password"] if one.has_password else []), *([escape(one.issuer)] if one.issuer else [])]
    return ", ".join(found) or ("the lab's provider, not yet" if one.email else "nothing yet")


def _since(me: Person) -> list[tuple[str, str]]:
    return [("Account made", f"{when(me.created_at)} by {escape(me.created_by)}")]


def _rows(role: Role) -> Iterator[list[str]]:
    for each in abilities():
        if reach := each.reach[role]:
            yield [escape(each.words), "" if reach == "yes" else escape(reach)]


def browsers(me: Person, found: Sequence[SignIn]) -> None:
    """Show where the person is signed in, and offer to end all but this one."""
    here = current_user.key()
    others = [each for each in found if each.key != here]
    st.html(
        table(
            ["Browser", "Signed in", "Last used", ""],
            [_line(each, here) for each in found],
            caption="Browsers that you are signed in on",
        )
    )
    st.caption(
        f"A sign-in ends {LASTS_S / DAY_S:.0f} days after it began, or {IDLE_S / HOUR_S:.0f} hours after it "
        "was last used."
    )
    words = "The one that you are looking at stays." if others else "You are signed in on this browser alone."
    st.button(
        "Sign out the others",
        key="account.others",
        on_click=_end_others,
        args=(me.name, here),
        disabled=not others,
        help=words,
    )


def _line(one: SignIn, here: str) -> list[str]:
    return [
        escape(in_words(one.browser)),
        f"{when(one.began_at)} by {escape(one.way)}",
        when(one.seen_at),
        "this one" if one.key == here else "",
    ]


def _end_others(name: str, here: str) -> None:
    def end(store: Store) -> int:
        return store.people.end_sign_ins(name, by=name, but_key=here)

    if (ended := command(end)) is not None:
        st.toast(f"Signed out of {ended} other {'browser' if ended == 1 else 'browsers'}.")


def password(me: Person) -> None:
    """Lead to the page on which the password is changed."""
    if me.has_password:
        st.html(f'<a href="{at("/password")}">Choose another password</a>')
        st.caption("It asks for the present one, and signs you out of every other browser.")
    else:
        st.write(
            as_text(
                f"You sign in at {me.issuer or 'the lab’s provider'}, which has your password; this lab has "
                "none of yours."
            )
        )


def in_words(agent: str) -> str:
    """Return a user agent as people would say it, such as 'Firefox on Linux'; what is none of those, its first word."""
    name = next((words for mark, words in _BROWSERS if mark in agent), "")
    system = next((words for mark, words in _SYSTEMS if mark in agent), "")
    if name or system:
        return " on ".join(filter(None, (name or "a browser", system)))
    return next(iter(re.findall(r"[\w.-]+", agent)), "unknown")[:40]


def sign_out_form() -> None:
    """Show the button that signs out: a form of its own, since only an answer of our route can take a cookie back."""
    _sign_out_form(key="sign-out", width="content")
