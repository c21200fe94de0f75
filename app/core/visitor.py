"""The visitor of a request: the person that its cookies prove, and whether a sign-in is required. Nothing here imports
Streamlit.
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
"""Paths that are no target after a sign-in."""
STRICT_COOKIE = f"__Host-{COOKIE}"
"""The cookie's name over HTTPS: browsers accept it only from this host, over HTTPS and for the path /, so a console
with a base path can't use it.
"""
HTTPS = "PARALLAB_HTTPS"
"""Set to 1 behind a proxy that terminates HTTPS, so that cookies are sent only over HTTPS."""


@dataclass(frozen=True)
class Visitor:
    """The visitor of a request."""

    asked: bool
    """Whether a sign-in is required: the lab has accounts, or a provider whose users get one."""
    who: SignedIn | None
    """The signed-in person, None for nobody."""
    key: str = ""
    """The store's key of the sign-in."""

    @property
    def welcome(self) -> bool:
        return self.who is not None or not self.asked


def visitor(reader: Reader, cookies: Mapping[str, str]) -> Visitor:
    """Return the visitor with these cookies; raises StoreError if the lab has lost its accounts."""
    reader.access.require_accounts()
    key = key_in(cookies)
    return Visitor(
        bool(configured().found) or reader.access.has_people(), reader.sign_ins.signed_in(key) if key else None, key
    )


def key_in(cookies: Mapping[str, object]) -> str:
    """Return the store's key of the sign-in in cookies, empty without one."""
    names = (STRICT_COOKIE,) if is_secure("") and not base() else (STRICT_COOKIE, COOKIE)
    for shown in map(cookies.get, names):
        if isinstance(shown, str) and shown:
            return key_of(shown)
    return ""


def visitor_now(cookies: Mapping[str, str]) -> Visitor:
    """Return the visitor by the home's store; raises StoreError, StoreBusy, StoreTooNew."""
    with Reader.open(Home.find()) as reader:
        return visitor(reader, cookies)


def is_secure(scheme: str) -> bool:
    """Return whether cookies get the Secure attribute: visitors use HTTPS, here or at the proxy."""
    return scheme in ("https", "wss") or os.environ.get(HTTPS) == "1"


def cookie_name(scheme: str) -> str:
    """Return the name of the sign-in cookie for a scheme."""
    return STRICT_COOKIE if is_secure(scheme) and not base() else COOKIE


def safe_way(wanted: str) -> str:
    """Return the requested path if it is a safe target on this console after a sign-in, else the first page."""
    plain = (
        wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() and "\\" not in wanted
    )
    ours = wanted.startswith(f"{base()}/") and not inside(wanted).startswith(DOORS)
    return wanted if plain and ours else at("/")
