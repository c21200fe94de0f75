"""Who a browser says it is: one name, asked once and kept in a signed cookie.

A name is no proof of anything; it keeps one person's runs apart from another's. Nothing here imports Streamlit.
"""

import os
import secrets
from contextlib import suppress

from itsdangerous import BadSignature, URLSafeSerializer, URLSafeTimedSerializer

from engine.errors import ConfigError
from engine.home import Home
from engine.store.access.people import checked_name

COOKIE = "parallab_name"
COOKIE_AGE_S = 365 * 24 * 3600
HANDOVER_AGE_S = 60


def sign(home: Home, name: str) -> str:
    """Return the cookie that carries `name`."""
    return URLSafeSerializer(key(home), salt="name").dumps(name)


def read(home: Home, cookie: str | None) -> str | None:
    """Return the name in a cookie, or None where there is none or its signature is not ours."""
    if not cookie:
        return None
    try:
        return checked_name(URLSafeSerializer(key(home), salt="name").loads(cookie))
    except (BadSignature, ConfigError):
        return None


def hand_over(home: Home, name: str) -> str:
    """Return a proof, good for a minute, that a cookie was just set.

    A page's WebSocket shows the cookies of the moment it was opened, so the page learns of a new one by this.
    """
    return URLSafeTimedSerializer(key(home), salt="handover").dumps(name)


def take_over(home: Home, proof: object) -> str | None:
    """Return the name in a proof of `hand_over`, or None where it is forged or old."""
    if not isinstance(proof, str):
        return None
    try:
        return checked_name(URLSafeTimedSerializer(key(home), salt="handover").loads(proof, max_age=HANDOVER_AGE_S))
    except (BadSignature, ConfigError):
        return None


def key(home: Home) -> str:
    """Return the key that signs cookies; made on first use, readable by its owner alone."""
    path = home.create().cookie_key
    if not path.exists():
        aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        aside.touch(mode=0o600)
        aside.write_text(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process made it first: its key counts
            os.link(aside, path)
        aside.unlink()
    return path.read_text()
