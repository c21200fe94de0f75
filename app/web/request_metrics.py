"""Metrics of HTTP requests: count and duration by method, route and status. Labels come from fixed tables, never from
the request, so that they stay few.
"""

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth.bearer import API
from app.core.assets import inside

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STREAMLIT = ("/_stcore/", "/static/", "/media/", "/component/", "/vendor/")
NO_ROUTE = "none"
FAILED, NEVER_BEGUN = "500", "499"
"""The status of a response that failed with an exception, and of one whose client disconnected (as in nginx)."""


class Requests:
    """The metrics of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answered = Counter(
            "parallab_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=registry
        )
        self.lasted = Histogram(
            "parallab_http_request_duration_seconds",
            "Time from a request's first byte to its response's last byte.",
            ["route"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.sockets = Gauge(
            "parallab_sockets_open",
            "Open WebSockets: one per open page.",
            registry=registry,
        )


class RequestCounter:
    """ASGI middleware that counts requests."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self.app = app
        self.requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            with self.requests.sockets.track_inprogress():
                await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._count(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = perf_counter(), NEVER_BEGUN

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception:
            status = FAILED if status == NEVER_BEGUN else status
            raise
        finally:
            route = route_of(scope)
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.requests.answered.labels(method, route, status).inc()
            self.requests.lasted.labels(route).observe(perf_counter() - began)


def route_of(scope: Scope) -> str:
    """Return the pattern of the route that answered, for Streamlit's routes only the kind; `none` if the request was
    refused before.
    """
    path = inside(scope["path"])
    found = getattr(scope.get("route"), "path", None)
    if not isinstance(found, str):
        return NO_ROUTE
    pattern = inside(found)
    if path.startswith(f"{API}/"):
        return f"{API}/*" if pattern == API else API + pattern
    kind = next((each for each in STREAMLIT if path.startswith(each)), None)
    if kind:
        return f"{kind}*"
    return pattern if "{" not in pattern and pattern == path else "page"
