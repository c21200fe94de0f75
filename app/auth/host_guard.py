"""Checks before every request: allowed Host, no cross-site requests, and security headers on responses."""

import re
from collections.abc import Callable, Iterable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.assets import inside
from app.core.visitor import is_secure

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
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
