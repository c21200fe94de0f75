"""The short way for polled routes, and how it slows open pages down while the console does not keep up.

Every open page asks these routes again and again. They are answered right behind the gate, past Streamlit's own
middleware, which takes longer than the answer. docs/decisions/caches.md draws the whole way.
"""

import asyncio
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SLOWER = "x-slower"
"""The header with the factor on the usual polling interval, which chart.js and pulse.js heed; none where it is 1."""
LOOK_S = 0.25
AVERAGED_LOOKS = 20
"""Looks in the running average: five seconds of them."""
USUAL_S = 0.05
"""A loop that is no later than this on average keeps up."""
MOST = 4.0
"""News of a live run still comes every three or four seconds."""


class Backpressure:
    """The lateness of one event loop, and how much less often pages should poll because of it.

    A loop that gets its turns late has more to do than its core can, or shares the core with others.
    """

    def __init__(self) -> None:
        self.late_s = 0.0
        """Average over the last seconds."""

    @property
    def slower(self) -> float:
        """The factor on a page's polling interval: 1 to `MOST`, in tenths."""
        return round(min(MOST, max(1.0, self.late_s / USUAL_S)), 1)

    def note(self, late_s: float) -> None:
        """Take in how much later than due the loop came round."""
        self.late_s += (max(0.0, late_s) - self.late_s) / AVERAGED_LOOKS

    async def keep(self) -> None:
        """Measure the lateness of the running loop every `LOOK_S`, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.note(clock() - due)


backpressure = Backpressure()
"""That of the console's own loop: one console is one process."""


class PollingRoutes:
    """ASGI middleware that hands a GET of one of the routes to it; all else goes on to `app`."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route], backpressure: Backpressure) -> None:
        self.app = app
        self.routes = {route.path: route for route in routes}
        self.backpressure = backpressure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        found, more = route.matches(scope)
        assert found is Match.FULL, f"{route.path} is a path without parameters"
        scope.update(more, route=route)
        slower = self.backpressure.slower

        async def send_slower(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[SLOWER] = f"{slower:g}"
            await send(message)

        await route.handle(scope, receive, send_slower if slower > 1 else send)
