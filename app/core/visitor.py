"""Whom a request comes from: what its cookies prove, and whether this console asks for a sign-in at all. Nothing here
imports Streamlit.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.base_path import at, base, inside
from engine.access.providers import CALLBACK, configured
from engine.home import Home
from engine.store import Reader, SignedIn
from engine.store.access.sign_ins import key_of

COOKIE = "parallab_session"
DOORS = ("/signin", "/signout", "/auth/", CALLBACK, "/api/")
"""What nobody wants to come to once they are in."""
STRICT_COOKIE = f"__Host-{COOKIE}"
"""Its name where people come over HTTPS: a browser takes it from no other host, over no other connection and for no
part of the paths, so that a console that has but a part of its host can't use it.
"""
HTTPS = "PARALLAB_HTTPS"
"""Set to 1 where a proxy before the console speaks HTTPS, so that cookies are never sent without it."""


@dataclass(frozen=True)
class Visitor:
    """Somebody before the door."""

    asked: bool
    """Whether a sign-in is asked for: the lab has accounts, or a provider whose people get them."""
    who: SignedIn | None
    """Whom the cookies stand for, None for nobody."""
    key: str = ""
    """What the store knows the sign-in by."""

    @property
    def welcome(self) -> bool:
        return self.who is not None or not self.asked


def visitor(reader: Reader, cookies: Mapping[str, str]) -> Visitor:
    """Return whom cookies stand for at this moment; raises StoreError where the lab has lost its accounts."""
    reader.access.require_accounts()
    key = key_in(cookies)
    return Visitor(
        bool(configured().found) or reader.access.has_people(), reader.sign_ins.signed_in(key) if key else None, key
    )


def key_in(cookies: Mapping[str, object]) -> str:
    """Return what the store knows the sign-in by that cookies hold, empty where they hold none."""
    names = (STRICT_COOKIE,) if is_secure("") and not base() else (STRICT_COOKIE, COOKIE)
    for shown in map(cookies.get, names):
        if isinstance(shown, str) and shown:
            return key_of(shown)
    return ""


def visitor_now(cookies: Mapping[str, str]) -> Visitor:
    """Return whom cookies stand for in the home's store; raises StoreError, StoreBusy, StoreTooNew."""
    with Reader.open(Home.find()) as reader:
        return visitor(reader, cookies)


def is_secure(scheme: str) -> bool:
    """Say whether cookies may be kept from connections that are not encrypted: people come over HTTPS, here or at the
    proxy.
    """
    return scheme in ("https", "wss") or os.environ.get(HTTPS) == "1"


def cookie_name(scheme: str) -> str:
    """Return what the cookie of a sign-in is called on a connection of that scheme."""
    return STRICT_COOKIE if is_secure(scheme) and not base() else COOKIE


def safe_way(wanted: str) -> str:
    """Return the path on this console that somebody wanted before they had to sign in; the first page for anything
    else.
    """
    plain = (
        wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() and "\\" not in wanted
    )
    ours = wanted.startswith(f"{base()}/") and not inside(wanted).startswith(DOORS)
    return wanted if plain and ours else at("/")
