"""The fast path for polled routes, and the backpressure on open pages while the console is overloaded.

Every open page polls these routes. They are answered right behind the gate and bypass Streamlit's middleware, which
takes longer than the response. `routes.py` makes the answers; docs/decisions/caches.md shows the whole path.
"""

import asyncio
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SLOWER = "x-slower"
"""The header with the factor on the polling interval, used by chart.js and pulse.js; omitted if it is 1."""
LOOK_S = 0.25
AVERAGED_LOOKS = 20
"""Measurements in the running average: five seconds."""
USUAL_S = 0.05
"""Average lateness up to which the loop is not overloaded."""
MOST_LOAD = 4.0
"""Greatest factor: live runs are still updated every three or four seconds."""


class Backpressure:
    """The lateness of one event loop, and the resulting factor on polling intervals.

    A late loop is overloaded, or shares its core with other processes.
    """

    def __init__(self) -> None:
        self.late_s = 0.0
        """Average lateness over the last seconds."""

    @property
    def slower(self) -> float:
        """Factor on a page's polling interval: 1 to `MOST`, in tenths."""
        return round(min(MOST_LOAD, max(1.0, self.late_s / USUAL_S)), 1)

    def note(self, late_s: float) -> None:
        """Add one measurement of the lateness."""
        self.late_s += (max(0.0, late_s) - self.late_s) / AVERAGED_LOOKS

    async def keep(self) -> None:
        """Measure the lateness of the running loop every `LOOK_S`, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.note(clock() - due)


backpressure = Backpressure()
"""The backpressure of the console's loop: one console is one process."""


class PollingRoutes:
    """ASGI middleware that handles GET requests for its routes; all others go to `app`."""

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
