"""Sign-in and sign-out: the form, its cookie, and the end of a sign-in. Plain HTML, so that no console code runs before
sign-in.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.auth import trusted_browser
from app.auth.form_fields import UNREAD, form_fields
from app.auth.middleware import VISITOR
from app.core.base_path import at, cookie_path
from app.core.caches import NEVER_STORE
from app.core.client_address import place
from app.core.templates import render
from app.core.visitor import Visitor, cookie_name, is_secure, safe_way
from engine.access.providers import configured
from engine.commands.accounts import AT_ONCE, sign_in
from engine.errors import EngineError, SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import LASTS_S, Way

MOST_WAITING = 24
"""Maximum number of pending sign-in checks; further ones are refused, so that a flood blocks nothing else."""
BUSY = "Too many concurrent sign-ins. Try again in a few seconds."
ONWARD = render("sign_in/signingout.html")
"""Page that continues to the provider's sign-out. A redirect is not possible: form-action forbids other sites."""
LOOK_S = 0.2
NOTHING: Mapping[str, str] = {}
_checks = ThreadPoolExecutor(AT_ONCE, "sign-in")
"""Separate threads, so that other routes stay responsive."""
_waiting: set[object] = set()


class ProviderWay(NamedTuple):
    """A provider's button: its address and label."""

    address: str
    label: str


def sign_in_routes() -> list[BaseRoute]:
    """Return the routes for sign-in and sign-out."""
    return [
        Route(at("/signin"), form),
        Route(at("/signin"), come_in, methods=["POST"]),
        Route(at("/signout"), stay),
        Route(at("/signout"), leave, methods=["POST"]),
    ]


async def form(request: Request) -> Response:
    """Show the form; redirect a signed-in visitor to the requested page."""
    wanted = safe_way(request.query_params.get("next", "/"))
    found: Visitor = request.scope[VISITOR]
    if found.welcome:
        return RedirectResponse(wanted, 303, NEVER_STORE)
    return page(wanted, said="You have signed out." if "out" in request.query_params else "")


async def come_in(request: Request) -> Response:
    """Check name and password; set a new cookie and end the previous sign-in."""
    fields = await form_fields(request)
    if fields is None:
        return page(at("/"), said=UNREAD, status=413, headers={"connection": "close"})
    wanted, name = safe_way(fields.get("next", "/")), fields.get("name", "")
    try:
        secret = await _checked(request, name, fields.get("password", ""))
    except SignInRefused as error:
        return page(wanted, name, str(error), 401)
    except EngineError as error:
        return page(wanted, name, str(error), 503)
    if secret is None:
        return page(wanted, name, BUSY, 503)
    await run_in_threadpool(end, request)
    return welcome(request, secret, wanted, trusted_browser.mark(Home.find(), name))


async def stay(request: Request) -> Response:
    """Redirect GET requests for the sign-out address, since a link must not sign out."""
    return RedirectResponse(at("/"), 303, NEVER_STORE)


async def leave(request: Request) -> Response:
    """End the sign-in and delete its cookie; continue to the provider's sign-out where one was used."""
    try:
        way = await run_in_threadpool(end, request)
    except EngineError as error:
        return page(at("/"), said=f"You are still signed in: {error}", status=503)
    answer: Response = (
        HTMLResponse(ONWARD, headers=NEVER_STORE)
        if way == "provider"
        else RedirectResponse(at("/signin?out"), 303, NEVER_STORE)
    )
    scheme = request.url.scheme
    answer.delete_cookie(cookie_name(scheme), cookie_path(), httponly=True, samesite="lax", secure=is_secure(scheme))
    return answer


def welcome(request: Request, secret: str, wanted: str, mark: str = "") -> Response:
    """Return the redirect after a sign-in, with its cookie and, if given, the trusted-browser cookie."""
    answer, scheme = RedirectResponse(wanted, 303, NEVER_STORE), request.url.scheme
    kept = {cookie_name(scheme): (secret, int(LASTS_S))} | (
        {trusted_browser.COOKIE: (mark, trusted_browser.AGE_S)} if mark else {}
    )
    for name, (value, age_s) in kept.items():
        answer.set_cookie(
            name, value, age_s, path=cookie_path(), httponly=True, samesite="lax", secure=is_secure(scheme)
        )
    return answer


def end(request: Request) -> Way | None:
    """End the sign-in of a request's cookie and return its sign-in method; raises EngineError."""
    found: Visitor = request.scope[VISITOR]
    if not found.key:
        return None
    with Store.open(Home.find(), timeout_s=5.0) as store:
        return store.sign_ins.end(found.key)


def page(
    wanted: str, name: str = "", said: str = "", status: int = 200, headers: Mapping[str, str] = NOTHING
) -> Response:
    """Return the sign-in page: a button per provider, and the form if any account has a password."""
    ways = [_way(each.key, each.label, wanted) for each in configured().found]
    body = render(
        "sign_in/signin.html",
        wanted=wanted,
        name=name[:200],
        said=said,
        role="alert" if status >= 400 else "status",
        ways=ways,
        no_form=bool(ways) and not _has_passwords(),
    )
    return HTMLResponse(body, status, {**NEVER_STORE, **headers})


def _way(key: str, label: str, wanted: str) -> ProviderWay:
    query = {"at": key} | ({"next": wanted} if wanted != at("/") else {})
    return ProviderWay(at("/signin/provider?") + urlencode(query), label)


def _has_passwords() -> bool:
    try:
        with Reader.open(Home.find(), timeout_s=LOOK_S) as reader:
            return reader.sign_ins.has_passwords()
    except EngineError:  # the page must not fail while the store is locked: the form reports it
        return True


async def _checked(request: Request, name: str, password: str) -> str | None:
    """Return the secret of a new sign-in, None while too many others are pending; raises SignInRefused, StoreError."""
    if len(_waiting) >= MOST_WAITING:
        return None
    home, mine = Home.find(), object()
    known = trusted_browser.known_browser(home, request.cookies.get(trusted_browser.COOKIE), name)
    check = partial(
        sign_in,
        home,
        name,
        password,
        browser=request.headers.get("user-agent", ""),
        address=place(request),
        known=known,
    )
    _waiting.add(mine)
    try:
        return await asyncio.get_running_loop().run_in_executor(_checks, check)
    finally:
        _waiting.discard(mine)
