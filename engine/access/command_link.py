"""The link by which a browser may launch commands in a lab without accounts.

The console of such a lab answers every user of the machine, and a command can do whatever the console's user can. The
link has a secret that only that user can read; each start of a console renews it, unless another one serves the home.
"""

import hmac
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass

from engine.home import Home

PARAMETER = "token"
"""The parameter of an address that has the secret."""
SHOW_LINK = "python -m engine link"
REFUSAL = (
    "Commands can be launched only in a browser that was opened by this console's link, because every user of this "
    f"machine can open its pages. Open the link that make run printed, or that this prints: {SHOW_LINK}"
)


@dataclass(frozen=True)
class CommandLink:
    """The current secret of a home, and the console's URL."""

    secret: str
    url: str

    def __str__(self) -> str:
        return f"{self.url}/?{PARAMETER}={self.secret}"


def renew(home: Home, url: str) -> CommandLink:
    """Replace the home's link by one with a new secret, which ends the use of the earlier one; raises OSError."""
    return _keep(home, CommandLink(secrets.token_urlsafe(32), url))


def serve_at(home: Home, url: str) -> CommandLink:
    """Return the home's link, with a new URL if the console has another one; raises OSError."""
    found = current(home)
    if found is None:
        return renew(home, url)
    return found if found.url == url else _keep(home, CommandLink(found.secret, url))


def current(home: Home) -> CommandLink | None:
    """Return the home's link; None before the first start of a console, and for users who can't read it."""
    try:
        return CommandLink(**json.loads(home.command_link.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def proves(home: Home, given: str) -> bool:
    """Return whether a text is the home's current secret."""
    found = current(home)
    return (
        found is not None
        and bool(found.secret)
        and hmac.compare_digest(found.secret.encode(), given.encode("utf-8", "replace"))
    )


def _keep(home: Home, link: CommandLink) -> CommandLink:
    aside = home.create().command_link.with_suffix(f".{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(link), file)
    aside.replace(home.command_link)
    return link


# ---- What the store asks before it queues a command in a lab without accounts --------------------------------------
# On the command line nothing: who can write the home's files may run commands. A console sets what to ask, so that
# there is no way round it, whichever page, action or route launches.

_ask: Callable[[], str] = str


def ask_before_commands(question: Callable[[], str]) -> None:
    """Let the store of this process ask before each command that it queues: the answer is why not, empty if allowed."""
    global _ask
    _ask = question


def why_not() -> str:
    """Return why this process's current caller may launch no commands; empty if they may."""
    return _ask()
