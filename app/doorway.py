"""Whom a request comes from: what its cookies prove, and whether this console asks for a sign-in at all. Nothing here imports Streamlit."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from engine.home import Home
from engine.store import Reader, SignedIn
from engine.store.sign_ins import key_of

COOKIE = "parallab_session"
HTTPS = "PARALLAB_HTTPS"
"""Set to 1 where a proxy before the console speaks HTTPS, so that cookies are never sent without it."""


@dataclass(frozen=True)
class Visitor:
    """Somebody before the door."""

    asked: bool
    """Whether a sign-in is asked for: the lab has accounts."""
    who: SignedIn | None
    """Whom the cookies stand for, None for nobody."""
    key: str = ""
    """What the store knows the sign-in by."""

    @property
    def welcome(self) -> bool:
        return self.who is not None or not self.asked


def visitor(reader: Reader, cookies: Mapping[str, str]) -> Visitor:
    """Return whom cookies stand for at this moment."""
    key = key_in(cookies)
    return Visitor(reader.has_people(), reader.signed_in(key) if key else None, key)


def key_in(cookies: Mapping[str, object]) -> str:
    """Return what the store knows the sign-in by that cookies hold, empty where they hold none."""
    secret = cookies.get(COOKIE)
    return key_of(secret) if secret and isinstance(secret, str) else ""


def visitor_now(cookies: Mapping[str, str]) -> Visitor:
    """Return whom cookies stand for in the home's store; raises StoreError, StoreBusy, StoreTooNew."""
    with Reader.open(Home.find()) as reader:
        return visitor(reader, cookies)


def is_secure(scheme: str) -> bool:
    """Say whether cookies may be kept from connections that are not encrypted: people come over HTTPS, here or at the proxy."""
    return scheme in ("https", "wss") or os.environ.get(HTTPS) == "1"


def safe_way(wanted: str) -> str:
    """Return the path on this console that somebody wanted before they had to sign in; the first page for anything else."""
    plain = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() and "\\" not in wanted
    return wanted if plain and not wanted.startswith(("/signin", "/signout", "/api/")) else "/"
