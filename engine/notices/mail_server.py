"""Settings of the lab's mail server, from the environment or a private file in the home."""

import ipaddress
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from engine.access.receivers import checked_mailbox
from engine.errors import ConfigError
from engine.home import Home

Security = Literal["starttls", "tls", "none"]
SECURITIES: tuple[Security, ...] = get_args(Security)
PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
FILE = "mail.toml"
NAMES = ("host", "port", "security", "user", "password", "sender", "ca_file")
PREFIX = "PARALLAB_MAIL_"
"""Prefix of the environment variables, which override the file."""


@dataclass(frozen=True)
class MailServer:
    """Server and credentials for e-mail."""

    host: str
    port: int
    security: Security
    sender: str
    """Sender's address."""
    user: str = ""
    """Empty for no sign-in."""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    """File of additional trusted certificates, for a private server."""


def mail_server(home: Home) -> MailServer | None:
    """Return the lab's mail server, None without one; raises ConfigError for invalid settings."""
    found = _of_file(home.path / FILE) | {
        name: value for name in NAMES if (value := os.environ.get(PREFIX + name.upper(), "").strip())
    }
    return _checked(found) if found.get("host") else None


def _of_file(path: Path) -> dict[str, Any]:
    """Return the file's settings, empty without one; raises ConfigError if others can read it, or it is invalid."""
    try:
        about = path.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            _refuse(f"{path} holds a password, but other users can read it. Make it private: chmod 600 {path}")
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError.of(
            "mail", f"{path} can't be read as TOML ({type(error).__name__}). See the example in docs/notifications.md."
        ) from None
    if unknown := sorted(set(found) - set(NAMES)):
        _refuse(f"{path} has an unknown setting '{unknown[0]}'. Known: {', '.join(NAMES)}.")
    return found


def _checked(found: Mapping[str, Any]) -> MailServer:
    host, security = str(found["host"]).strip().lower(), str(found.get("security", "starttls")).strip().lower()
    if security not in SECURITIES:
        _refuse(f"security of the mail server must be one of {', '.join(SECURITIES)}, got '{security[:40]}'.")
    known: Security = next(each for each in SECURITIES if each == security)
    if known == "none" and not _is_here(host):
        _refuse(
            "security = none sends e-mail unencrypted and is allowed only for a server on this machine; got "
            f"{host}. Set starttls or tls."
        )
    port = str(found.get("port", PORTS[known]))
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        _refuse(f"port of the mail server must be 1 to 65,535, got '{port[:40]}'.")
    user, password = str(found.get("user", "")), str(found.get("password", ""))
    if bool(user) != bool(password):
        _refuse("The mail server needs both user and password, or neither.")
    try:
        sender = checked_mailbox(str(found.get("sender", "")).strip())
    except ConfigError:
        _refuse("sender of the mail server must be an e-mail address, such as parallab@lab.org.")
    ca_file = str(found.get("ca_file", ""))
    if ca_file and not Path(ca_file).is_file():
        _refuse(f"ca_file of the mail server doesn't exist: {ca_file}.")
    return MailServer(host, int(port), known, sender, user, password, ca_file)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("mail", sentence)
