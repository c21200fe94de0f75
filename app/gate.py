"""The door before pages, routes and sockets: nobody comes in who has not signed in, and no other machine where nobody has to."""

import ipaddress
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.doorway import Visitor, visitor
from app.open_reader import OpenReader
from engine.errors import EngineError
from engine.home import Home

PUBLIC = frozenset({"/healthz", "/signin", "/signout"})
"""What answers to everybody: whether the console lives, and the way in."""
VISITOR = "parallab.visitor"
"""Where routes find the visitor in their scope."""
FAR = (
    "This console has no sign-in, so it answers on loopback alone. Give the lab its first account (python -m engine users add NAME --role admin),"
    " or open it from its own machine."
)
POLICY_VIOLATION = 1008


class Gate:
    """ASGI middleware that lets in whoever has signed in; everyone in a lab without accounts, and then from this machine alone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.readers = OpenReader()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            found = self._visitor(scope)
        except EngineError as error:
            await self._refuse(scope, receive, send, JSONResponse({"error": str(error)}, 503))
            return
        scope[VISITOR] = found
        if not found.asked and not is_near(scope):
            await self._refuse(scope, receive, send, JSONResponse({"error": FAR}, 403))
        elif scope["type"] == "websocket" and found.welcome:
            await self.app(scope, self._while_welcome(scope, receive), send)
        elif found.welcome or scope["path"] in PUBLIC:
            await self.app(scope, receive, _never_kept(send) if found.who else send)
        else:
            await self._refuse(scope, receive, send, self._way_in(scope))

    def _visitor(self, scope: Scope) -> Visitor:
        cookies = HTTPConnection(scope).cookies
        return self.readers.ask(Home.find(), lambda reader: visitor(reader, cookies))

    def _while_welcome(self, scope: Scope, receive: Receive) -> Receive:
        """Return what hears the browser's messages, each of which asks anew: a socket that is open outlives no sign-out."""

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                try:
                    welcome = self._visitor(scope).welcome
                except EngineError:
                    welcome = True  # the store is held for a moment: the page itself says so
                if not welcome:
                    return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": "signed out"}
            return message

        return heard

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
        if scope["type"] == "http":
            await answer(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})

    def _way_in(self, scope: Scope) -> Response:
        wants_page = "text/html" in Headers(scope=scope).get("accept", "") and scope["method"] == "GET"
        if not wants_page or scope["path"].startswith("/api/"):
            return JSONResponse({"error": "Sign in first."}, 401, {"cache-control": "no-store"})
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse("/signin" if wanted == "/" else f"/signin?next={quote(wanted, safe='/')}", 303)


def _never_kept(send: Send) -> Send:
    """Return what sends answers whose pages no browser keeps: after a sign-out the way back must not show one."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if headers.get("content-type", "").startswith("text/html"):
                headers["cache-control"] = "no-store"
        await send(message)

    return sent


def is_near(scope: Scope) -> bool:
    """Say whether a request came to an address of loopback; one without an address (a socket file, a test) is near."""
    host, port = scope.get("server") or ("", None)
    if port is None:
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return host in ("localhost", "testserver")
