"""Allowed receivers of notices: checks of webhook and e-mail addresses, and their shortened form for display.

An address is a secret: anyone with a Slack or Discord webhook's address can post there. No message contains one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, NoReturn, get_args
from urllib.parse import urlsplit

from engine.errors import ConfigError

Kind = Literal["slack", "discord", "json", "email"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_WORDS: dict[Kind, str] = {"slack": "Slack", "discord": "Discord", "json": "Webhook (JSON)", "email": "E-mail"}
ReceiverKind = Literal["public", "internal", "mail"]
LONGEST = 500
SHOWN, LEAST_SECRET = 4, 12
"""Number of last characters of an address to show, and the minimum length for that."""
HTTPS_PORT = 443


@dataclass(frozen=True)
class Receiver:
    """A host allowed for webhooks, or a domain allowed for e-mail; `host` in lowercase, `port` 0 for e-mail."""

    kind: ReceiverKind
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, HTTPS_PORT) and self.kind != "internal" else f"{host}:{self.port}"


@dataclass(frozen=True)
class Webhook:
    """A checked address: host to connect to, and path to request."""

    scheme: Literal["https", "http"]
    host: str
    port: int
    path: str = field(repr=False)
    """With query; the secret part."""
    internal: bool
    """Whether an admin listed exactly this host and port, so that it may be in the lab's own network."""

    @property
    def netloc(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"https": HTTPS_PORT, "http": 80}[self.scheme] else f"{host}:{self.port}"


def checked_webhook(kind: Kind, address: str, receivers: Collection[Receiver]) -> Webhook:
    """Parse a webhook's address; raises ConfigError for an invalid or not allowed one.

    The host is resolved only at delivery (`engine.notices.dns_guard`), as its addresses can change.
    """
    if (
        not address.isascii()
        or not address.isprintable()
        or not 0 < len(address) <= LONGEST
        or any(mark in address for mark in " \\#")
    ):
        _refuse(
            "Invalid webhook address: it must look like https://hooks.slack.com/services/... with at most "
            f"{LONGEST} ASCII characters. Copy it again."
        )
    try:
        parts = urlsplit(address)
        port = parts.port
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or parts.password is not None:
        _refuse(
            "Invalid webhook address: it must start with https:// and a host name, without user or password. "
            "Copy it again."
        )
    secure = parts.scheme == "https"
    port = port or (HTTPS_PORT if secure else 80)
    internal = Receiver("internal", host, port) in receivers
    if internal and kind != "json":
        _refuse(
            f"{host}:{port} is an internal receiver, which supports only channels of kind json. Create the "
            "channel with kind json."
        )
    if not internal and not secure:
        _refuse("A webhook's address must start with https://, except for internal receivers listed by an admin.")
    if not internal and Receiver("public", host, port) not in receivers:
        listed = ", ".join(sorted(str(each) for each in receivers if each.kind != "mail")) or "none"
        _refuse(
            f"{Receiver('public', host, port)} is not an allowed webhook host. Allowed: {listed}. An admin can "
            "add it: python -m engine notify hosts --add HOST"
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Webhook("https" if secure else "http", host, port, path, internal)


def checked_recipient(address: str, account: str | None, receivers: Collection[Receiver]) -> str:
    """Return the recipient's address; `account` is the address of the person's account, None in a lab without accounts.

    Raises ConfigError: with accounts, for any other address; without, for a domain that no admin listed.
    """
    wanted = address.strip()
    if account is not None:
        if not account:
            _refuse(
                "Your account has no e-mail address, the only one that messages can go to. Ask an admin to add it, "
                "or sign in at your provider."
            )
        if wanted and wanted.casefold() != account.casefold():
            _refuse(f"E-mail can go only to your account's address, {account}. Omit the address.")
        return checked_mailbox(account)
    wanted = checked_mailbox(wanted)
    domain = wanted.rpartition("@")[2].casefold()
    if Receiver("mail", domain, 0) not in receivers:
        listed = ", ".join(sorted(each.host for each in receivers if each.kind == "mail")) or "none"
        _refuse(
            f"{domain} is not an allowed e-mail domain. Allowed: {listed}. An admin can add it: python -m "
            "engine notify hosts --add-domain DOMAIN"
        )
    return wanted


def checked_mailbox(text: str) -> str:
    """Return an e-mail address unchanged; raises ConfigError for an invalid one."""
    local, _, domain = text.rpartition("@")
    plain = text.isascii() and text.isprintable() and not any(mark in text for mark in ' <>()[]",:;\\\r\n')
    if not plain or not local or "@" in local or "." not in domain.strip(".") or len(text) > 254:
        _refuse("Invalid e-mail address: it must look like ada@lab.org, in ASCII characters.")
    return text


def shortened(kind: Kind, address: str) -> str:
    """Return an address for display: a webhook's host and last characters, a whole e-mail address."""
    if kind == "email":
        return address or "account's address"
    parts = urlsplit(address)
    secret = f"{parts.path}?{parts.query}" if parts.query else parts.path
    end = f"/…{secret[-SHOWN:]}" if len(secret) >= LEAST_SECRET else "/…"
    return f"{parts.netloc.rpartition('@')[2]}{end}"


def read_receiver(kind: ReceiverKind, text: str) -> Receiver:
    """Parse a receiver: `host` or `host:port`, for e-mail a domain; raises ConfigError."""
    text = text.strip().lower()
    try:
        parts = urlsplit(f"//{text}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if (
        not host
        or parts.netloc != text
        or "@" in text
        or not text.isascii()
        or not all(each.isalnum() or each in ".-:[]" for each in text)
    ):
        _refuse(f"A receiver must be a host name such as hooks.example.org, optionally with :port; got '{text[:80]}'.")
    if kind == "mail":
        if port is not None or "." not in host:
            _refuse(f"An e-mail domain must look like lab.org, without a port; got '{text[:80]}'.")
        return Receiver("mail", host, 0)
    if kind == "internal" and port is None:
        _refuse(f"An internal receiver needs its port, such as receiver.lab:8080; got '{text[:80]}'.")
    return Receiver(kind, host, port or HTTPS_PORT)


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("address", sentence)
