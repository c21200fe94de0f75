"""The URL by which people reach the console, for links in notifications. What the console listens on is another setting
(`PARALLAB_ADDRESS`).
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from engine.errors import ConfigError, Problem

VARIABLE = "PARALLAB_PUBLIC_URL"


def public_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return the console's URL without a slash at its end, empty where none is set: messages have no link then. Raises
    ConfigError for one that is none.
    """
    text = environment.get(VARIABLE, "").strip().rstrip("/")
    if text and not _is_plain(text):
        raise ConfigError(
            [
                Problem(
                    VARIABLE,
                    (
                        f"{VARIABLE} must be a URL such as https://lab.example.org, got '{text[:80]}'. Correct it, "
                        "or unset it."
                    ),
                )
            ]
        )
    return text


def _is_plain(text: str) -> bool:
    """Return whether a text is an http or https URL of a host, where need be with a port and a path, that no channel
    takes for markup.
    """
    try:
        parts = urlsplit(text)
        whole = parts.hostname and parts.port != 0 and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        return False
    markup = any(mark in text for mark in " <>|\"'`()[]")
    return bool(whole) and parts.scheme in ("http", "https") and text.isascii() and text.isprintable() and not markup
