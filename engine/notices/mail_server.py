"""The lab's mail server: an admin's settings, out of the environment or a file in the home that only its owner can
read.
"""

import ipaddress
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from engine.access.receivers import checked_mailbox
from engine.errors import ConfigError, Problem
from engine.home import Home

Security = Literal["starttls", "tls", "none"]
SECURITIES: tuple[Security, ...] = get_args(Security)
PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
FILE = "mail.toml"
NAMES = ("host", "port", "security", "user", "password", "sender", "ca_file")
PREFIX = "PARALLAB_MAIL_"
"""Before each name in capitals: a setting of the environment, which goes before the file's."""


@dataclass(frozen=True)
class MailServer:
    """Where e-mail is handed in, and as whom."""

    host: str
    port: int
    security: Security
    sender: str
    """The address that messages come from."""
    user: str = ""
    """Empty for no login."""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    """A file of certificates to trust beside the system's, for a server of the lab's own."""


def mail_server(home: Home) -> MailServer | None:
    """Return the lab's mail server, None where none is set up; raises ConfigError for settings that don't do."""
    found = _of_file(home.path / FILE) | {
        name: value for name in NAMES if (value := os.environ.get(PREFIX + name.upper(), "").strip())
    }
    return _checked(found) if found.get("host") else None


def _of_file(path: Path) -> dict[str, Any]:
    """Return the settings of the file, none where there is none; raises ConfigError where others can read it, or it is
    no such file.
    """
    try:
        about = path.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            _refuse(
                f"{path} holds a password, and others than its owner can read it. Make it private: chmod 600 {path}"
            )
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            [
                Problem(
                    "mail",
                    (
                        f"{path} can't be read as TOML ({type(error).__name__}). docs/notifications.md shows one "
                        "that does."
                    ),
                )
            ]
        ) from None
    if unknown := sorted(set(found) - set(NAMES)):
        _refuse(f"{path} has a setting '{unknown[0]}' that is none. There are: {', '.join(NAMES)}.")
    return found


def _checked(found: Mapping[str, Any]) -> MailServer:
    host, security = str(found["host"]).strip().lower(), str(found.get("security", "starttls")).strip().lower()
    if security not in SECURITIES:
        _refuse(f"security of the mail server must be one of {', '.join(SECURITIES)}, got '{security[:40]}'.")
    known: Security = next(each for each in SECURITIES if each == security)
    if known == "none" and not _is_here(host):
        _refuse(
            "security = none hands e-mail in unencrypted, which is for a server on this machine alone, and "
            f"{host} is none. Set starttls or tls."
        )
    port = str(found.get("port", PORTS[known]))
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        _refuse(f"port of the mail server must be 1 to 65,535, got '{port[:40]}'.")
    user, password = str(found.get("user", "")), str(found.get("password", ""))
    if bool(user) != bool(password):
        _refuse("The mail server's user and password go together: set both, or neither.")
    try:
        sender = checked_mailbox(str(found.get("sender", "")).strip())
    except ConfigError:
        _refuse(
            "sender of the mail server must be the e-mail address that messages come from, such as parallab@lab.org."
        )
    ca_file = str(found.get("ca_file", ""))
    if ca_file and not Path(ca_file).is_file():
        _refuse(f"ca_file of the mail server names {ca_file}, and there is no such file.")
    return MailServer(host, int(port), known, sender, user, password, ca_file)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError([Problem("mail", sentence)])
