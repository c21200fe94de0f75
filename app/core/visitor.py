"""The visitor of a request: the person that its cookies prove, the name that its browser gives, its address."""

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from itsdangerous import BadSignature, URLSafeSerializer, URLSafeTimedSerializer
from starlette.requests import HTTPConnection

from app.core.assets import at, base, inside
from engine.access import command_link
from engine.access.providers import CALLBACK, configured
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, SignedIn
from engine.store.access.people import checked_name
from engine.store.access.sign_ins import key_of

# ---- The name that a browser gives: requested once and kept in a signed cookie -------------------------------------
# A name proves nothing; it only tells people's runs apart. Nothing here imports Streamlit.

NAME_COOKIE = "parallab_name"
COOKIE_AGE_S = 365 * 24 * 3600
HANDOVER_AGE_S = 60


def sign(home: Home, name: str) -> str:
    """Return the cookie that carries `name`."""
    return URLSafeSerializer(key(home), salt="name").dumps(name)


def read(home: Home, cookie: str | None) -> str | None:
    """Return the name in a cookie, or None without one or with an invalid signature."""
    if not cookie:
        return None
    try:
        return checked_name(URLSafeSerializer(key(home), salt="name").loads(cookie))
    except (BadSignature, ConfigError):
        return None


def hand_over(home: Home, name: str) -> str:
    """Return a proof, valid for a minute, that a cookie was just set.

    A page's WebSocket has the cookies of the time when it was opened, so the page needs the proof to see a new one.
    """
    return URLSafeTimedSerializer(key(home), salt="handover").dumps(name)


def take_over(home: Home, proof: object) -> str | None:
    """Return the name in a proof of `hand_over`, or None if it is forged or expired."""
    if not isinstance(proof, str):
        return None
    try:
        return checked_name(URLSafeTimedSerializer(key(home), salt="handover").loads(proof, max_age=HANDOVER_AGE_S))
    except (BadSignature, ConfigError):
        return None


def key(home: Home) -> str:
    """Return the key that signs cookies; created on first use, readable only by its owner."""
    path = home.create().cookie_key
    if not path.exists():
        aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        aside.touch(mode=0o600)
        aside.write_text(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process made it first: its key counts
            os.link(aside, path)
        aside.unlink()
    return path.read_text()


# ---- The proof that a browser was opened by this console's link, so that it may launch commands --------------------
# In a lab without accounts; `engine.access.command_link` has the secret. A cookie ends with the secret that signed it.

LINK_AGE_S = 7 * 24 * 3600
_proved: ContextVar[bool | None] = ContextVar("proved", default=None)
SCRIPT_REFUSAL = (
    "A command needs the secret of this console's link: send it as Authorization: Bearer SECRET. parallab_client reads "
    "it from the home in PARALLAB_HOME if you own it, and python -m engine link prints it."
)


def link_cookie(home: Home) -> str:
    """Return the name of the cookie, one for each home: consoles at several ports of a host share its cookies."""
    return f"parallab_link_{hashlib.sha256(key(home).encode()).hexdigest()[:8]}"


def sign_link(home: Home) -> str:
    """Return the cookie for a browser that was opened by the current link."""
    return _link_signer(home).dumps(secrets.token_hex(8))


def came_by_link(home: Home, cookies: Mapping[str, object]) -> bool:
    """Return whether cookies prove that the browser was opened by the home's current link."""
    shown = cookies.get(link_cookie(home))
    try:
        return isinstance(shown, str) and bool(_link_signer(home).loads(shown, max_age=LINK_AGE_S))
    except BadSignature:
        return False


def _link_signer(home: Home) -> URLSafeTimedSerializer:
    link = command_link.current(home)
    return URLSafeTimedSerializer(link.secret if link else secrets.token_hex(32), salt="command link")


@contextmanager
def shown_secret(home: Home, given: str | None) -> Iterator[None]:
    """Let the block, of a request of a script, launch commands if the text `given` is the secret of the home's link."""
    before = _proved.set(given is not None and command_link.proves(home, given))
    try:
        yield
    finally:
        _proved.reset(before)


def why_no_commands(home: Home, cookies: Mapping[str, object]) -> str:
    """Return why a browser with these cookies, or a script within `shown_secret`, may launch no commands in a lab
    without accounts; empty if it may.
    """
    if (proved := _proved.get()) is not None:
        return "" if proved else SCRIPT_REFUSAL
    return "" if came_by_link(home, cookies) else command_link.REFUSAL


# ---- The visitor of a request: the person that its cookies prove, and whether a sign-in is required ----------------
# Nothing here imports Streamlit.

COOKIE = "parallab_session"
DOORS = ("/signin", "/signout", "/auth/", CALLBACK, "/api/")
"""Paths that are no target after a sign-in."""
STRICT_COOKIE = f"__Host-{COOKIE}"
"""The cookie's name over HTTPS: browsers accept it only from this host, over HTTPS and for the path /, so a console
with a base path can't use it.
"""
HTTPS = "PARALLAB_HTTPS"
"""Set to 1 behind a proxy that terminates HTTPS, so that cookies are sent only over HTTPS."""


@dataclass(frozen=True)
class Visitor:
    """The visitor of a request."""

    asked: bool
    """Whether a sign-in is required: the lab has accounts, or a provider whose users get one."""
    who: SignedIn | None
    """The signed-in person, None for nobody."""
    key: str = ""
    """The store's key of the sign-in."""

    @property
    def welcome(self) -> bool:
        return self.who is not None or not self.asked


def visitor(reader: Reader, cookies: Mapping[str, str]) -> Visitor:
    """Return the visitor with these cookies; raises StoreError if the lab has lost its accounts."""
    reader.access.require_accounts()
    key = key_in(cookies)
    return Visitor(
        bool(configured().found) or reader.access.has_people(), reader.sign_ins.signed_in(key) if key else None, key
    )


def key_in(cookies: Mapping[str, object]) -> str:
    """Return the store's key of the sign-in in cookies, empty without one."""
    names = (STRICT_COOKIE,) if is_secure("") and not base() else (STRICT_COOKIE, COOKIE)
    for shown in map(cookies.get, names):
        if isinstance(shown, str) and shown:
            return key_of(shown)
    return ""


def visitor_now(cookies: Mapping[str, str]) -> Visitor:
    """Return the visitor by the home's store; raises StoreError, StoreBusy, StoreTooNew."""
    with Reader.open(Home.find()) as reader:
        return visitor(reader, cookies)


def is_secure(scheme: str) -> bool:
    """Return whether cookies get the Secure attribute: visitors use HTTPS, here or at the proxy."""
    return scheme in ("https", "wss") or os.environ.get(HTTPS) == "1"


def cookie_name(scheme: str) -> str:
    """Return the name of the sign-in cookie for a scheme."""
    return STRICT_COOKIE if is_secure(scheme) and not base() else COOKIE


def safe_way(wanted: str) -> str:
    """Return the requested path if it is a safe target on this console after a sign-in, else the first page."""
    plain = (
        wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() and "\\" not in wanted
    )
    ours = wanted.startswith(f"{base()}/") and not inside(wanted).startswith(DOORS)
    return wanted if plain and ours else at("/")


# ---- The client address of a request: of the peer, or as forwarded by a proxy in front of the console --------------
# uvicorn trusts `X-Forwarded-For` from loopback (or `FORWARDED_ALLOW_IPS`), whether a proxy or a local user
# connects. So a console without a proxy trusts no header.

PEER = "parallab.peer"
"""Key of the peer's address in the state of a request."""
OF_A_PROXY = ("FORWARDED_ALLOW_IPS", "PARALLAB_HTTPS", "PARALLAB_HOSTS")
"""Settings of a console behind a proxy; without any of them it answers only to loopback names."""


def place(request: HTTPConnection, environment: Mapping[str, str] = os.environ) -> str:
    """Return the client address of a request; empty for a Unix socket."""
    peer = request.scope.get("state", {}).get(PEER)
    if peer and not any(environment.get(name) for name in OF_A_PROXY):
        return str(peer)
    return request.client.host if request.client else ""
