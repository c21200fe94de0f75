"""The console's address, port, host names and base path from the environment, and whether they are allowed.

Without accounts the console may serve only this machine: anyone who reaches it could start processes here.
"""

import ipaddress
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.core import assets
from app.core.visitor import visitor_now
from engine.access import command_link
from engine.access.command_link import SHOW_LINK
from engine.access.providers import configured
from engine.errors import ConfigError, Problem
from engine.home import PRIVATE, Home, private
from engine.notices.public_url import VARIABLE as PUBLIC_URL
from engine.notices.public_url import public_url
from engine.store import Store
from engine.store.access.authorization import is_marked

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
FAR = (
    "This console has no sign-in, so it accepts connections from its own machine only. Add the first account "
    "(python -m engine users add NAME --role admin) or an OpenID provider (docs/signing-in.md), or open it on its own "
    "machine."
)


ADDRESS, PORT, HOSTS = "PARALLAB_ADDRESS", "PARALLAB_PORT", "PARALLAB_HOSTS"
REFUSED = 2
"""Exit code for a configuration that is not allowed, as on the command line."""
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\]")
_BASE = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")


@dataclass(frozen=True)
class ConsoleAddress:
    """The address and port that the console listens on, its host names and base path."""

    address: str = "127.0.0.1"
    port: int = 8501
    hosts: tuple[str, ...] = LOOPBACK
    """The names it answers to, always including those of loopback."""
    base: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "ConsoleAddress":
        """Return the configuration in the environment; raises ConfigError with a message for each invalid value."""
        problems = [
            *_wrong_address(environment),
            *_wrong_port(environment),
            *_wrong_hosts(environment),
            *_wrong_base(environment),
            *_wrong_url(environment),
        ]
        if problems:
            raise ConfigError(problems)
        found = environment.get(ADDRESS) or cls.address, int(environment.get(PORT) or cls.port)
        return cls(*found, answering(_names(environment)), _path(environment))

    @property
    def url(self) -> str:
        """The URL to open in a browser, where no proxy is in between."""
        return f"http://{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}{self.base}"

    @property
    def is_near(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.address) and set(self.hosts) <= set(LOOPBACK)


def greeting(home: Home, url: str, descriptor: int) -> str:
    """Return where the console is, for output to a file descriptor: in a lab without accounts the link by which a
    browser may launch commands, unless other users can read that output.
    """
    link = command_link.current(home)
    if is_marked(home) or configured().found or link is None:
        return f"Parallab is on {url}"
    if _is_private(descriptor):
        return f"Parallab is on {link}\nKeep this link private: a browser that opens it can launch your own commands."
    return f"Parallab is on {url}\nTo launch your own commands there, open the link that this prints: {SHOW_LINK}"


def _is_private(descriptor: int) -> bool:
    """Return whether output goes neither into the system's journal nor into a file that other users can read."""
    about = os.fstat(descriptor)
    if os.environ.get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}":
        return False
    if not stat.S_ISREG(about.st_mode) or not about.st_mode & PRIVATE:
        return True
    with suppress(OSError):
        folders = Path(f"/proc/self/fd/{descriptor}").readlink().parents
        return any(not folder.stat().st_mode & 0o011 for folder in folders)
    return False


def answering(names: Iterable[str]) -> tuple[str, ...]:
    """Return these names and those of loopback."""
    return tuple(dict.fromkeys((*LOOPBACK, *names)))


def refusal(serving: ConsoleAddress) -> str:
    """Return why this configuration is not allowed; empty if it is. Creates or upgrades the home's store.

    Raises StoreError, StoreBusy, StoreTooNew.
    """
    if serving.is_near:
        return ""
    with private(), Store.open(Home.find()):
        pass
    return "" if visitor_now({}).asked else FAR


def _names(environment: Mapping[str, str]) -> list[str]:
    return [name.lower() for name in re.split(r"[\s,]+", environment.get(HOSTS, "")) if name]


def _path(environment: Mapping[str, str]) -> str:
    given = environment.get(assets.VARIABLE, "").strip("/")
    return f"/{given}" if given else ""


def _wrong_address(environment: Mapping[str, str]) -> list[Problem]:
    given = environment.get(ADDRESS) or ConsoleAddress.address
    try:
        ipaddress.ip_address(given)
    except ValueError:
        if given != "localhost":
            cure = "127.0.0.1 for this machine only, 0.0.0.0 for all networks, or the address of one"
            return [
                Problem(
                    ADDRESS,
                    (
                        f"{ADDRESS} must be an address to listen on ({cure}), got '{given}'. Names go into "
                        f"{HOSTS}, the URL of links into {PUBLIC_URL}."
                    ),
                )
            ]
    return []


def _wrong_url(environment: Mapping[str, str]) -> Sequence[Problem]:
    try:
        public_url(environment)
    except ConfigError as error:
        return error.problems
    return ()


def _wrong_port(environment: Mapping[str, str]) -> list[Problem]:
    given = environment.get(PORT) or str(ConsoleAddress.port)
    fine = given.isascii() and given.isdecimal() and 1 <= int(given) <= 65_535
    return [] if fine else [Problem(PORT, f"{PORT} must be a whole number from 1 to 65535, got '{given}'.")]


def _wrong_hosts(environment: Mapping[str, str]) -> list[Problem]:
    wrong = [name for name in _names(environment) if not _HOST.fullmatch(name)]
    rule = (
        f"{HOSTS} must be host names without scheme, port or path, comma-separated, such as lab.example.org or "
        "*.example.org"
    )
    return [Problem(HOSTS, f"{rule}, got '{name}'.") for name in wrong]


def _wrong_base(environment: Mapping[str, str]) -> list[Problem]:
    path = _path(environment)
    if _BASE.fullmatch(path):
        return []
    return [
        Problem(
            assets.VARIABLE,
            f"{assets.VARIABLE} must be a path of letters, digits, '-', '.', '_' and '~' such as /lab, got '{path}'.",
        )
    ]


def is_loopback(address: str) -> bool:
    """Say whether an address is a loopback address."""
    try:
        return ipaddress.ip_address(address.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"
