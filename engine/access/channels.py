"""Channels for notifications: an admin defines them in notices.toml as URLs of the library apprise, in which a person's
address can have a place.

A URL is a secret: anyone who has a webhook's URL can post there. No message contains one.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn
from urllib.parse import quote, urlsplit

from engine.errors import ConfigError, UnknownName
from engine.home import Home

ADDRESS = "{address}"
"""Stands in a URL for the address of the person who is notified."""
LONGEST = 254
_NAMES = {"url": str, "about": str, "asks": str, "domains": list}
_SHOWS_HOST = frozenset({"http", "https", "json", "jsons", "mailto", "mailtos"})
"""Schemes whose URLs have a host behind them; in others it can be a token."""


@dataclass(frozen=True)
class Channel:
    """A channel of the lab."""

    name: str
    url: str = field(repr=False)
    about: str = ""
    """Where its messages go, in the admin's words."""
    asks: str = ""
    """What a person's address on it is, such as 'Slack member ID'; empty for an e-mail address."""
    domains: tuple[str, ...] = ()
    """Domains of e-mail that are permitted in a lab without accounts."""

    @property
    def takes(self) -> Literal["nothing", "email", "text"]:
        """What it takes of a person."""
        return "nothing" if ADDRESS not in self.url else "text" if self.asks else "email"

    @property
    def shown(self) -> str:
        """The part of its URL that may be shown."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{urlsplit(f'//{rest}').hostname if scheme in _SHOWS_HOST else ''}…"

    def checked_address(self, address: str, account: str | None) -> str:
        """Return the address that a message to a person goes to, empty if the channel takes none; `account` is the
        e-mail address of the person's account, None in a lab without accounts.

        Raises ConfigError for an address that is not permitted: with accounts, any other e-mail address than the
        account's; without, one of a domain that is not listed.
        """
        wanted = address.strip()
        if self.takes == "nothing":
            if wanted:
                _refuse(f"The channel '{self.name}' takes no address. Omit it.")
            return ""
        if not wanted and (self.takes == "text" or account is None):
            _refuse(f"Enter {self.asks or 'an e-mail address'}.")
        if self.takes == "text":
            if not re.fullmatch(rf"[\w.+@#-]{{1,{LONGEST}}}", wanted, re.ASCII):
                _refuse(f"{self.asks} must consist of ASCII letters, digits and the signs . + @ # _ -. Correct it.")
            return wanted
        if account is not None:
            if not account:
                _refuse(
                    "Your account has no e-mail address, the only one that messages can go to. Ask an admin to add it, "
                    "or sign in at your provider."
                )
            if wanted and wanted.casefold() != account.casefold():
                _refuse(f"E-mail can go only to your account's address, {account}. Omit the address.")
            return _checked_mailbox(account)
        domain = _checked_mailbox(wanted).rpartition("@")[2].casefold()
        if domain not in self.domains:
            listed = ", ".join(self.domains) or "none"
            _refuse(
                f"{domain} is not an allowed e-mail domain. Allowed: {listed}. An admin can add it to domains of "
                f"'{self.name}' in notices.toml."
            )
        return wanted

    def url_to(self, address: str) -> str:
        """Return the URL that sends to a checked address."""
        return self.url.replace(ADDRESS, quote(address, safe=""))


def lab_channels(home: Home) -> dict[str, Channel]:
    """Return the lab's channels by name; raises ConfigError if the file is invalid, or others can read it."""
    path = home.notices
    try:
        about = path.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            _refuse(f"{path} holds secrets, but other users can read it. Make it private: chmod 600 {path}")
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        sentence = f"{path} can't be read as TOML ({type(error).__name__}). See the example in docs/notifications.md."
        raise ConfigError.of("channel", sentence) from None
    return {name: _checked(name, settings) for name, settings in found.items()}


def lab_channel(home: Home, name: str) -> Channel:
    """Return a channel of the lab; raises ConfigError for an unknown one."""
    known = lab_channels(home)
    if name not in known:
        raise UnknownName("channel", name, known, field="channel")
    return known[name]


def _checked(name: str, settings: Mapping[str, Any] | object) -> Channel:
    where = f"[{name[:40]}] in notices.toml"
    if not re.fullmatch(r"[\w-]{1,40}", name, re.ASCII) or not isinstance(settings, Mapping):
        _refuse(f"{where} must be a section whose name has 1 to 40 letters, digits, - and _.")
    if wrong := [key for key, value in settings.items() if not isinstance(value, _NAMES.get(key, type(None)))]:
        _refuse(f"{where}: '{wrong[0][:40]}' is unknown or not of its type. Known: {', '.join(_NAMES)} (a list).")
    url = str(settings.get("url", ""))
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://\S+", url) or not url.isascii():
        _refuse(f"{where} needs a url of apprise, such as slack://TOKEN_A/TOKEN_B/TOKEN_C.")
    if ADDRESS in re.split(r"[/?]", url, maxsplit=3)[2] or url.count(ADDRESS) > 1:
        _refuse(f"{where}: {ADDRESS} may stand once in its url, behind the host: the host is the admin's choice.")
    domains = tuple(str(each).lower() for each in settings.get("domains", ()))
    return Channel(name, url, str(settings.get("about", "")), str(settings.get("asks", "")), domains)


def _checked_mailbox(text: str) -> str:
    local, _, domain = text.rpartition("@")
    plain = text.isascii() and text.isprintable() and not any(mark in text for mark in ' <>()[]",:;%\\\r\n')
    if not plain or not local or "@" in local or "." not in domain.strip(".") or len(text) > LONGEST:
        _refuse("Invalid e-mail address: it must look like ada@lab.org, in ASCII characters.")
    return text


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("channel", sentence)
