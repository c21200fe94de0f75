"""What tells a browser on which somebody has signed in before, so that nobody else's wrong passwords keep them out.

It proves nothing but that: whoever copies it may only guess a few passwords more. The idea is OWASP's device cookie.
"""

import hashlib
import secrets

from itsdangerous import BadSignature, URLSafeSerializer

from app.core import name_cookie
from engine.access.confusables import plain
from engine.home import Home

COOKIE = "parallab_browser"
AGE_S = 365 * 24 * 3600


def mark(home: Home, name: str) -> str:
    """Return the cookie for a browser on which somebody has just signed in."""
    return _signer(home).dumps([_folded(name), secrets.token_urlsafe(12)])


def known(home: Home, cookie: str | None, name: str) -> str:
    """Return what a browser's failures are counted by, where that person has signed in on it before; empty
    where not.
    """
    try:
        told = _signer(home).loads(cookie) if cookie else None
    except BadSignature:
        return ""
    if not isinstance(told, list) or len(told) != 2 or told[0] != _folded(name):
        return ""
    return hashlib.sha256(str(told[1]).encode()).hexdigest()


def _folded(name: str) -> str:
    return plain(name).casefold()


def _signer(home: Home) -> URLSafeSerializer:
    return URLSafeSerializer(name_cookie.key(home), salt="browser")
