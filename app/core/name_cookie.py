"""The name that a browser gives: requested once and kept in a signed cookie.

A name proves nothing; it only tells people's runs apart. Nothing here imports Streamlit.
"""

import os
import secrets
from contextlib import suppress

from itsdangerous import BadSignature, URLSafeSerializer, URLSafeTimedSerializer

from engine.errors import ConfigError
from engine.home import Home
from engine.store.access.people import checked_name

NAME_COOKIE = "parallab_name"
COOKIE_AGE_S = 365 * 24 * 3600
HANDOVER_AGE_S = 60


def sign(home: Home, name: str) -> str:
    """Return the cookie that carries `name`."""
    return URLSafeSerializer(key(home), salt="name").dumps(name)


def read(home: Home, cookie: str | None) -> str | None:
    """Return the name in a cookie, or None without one or with an invalid signature."""
    if not cookie:
        return None
    try:
        return checked_name(URLSafeSerializer(key(home), salt="name").loads(cookie))
    except (BadSignature, ConfigError):
        return None


def hand_over(home: Home, name: str) -> str:
    """Return a proof, valid for a minute, that a cookie was just set.

    A page's WebSocket has the cookies of the time when it was opened, so the page needs the proof to see a new one.
    """
    return URLSafeTimedSerializer(key(home), salt="handover").dumps(name)


def take_over(home: Home, proof: object) -> str | None:
    """Return the name in a proof of `hand_over`, or None if it is forged or expired."""
    if not isinstance(proof, str):
        return None
    try:
        return checked_name(URLSafeTimedSerializer(key(home), salt="handover").loads(proof, max_age=HANDOVER_AGE_S))
    except (BadSignature, ConfigError):
        return None


def key(home: Home) -> str:
    """Return the key that signs cookies; created on first use, readable only by its owner."""
    path = home.create().cookie_key
    if not path.exists():
        aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        aside.touch(mode=0o600)
        aside.write_text(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process made it first: its key counts
            os.link(aside, path)
        aside.unlink()
    return path.read_text()
