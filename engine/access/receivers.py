"""Where a notice may go: addresses of webhooks and e-mail held against the lists of receivers, and how little of one is
ever shown.

An address is a secret: whoever has that of a Slack or Discord webhook can write there. No sentence here repeats one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, NoReturn, get_args
from urllib.parse import urlsplit

from engine.errors import ConfigError, Problem

Kind = Literal["slack", "discord", "json", "email"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_WORDS: dict[Kind, str] = {"slack": "Slack", "discord": "Discord", "json": "Webhook (JSON)", "email": "E-mail"}
ReceiverKind = Literal["public", "internal", "mail"]
LONGEST = 500
SHOWN, LEAST_SECRET = 4, 12
"""So many of an address's last characters are shown, where what they are taken from has so many at least."""
HTTPS_PORT = 443


@dataclass(frozen=True)
class Receiver:
    """A host that webhooks may go to, or a domain that e-mail may; `host` in small letters, `port` 0 for e-mail."""

    kind: ReceiverKind
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, HTTPS_PORT) and self.kind != "internal" else f"{host}:{self.port}"


@dataclass(frozen=True)
class Webhook:
    """An address that passed: where to connect, and what to ask for there."""

    scheme: Literal["https", "http"]
    host: str
    port: int
    path: str = field(repr=False)
    """With its query; the secret part."""
    internal: bool
    """Whether an admin listed exactly this host and port, so that it may lie in the lab's own network."""

    @property
    def netloc(self) -> str:
        """The host as the header Host says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"https": HTTPS_PORT, "http": 80}[self.scheme] else f"{host}:{self.port}"


def checked_webhook(kind: Kind, address: str, receivers: Collection[Receiver]) -> Webhook:
    """Return a webhook's address in parts; raises ConfigError for one that is none, or that leads where no admin
    allowed.

    Where its name leads is looked at when something is sent (`engine.notices.dns_guard`), since that can change.
    """
    if (
        not address.isascii()
        or not address.isprintable()
        or not 0 < len(address) <= LONGEST
        or any(mark in address for mark in " \\#")
    ):
        _refuse(
            f"A webhook's address looks like https://hooks.slack.com/services/... and has at most {LONGEST} "
            "plain characters. Copy it once more."
        )
    try:
        parts = urlsplit(address)
        port = parts.port
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or parts.password is not None:
        _refuse(
            "A webhook's address begins with https:// and a host's name, without a user or password in it. "
            "Copy it once more."
        )
    secure = parts.scheme == "https"
    port = port or (HTTPS_PORT if secure else 80)
    internal = Receiver("internal", host, port) in receivers
    if internal and kind != "json":
        _refuse(
            f"{host}:{port} is listed as a receiver inside the lab's network, which is for plain JSON alone. "
            "Make it a channel of kind json."
        )
    if not internal and not secure:
        _refuse(
            "A webhook's address has to begin with https://; only a receiver inside the lab's network that an "
            "admin listed may do without."
        )
    if not internal and Receiver("public", host, port) not in receivers:
        listed = ", ".join(sorted(str(each) for each in receivers if each.kind != "mail")) or "none"
        _refuse(
            f"Webhooks may not go to {Receiver('public', host, port)}. Hosts of this lab: {listed}. An admin "
            "adds one: python -m engine notify hosts --add HOST"
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Webhook("https" if secure else "http", host, port, path, internal)


def checked_recipient(address: str, account: str | None, receivers: Collection[Receiver]) -> str:
    """Return where e-mail goes; `account` is the address of the person's own account, None in a lab without accounts.

    Raises ConfigError: with accounts for any address but one's own, and without for a domain that no admin listed.
    """
    wanted = address.strip()
    if account is not None:
        if not account:
            _refuse(
                "Your account has no e-mail address, and messages go to no other. An admin gives it one, or "
                "your sign-in provider does."
            )
        if wanted and wanted.casefold() != account.casefold():
            _refuse(
                f"E-mail goes to the address of your own account, {account}, and to no other. Leave the address out."
            )
        return checked_mailbox(account)
    wanted = checked_mailbox(wanted)
    domain = wanted.rpartition("@")[2].casefold()
    if Receiver("mail", domain, 0) not in receivers:
        listed = ", ".join(sorted(each.host for each in receivers if each.kind == "mail")) or "none"
        _refuse(
            f"E-mail may not go to {domain}. Domains of this lab: {listed}. An admin adds one: python -m "
            "engine notify hosts --add-domain DOMAIN"
        )
    return wanted


def checked_mailbox(text: str) -> str:
    """Return an e-mail address as it is; raises ConfigError for what is none."""
    local, _, domain = text.rpartition("@")
    plain = text.isascii() and text.isprintable() and not any(mark in text for mark in ' <>()[]",:;\\\r\n')
    if not plain or not local or "@" in local or "." not in domain.strip(".") or len(text) > 254:
        _refuse("An e-mail address looks like ada@lab.org, in plain letters.")
    return text


def shortened(kind: Kind, address: str) -> str:
    """Return as much of an address as may be shown: of a webhook its host and the last characters, of e-mail all."""
    if kind == "email":
        return address or "the address of the account"
    parts = urlsplit(address)
    secret = f"{parts.path}?{parts.query}" if parts.query else parts.path
    end = f"/…{secret[-SHOWN:]}" if len(secret) >= LEAST_SECRET else "/…"
    return f"{parts.netloc.rpartition('@')[2]}{end}"


def read_receiver(kind: ReceiverKind, text: str) -> Receiver:
    """Return what an admin typed as a receiver: `host` or `host:port`, for e-mail a domain; raises ConfigError."""
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
        _refuse(
            "A receiver is a host's name such as hooks.example.org, where need be with a port behind a colon, "
            f"got '{text[:80]}'."
        )
    if kind == "mail":
        if port is not None or "." not in host:
            _refuse(f"A domain of e-mail looks like lab.org, without a port, got '{text[:80]}'.")
        return Receiver("mail", host, 0)
    if kind == "internal" and port is None:
        _refuse(
            "A receiver inside the lab's network is listed with its port, such as receiver.lab:8080, got "
            f"'{text[:80]}'."
        )
    return Receiver(kind, host, port or HTTPS_PORT)


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError([Problem("address", sentence)])
