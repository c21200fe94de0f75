"""The OpenID providers of a lab: Streamlit's `[auth]` section of secrets.toml, and the roles of their groups in
`[parallab]`.

The file is read once, when the console starts. An invalid file stops the console: a lab that configures sign-in must
not open without it.
"""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict

from engine.access.rules import ROLES, Role
from engine.errors import ConfigError
from engine.home import ROOT

FILE = "PARALLAB_SECRETS"
"""Environment variable: path of a file to use instead of .streamlit/secrets.toml."""
CALLBACK = "/oauth2callback"
"""Streamlit's redirect path."""
SECRET_LENGTH = 32
_DEFAULT = "default"
_NEEDED = ("client_id", "client_secret", "server_metadata_url")


class Rules(BaseModel):
    """The rules in `[parallab]` for people who sign in at a provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    groups_claim: str = "groups"
    """Claim with a person's groups; dots access nested claims, as in realm_access.roles."""
    roles: dict[Role, tuple[str, ...]] = {}
    """Groups of each role; members of several get the highest role."""
    default_role: Role | None = None
    """Role of people in none of these groups; without one they can't sign in."""
    names: dict[str, str] = {}
    """Label of each provider, by its section's name or default."""


@dataclass(frozen=True)
class Provider:
    """One provider that people can sign in at."""

    key: str
    """Streamlit's name: default, or the section's name."""
    label: str


@dataclass(frozen=True)
class Providers:
    """All configured providers; empty without OpenID Connect."""

    found: tuple[Provider, ...] = ()
    rules: Rules = field(default_factory=Rules)
    auth: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Streamlit's settings, including secrets."""

    def label_of(self, key: str) -> str:
        """Return the label of a provider."""
        return next((each.label for each in self.found if each.key == key), "the provider")


@cache
def configured() -> Providers:
    """Return the lab's providers, read once; raises ConfigError for an invalid file."""
    named = os.environ.get(FILE)
    path = Path(named) if named else ROOT / ".streamlit" / "secrets.toml"
    if not named and not path.exists():
        return Providers()
    return read(path)


def read(path: Path) -> Providers:
    """Return the providers of a secrets file, none without `[auth]`; raises ConfigError, whose message never contains a
    secret.
    """
    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, f"it can't be read: {error.strerror}") from None
    except ValueError as error:
        raise _wrong(path, f"not valid TOML in UTF-8 ({_place(error)})") from None
    auth, ours = whole.get("auth"), whole.get("parallab", {})
    if auth is None:
        return Providers()
    if not isinstance(auth, dict) or not isinstance(ours, dict):
        raise _wrong(path, "auth and parallab must be sections: [auth], [parallab]")
    _check_shared(path, auth)
    rules = _rules(path, ours)
    named = {key: each for key, each in auth.items() if isinstance(each, dict) and key != "client_kwargs"}
    sections = ({_DEFAULT: auth} if "client_id" in auth else {}) | named
    if not sections:
        raise _wrong(
            path,
            (
                "[auth] has no provider: it needs client_id, client_secret and server_metadata_url, or sections "
                "such as [auth.keycloak] with these"
            ),
        )
    found = tuple(_provider(path, key, each, rules) for key, each in sections.items())
    if strange := sorted(set(rules.names) - set(sections)):
        raise _wrong(
            path,
            (
                f"[parallab.names] has the provider '{strange[0]}', which is not in [auth]. Providers: "
                f"{', '.join(sections)}"
            ),
        )
    return Providers(found, rules, auth)


def _check_shared(path: Path, auth: Mapping[str, Any]) -> None:
    back = auth.get("redirect_uri")
    if not isinstance(back, str) or not back.endswith(CALLBACK):
        raise _wrong(
            path,
            (
                f"redirect_uri of [auth] must be the console's address followed by {CALLBACK}, such as "
                f"https://lab.example.org{CALLBACK}"
            ),
        )
    if not _is_private(back):
        raise _wrong(
            path,
            f"redirect_uri '{back}' must start with https://, because sign-ins would be unencrypted",
        )
    secret = auth.get("cookie_secret")
    if not isinstance(secret, str) or len(secret) < SECRET_LENGTH:
        raise _wrong(
            path,
            (
                f"cookie_secret of [auth] must have at least {SECRET_LENGTH} random characters, such as the output "
                "of openssl rand -hex 32"
            ),
        )


def _provider(path: Path, key: str, section: Mapping[str, Any], rules: Rules) -> Provider:
    where = "[auth]" if key == _DEFAULT else f"[auth.{key}]"
    if "_" in key:
        raise _wrong(path, f"{where}: Streamlit doesn't support underscores in provider names")
    if missing := [name for name in _NEEDED if not isinstance(section.get(name), str) or not section[name].strip()]:
        raise _wrong(path, f"{where} lacks {' and '.join(missing)}")
    address = section["server_metadata_url"]
    if not _is_private(address):
        raise _wrong(
            path,
            (
                f"server_metadata_url of {where}, '{address}', must start with https://, because others on the "
                "network could forge sign-ins"
            ),
        )
    usual = urlsplit(address).hostname if key == _DEFAULT else key
    return Provider(key, rules.names.get(key) or usual or key)


def _rules(path: Path, section: Mapping[str, Any]) -> Rules:
    try:
        return Rules.model_validate(section)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part != "[key]")
        hint = (
            (f"; roles are {', '.join(ROLES)}")
            if "role" in where
            else f"; known settings: {', '.join(Rules.model_fields)}"
        )
        raise _wrong(path, f"parallab.{where}: {first['msg'].lower()}{hint}") from None


def _is_private(address: str) -> bool:
    """Return whether traffic to an address is protected: HTTPS, or this machine itself."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and _is_here(str(parts.hostname)))
        )
    except ValueError:
        return False


def is_of_this_machine(address: str) -> bool:
    """Return whether a web address leads to the machine that it is opened on."""
    try:
        return _is_here(urlsplit(address).hostname or "")
    except ValueError:
        return False


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _place(error: ValueError) -> str:
    """Return the position of a TOML error, without the text there, which may be a secret."""
    if isinstance(error, tomllib.TOMLDecodeError):
        found = str(error).rpartition("(")
        return found[2].rstrip(")") if found[1] else "at the end of the file"
    return "a byte that is not UTF-8"


def _wrong(path: Path, why: str) -> ConfigError:
    return ConfigError.of("secrets", f"Invalid sign-in configuration {path}: {why}. See docs/signing-in.md.")
