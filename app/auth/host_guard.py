"""What stands before every request: the Host is ours, no foreign page asks through a person's browser, and answers
carry safe headers.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.base_path import inside
from app.core.visitor import is_secure

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OURS = ("/api/", "/healthz", "/metrics", "/vendor/")
POLICY_VIOLATION = 1008
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?")


class Guard:
    """ASGI middleware that refuses unknown Hosts, and foreign pages whatever they want but a link to a page.

    Streamlit's own rule would let pages of any port of this machine open its socket, and look up the machine's address
    elsewhere to decide.
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
                "This console does not answer to that host name; open it by the address it printed at its start.",
            )
        if _is_foreign(headers, host) and (path.startswith(OURS) or not _is_link(method, headers)):
            return 403, "This address answers only to the console's own pages."
        return None


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Say whether another site's page sent the request; one without an Origin comes from no page or from our own. A
    socket always has an Origin.
    """
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        return True
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "websocket"


def _is_link(method: str, headers: Mapping[str, str]) -> bool:
    """Say whether a person followed a link, which may stand on any page; it changes nothing, and the other page does
    not see the answer.
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
    """Return a cookie that is never sent unencrypted; Streamlit leaves that open for its own."""
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
