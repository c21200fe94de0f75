"""The console's public URL, for links in notices. Its listening address is another setting (`PARALLAB_ADDRESS`)."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from engine.access.command_link import current
from engine.errors import ConfigError
from engine.home import Home
from engine.system.runner_process import has_console

VARIABLE = "PARALLAB_PUBLIC_URL"


def public_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return the console's URL without a trailing slash, empty if not set: messages then have no link. Raises
    ConfigError for an invalid one.
    """
    text = environment.get(VARIABLE, "").strip().rstrip("/")
    if text and not _is_plain(text):
        raise ConfigError.of(
            VARIABLE,
            f"{VARIABLE} must be a URL such as https://lab.example.org, got '{text[:80]}'. Correct it, or unset it.",
        )
    return text


def console_url(home: Home) -> str:
    """Return the URL of the console that serves a home: its public one, else where it listens; empty if none does."""
    link = current(home)
    return (public_url() or (link.url if link else "")) if has_console(home) else ""


def _is_plain(text: str) -> bool:
    """Return whether a text is an http or https URL, optionally with port and path, that no channel could take for
    markup.
    """
    try:
        parts = urlsplit(text)
        whole = parts.hostname and parts.port != 0 and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        return False
    markup = any(mark in text for mark in " <>|\"'`()[]")
    return bool(whole) and parts.scheme in ("http", "https") and text.isascii() and text.isprintable() and not markup
