"""Access control for pages, routes and sockets: sign-in required with accounts, loopback only without."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from urllib.parse import quote, unquote_plus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth import bearer
from app.core.assets import at, cookie_path, inside, render
from app.core.caches import NEVER_STORE, SharedReader
from app.core.console_address import FAR, LOOPBACK, is_loopback
from app.core.visitor import LINK_AGE_S, Visitor, is_secure, link_cookie, safe_way, sign_link, visitor
from engine.access import command_link
from engine.access.agents import acting_through
from engine.access.providers import CALLBACK
from engine.access.rules import LOST
from engine.errors import EngineError, StoreError
from engine.home import Home
from engine.store import Store
from engine.store.access.sign_ins import SEEN_EVERY_S

# ---- Checks before every request: allowed Host, no cross-site requests, and security headers on responses ----------

OURS = ("/api/", "/healthz", "/metrics", "/vendor/")
POLICY_VIOLATION = 1008
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?")


class Guard:
    """ASGI middleware that refuses unknown Hosts and cross-site requests, except links to pages.

    Streamlit's own rule would let pages on any port of this machine open its socket, and would ask an external service
    for the machine's address.
    """

    def __init__(self, app: ASGIApp, hosts: Callable[[], Iterable[str]] = lambda: LOOPBACK) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope.get("method", "websocket"), inside(scope["path"]), headers)
        if scope["type"] == "websocket" and refusal:
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        answer = JSONResponse({"error": refusal[1]}, refusal[0]) if refusal else self.app
        headed = _with_headers(send, headers.get("host", ""), is_secure(scope.get("scheme", "http")))
        await answer(scope, receive, send if scope["type"] == "websocket" else headed)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if (
            len(headers.getlist("host")) != 1
            or not _PLAIN_HOST.fullmatch(host)
            or not _known(_name_of(host), self.hosts())
        ):
            return (
                400,
                "Unknown host name. Use the address printed at the console's start, or add the name to PARALLAB_HOSTS.",
            )
        if _is_foreign(headers, host) and (path.startswith(OURS) or not _is_link(method, headers)):
            return 403, "Cross-site request refused: only the console's own pages can use this address."
        return None


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Say whether another site's page sent the request. Requests without an Origin come from no page or from our own;
    sockets always have an Origin.
    """
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        return True
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "websocket"


def _is_link(method: str, headers: Mapping[str, str]) -> bool:
    """Say whether the request follows a link, which is allowed from any site: it changes nothing, and the other page
    doesn't see the response.
    """
    return (
        method in ("GET", "HEAD")
        and "origin" not in headers
        and headers.get("sec-fetch-mode", "navigate") == "navigate"
    )


def _name_of(host: str) -> str:
    return re.sub(r":\d+$", "", host).lower()


def _known(name: str, hosts: Iterable[str]) -> bool:
    return any(
        pattern == "*" or name == pattern.lower() or (pattern.startswith("*.") and name.endswith(pattern[1:].lower()))
        for pattern in hosts
    )


def _with_headers(send: Send, host: str, secure: bool) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _safe_headers(host).items():
                headers.setdefault(name, value)
            if secure:
                message["headers"] = [
                    (name, _over_https(value) if name == b"set-cookie" else value) for name, value in message["headers"]
                ]
        await send(message)

    return wrapped


def _over_https(cookie: bytes) -> bytes:
    """Return the cookie with the Secure attribute, which Streamlit doesn't set on its own."""
    return cookie if b"; secure" in cookie.lower() else cookie + b"; Secure"


def _safe_headers(host: str) -> dict[str, str]:
    sockets = f" ws://{host} wss://{host}" if _PLAIN_HOST.fullmatch(host) else ""
    policy = {
        "default-src": "'self'",
        "script-src": "'self' 'unsafe-inline' blob:",  # Streamlit imports a component's script as a blob
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": f"'self'{sockets}",
        "worker-src": "'self' blob:",
        "frame-ancestors": "'none'",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
    }


# ---- Access control for pages, routes and sockets: sign-in required with accounts, loopback only without -----------

log = logging.getLogger(__name__)
HEALTH = "/healthz"
PUBLIC = frozenset({HEALTH, "/signin", "/signout", "/signin/provider", "/auth/login", "/auth/logout", CALLBACK})
"""Public paths: health check, sign-in and sign-out."""
VISITOR = "parallab.visitor"
"""Key of the visitor in a request's scope."""
CLOSED = "Account database unavailable: access denied. Try again in a moment; see the console's log for the cause."
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers added by a proxy: the proxy is on this machine, its clients may not be."""
AGAIN_S = (0.1, 0.4, 1.5)
"""Delays between retries of an unavailable store, before an open socket is closed."""


class Gate:
    """ASGI middleware that admits signed-in visitors; without accounts, all visitors from this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.readers = SharedReader()
        self.uses = Uses()
        self._had_accounts: set[Path] = set()
        self._told = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            found = self._visitor(scope)
        except EngineError as error:
            self._tell(str(error))
            if inside(scope["path"]) != HEALTH:
                await self._refuse(
                    scope, receive, send, 503, Home.find().unnamed(str(error)) if is_near(scope) else CLOSED
                )
                return
            found = Visitor(True, None)
        else:
            self._told = ""
        scope[VISITOR] = found
        if not found.asked and not is_near(scope):
            await self._refuse(scope, receive, send, 403, FAR)
        elif answer := without_secret(scope, found) or (bearer.takes_tokens(scope) and bearer.refusal(scope, found)):
            await answer(scope, receive, send)
        elif scope["type"] == "websocket" and found.welcome:
            await self.app(scope, self._while_welcome(scope, receive, send), send)
        elif found.welcome or inside(scope["path"]) in PUBLIC:
            with acting_through(bearer.agent_of(scope, found)):
                await self.app(scope, receive, _never_kept(send) if found.who else send)
        elif scope["type"] == "http":
            await self._way_in(scope)(scope, receive, send)
        else:
            await self._refuse(scope, receive, send, 401, "")

    def _visitor(self, scope: Scope) -> Visitor:
        """Return the visitor; raises EngineError where the store is unavailable or its accounts have disappeared."""
        home, token, cookies = Home.find(), bearer.token_of(scope), HTTPConnection(scope).cookies
        found = self.readers.answer(
            home, lambda reader: visitor(reader, cookies) if token is None else bearer.visitor(reader, token)
        )
        if found.asked:
            self._had_accounts.add(home.path)
        elif home.path in self._had_accounts:
            raise StoreError(LOST)
        if found.who:
            self.uses.note(home, found.key)
        return found

    def _tell(self, sentence: str) -> None:
        """Log why access is denied, once per cause."""
        if sentence != self._told:
            log.warning("Access denied to all: %s", sentence)
        self._told = sentence

    def _while_welcome(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """Return a receiver that checks the sign-in on each message, so that an open socket closes after sign-out."""

        async def heard() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive" or await self._is_welcome(scope):
                return message
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "signed out"})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": "signed out"}

        return heard

    async def _is_welcome(self, scope: Scope) -> bool:
        """Say whether a socket's visitor is still signed in; retries while the store is locked."""
        for wait_s in AGAIN_S:
            try:
                return self._visitor(scope).welcome
            except EngineError:
                await asyncio.sleep(wait_s)
        return False

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str) -> None:
        if scope["type"] == "http":
            await refusal(scope, status, sentence)(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})

    def _way_in(self, scope: Scope) -> Response:
        if not _wants_page(scope):
            return JSONResponse({"error": "Sign in first."}, 401, {"cache-control": "no-store"})
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(
            at("/signin") if wanted in ("/", at("/")) else f"{at('/signin')}?next={quote(wanted, safe='/')}", 303
        )


def without_secret(scope: Scope, found: Visitor) -> Response | None:
    """Return the redirect that takes the secret of the console's link out of a page's address, with the cookie that
    keeps it if it is the current one; None for other requests. Also takes it out of the server's log of requests.
    """
    path = inside(scope["path"])
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or path in PUBLIC or path.startswith(OURS):
        return None
    words = [(word, *word.partition("=")[::2]) for word in scope["query_string"].decode("latin-1").split("&")]
    given = [unquote_plus(value) for _, name, value in words if unquote_plus(name) == command_link.PARAMETER]
    if not given:
        return None
    query = "&".join(word for word, name, _ in words if unquote_plus(name) != command_link.PARAMETER)
    scope["query_string"] = query.encode("latin-1")
    wanted, home = safe_way(scope["path"] + (f"?{query}" if query else "")), Home.find()
    answer = RedirectResponse(wanted, 303, NEVER_STORE | {"referrer-policy": "no-referrer"})
    if not found.asked and command_link.proves(home, given[0]):
        secure = is_secure(scope.get("scheme", "http"))
        answer.set_cookie(
            link_cookie(home),
            sign_link(home),
            LINK_AGE_S,
            path=cookie_path(),
            httponly=True,
            samesite="strict",
            secure=secure,
        )
    return answer


def _never_kept(send: Send) -> Send:
    """Return a sender that disables caching of pages, so that Back shows none after sign-out."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if headers.get("content-type", "").startswith("text/html"):
                headers["cache-control"] = "no-store"
        await send(message)

    return sent


def is_near(scope: Scope) -> bool:
    """Say whether a request came from and to loopback, without a proxy; connections without address (socket file, test)
    count as near.
    """
    if any(name in Headers(scope=scope) for name in FORWARDED):
        return False
    ends = (scope.get("server"), scope.get("client"))
    return all(end is None or end[1] is None or is_loopback(end[0]) for end in ends)


def _wants_page(scope: Scope) -> bool:
    """Say whether a browser requests a page."""
    return (
        scope["method"] == "GET"
        and "text/html" in Headers(scope=scope).get("accept", "")
        and not scope["path"].startswith("/api/")
    )


def refusal(scope: Scope, status: int, sentence: str) -> Response:
    """Return the error response with its message."""
    headers = NEVER_STORE | ({"retry-after": "1"} if status == 503 else {})
    if _wants_page(scope):
        return HTMLResponse(render("sign_in/refused.html", said=sentence), status, headers)
    return JSONResponse({"error": sentence}, status, headers)


# ------------------------------------------------------------------------------------------------------------------
# Record the use of sign-ins, at most once per interval and off the event loop, so that only idle ones expire.

MOST = 5_000
"""Maximum number of sign-ins tracked in memory; the store also ignores updates that are too frequent."""


class Uses:
    """Recently recorded uses. Not thread-safe: for the server's event loop."""

    def __init__(self) -> None:
        self._noted: dict[str, float] = {}

    def note(self, home: Home, key: str) -> None:
        """Record the use of a sign-in in the store, unless recorded recently."""
        moment = monotonic()
        if moment - self._noted.get(key, -SEEN_EVERY_S) < SEEN_EVERY_S:
            return
        self._noted.pop(key, None)
        self._noted[key] = moment
        for old in list(self._noted)[:-MOST]:
            del self._noted[old]
        asyncio.get_running_loop().run_in_executor(None, _note, home, key)


def _note(home: Home, key: str) -> None:
    with (
        suppress(EngineError),
        Store.open(home, timeout_s=5.0) as store,
    ):  # a locked store is updated next time
        store.sign_ins.note_use(key)
