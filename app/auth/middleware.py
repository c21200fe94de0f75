"""The door before pages, routes and sockets: nobody comes in who has not signed in, and no other machine where nobody
has to.
"""

import asyncio
import ipaddress
import logging
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth import bearer
from app.auth.error_pages import refusal, wants_page
from app.auth.host_guard import POLICY_VIOLATION
from app.auth.last_seen import Uses
from app.core.base_path import at, inside
from app.core.shared_reader import SharedReader
from app.core.visitor import Visitor, visitor
from engine.access.providers import CALLBACK
from engine.access.rules import LOST
from engine.errors import EngineError, StoreError
from engine.home import Home

log = logging.getLogger(__name__)
HEALTH = "/healthz"
PUBLIC = frozenset({HEALTH, "/signin", "/signout", "/signin/provider", "/auth/login", "/auth/logout", CALLBACK})
"""What answers to everybody: whether the console lives, and the ways in and out."""
VISITOR = "parallab.visitor"
"""Where routes find the visitor in their scope."""
FAR = (
    "This console has no sign-in, so it answers on loopback alone. Give the lab its first account (python -m "
    "engine users add NAME --role admin)"
    " or an OpenID provider (docs/signing-in.md), or open it from its own machine."
)
CLOSED = (
    "The lab's store can't be read at this moment, so nobody is let in. Try again in a moment; the console's log "
    "says why."
)
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""What a proxy adds: it stands on this machine, those who come through it need not."""
AGAIN_S = (0.1, 0.4, 1.5)
"""After so long each a store that can't be asked is asked again, before an open socket is closed."""


class Gate:
    """ASGI middleware that lets in whoever has signed in; everyone in a lab without accounts, and then from this
    machine alone.
    """

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
        elif scope["type"] == "websocket" and found.welcome:
            await self.app(scope, self._while_welcome(scope, receive, send), send)
        elif bearer.takes_tokens(scope) and (refused := bearer.refusal(scope, found)):
            await refused(scope, receive, send)
        elif found.welcome or inside(scope["path"]) in PUBLIC:
            await self.app(scope, receive, _never_kept(send) if found.who else send)
        elif scope["type"] == "http":
            await self._way_in(scope)(scope, receive, send)
        else:
            await self._refuse(scope, receive, send, 401, "")

    def _visitor(self, scope: Scope) -> Visitor:
        """Return who asks; raises EngineError where the store can't be asked, or where the one with the accounts has
        gone.
        """
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
        """Write why nobody is let in, once for all who ask meanwhile."""
        if sentence != self._told:
            log.warning("Nobody is let in: %s", sentence)
        self._told = sentence

    def _while_welcome(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """Return what hears the browser's messages, each of which asks anew: a socket that is open outlives no
        sign-out.
        """

        async def heard() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive" or await self._is_welcome(scope):
                return message
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "signed out"})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": "signed out"}

        return heard

    async def _is_welcome(self, scope: Scope) -> bool:
        """Say whether the person at a socket is still signed in; a store that is held for a moment is waited for."""
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
        if not wants_page(scope):
            return JSONResponse({"error": "Sign in first."}, 401, {"cache-control": "no-store"})
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(
            at("/signin") if wanted in ("/", at("/")) else f"{at('/signin')}?next={quote(wanted, safe='/')}", 303
        )


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
    """Say whether a request came from and to an address of loopback, and through no proxy; what has no address (a
    socket file, a test) is near.
    """
    if any(name in Headers(scope=scope) for name in FORWARDED):
        return False
    ends = (scope.get("server"), scope.get("client"))
    return all(end is None or end[1] is None or is_loopback(end[0]) for end in ends)


def is_loopback(address: str) -> bool:
    """Say whether an address reaches this machine alone."""
    try:
        return ipaddress.ip_address(address.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"
