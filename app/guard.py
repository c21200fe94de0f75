"""What stands before every request: the Host is ours, no foreign page asks through a person's browser, and answers carry safe headers."""

import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OURS = ("/api/", "/healthz", "/vendor/")
FORMS = ("/signin", "/signout", "/password")
"""Where our own forms go; a link from elsewhere may lead there."""
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?")


class Guard:
    """ASGI middleware that refuses unknown Hosts and, on our own routes, foreign origins."""

    def __init__(self, app: ASGIApp, hosts: Callable[[], Iterable[str]] = lambda: LOOPBACK) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["method"], scope["path"], headers)
        answer = JSONResponse({"error": refusal[1]}, refusal[0]) if refusal else self.app
        await answer(scope, receive, _with_headers(send, headers.get("host", "")))

    def _refusal(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not _PLAIN_HOST.fullmatch(host) or not _known(_name_of(host), self.hosts()):
            return 400, "This console does not answer to that host name; open it by the address it printed at its start."
        if (path.startswith(OURS) or (path in FORMS and method == "POST")) and _is_foreign(headers, host):
            return 403, "This address answers only to the console's own pages."
        return None


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Say whether another site's page sent the request; a request without an Origin comes from no page or from our own."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return True
    return headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _name_of(host: str) -> str:
    return re.sub(r":\d+$", "", host).lower()


def _known(name: str, hosts: Iterable[str]) -> bool:
    return any(pattern == "*" or name == pattern.lower() or (pattern.startswith("*.") and name.endswith(pattern[1:].lower())) for pattern in hosts)


def _with_headers(send: Send, host: str) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _safe_headers(host).items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


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
