"""A cookie for browsers with an earlier sign-in, so that others' failed attempts don't lock the person out.

It grants nothing else: a copy only allows a few more password attempts. Source: OWASP device cookies.
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
    """Return the cookie for a browser after a sign-in."""
    return _signer(home).dumps([_folded(name), secrets.token_urlsafe(12)])


def known_browser(home: Home, cookie: str | None, name: str) -> str:
    """Return the key for counting a browser's failures if the person has signed in on it before; else empty."""
    try:
        found = _signer(home).loads(cookie) if cookie else None
    except BadSignature:
        return ""
    if not isinstance(found, list) or len(found) != 2 or found[0] != _folded(name):
        return ""
    return hashlib.sha256(str(found[1]).encode()).hexdigest()


def _folded(name: str) -> str:
    return plain(name).casefold()


def _signer(home: Home) -> URLSafeSerializer:
    return URLSafeSerializer(name_cookie.key(home), salt="browser")
