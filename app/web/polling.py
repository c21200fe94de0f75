"""What every open page asks again and again: answered right behind the gate, past Streamlit's own middleware, which
took longer than the answer itself.

Each answer says how much less often to ask while the console does not keep up (app/web/backpressure.py); chart.js and
pulse.js heed it.
"""

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.backpressure import Backpressure

SLOWER = "x-slower"
"""The header that says how many times as long as usual to wait; an answer without it asks for nothing."""


class Often:
    """ASGI middleware that hands a GET of one of the routes to it; all else goes on to `app`."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route], pace: Backpressure) -> None:
        self.app = app
        self.routes = {route.path: route for route in routes}
        self.pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        found, more = route.matches(scope)
        assert found is Match.FULL, f"{route.path} is a path without parameters"
        scope.update(more, route=route)
        slower = self.pace.slower

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[SLOWER] = f"{slower:g}"
            await send(message)

        await route.handle(scope, receive, sent if slower > 1 else send)
