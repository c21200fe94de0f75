"""The way in and out: a page with a form, the cookie that it sets, and its end. Plain HTML, so that nothing of the
console runs before.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import escape
from string import Template
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
from app.core.static_files import static_text
from app.core.visitor import Visitor, cookie_name, is_secure, safe_way
from engine.access.providers import configured
from engine.commands.sign_in import AT_ONCE, sign_in
from engine.errors import EngineError, SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import LASTS_S, Way

MOST_WAITING = 24
"""Sign-ins that wait for their check; more are sent away, so that a flood of them holds up nothing else."""
BUSY = "Very many sign in at this moment. Try again in a few seconds."
PAGE = Template(static_text("sign_in/signin.html"))
ONWARD = static_text("sign_in/signingout.html")
"""Leads on to the provider's sign-out. It is no redirect: a form's may not lead to another site (form-action of our
policy).
"""
LOOK_S = 0.2
NOTHING: Mapping[str, str] = {}
_checks = ThreadPoolExecutor(AT_ONCE, "sign-in")
"""Threads of their own: those of all other routes stay free."""
_waiting: set[object] = set()


def sign_in_routes() -> list[BaseRoute]:
    """Return the routes by which people come in and leave."""
    return [
        Route(at("/signin"), form),
        Route(at("/signin"), come_in, methods=["POST"]),
        Route(at("/signout"), stay),
        Route(at("/signout"), leave, methods=["POST"]),
    ]


async def form(request: Request) -> Response:
    """Show the form; who is in already goes on to where they wanted."""
    wanted = safe_way(request.query_params.get("next", "/"))
    found: Visitor = request.scope[VISITOR]
    if found.welcome:
        return RedirectResponse(wanted, 303, NEVER_STORE)
    return page(wanted, said="You have signed out." if "out" in request.query_params else "")


async def come_in(request: Request) -> Response:
    """Take a name and a password; set a new cookie and end the sign-in that an old one stood for."""
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
    """Lead back whoever opened the address of signing out, which a link must not do."""
    return RedirectResponse(at("/"), 303, NEVER_STORE)


async def leave(request: Request) -> Response:
    """End the sign-in for good and take its cookie away; who came in by a provider is led on to its sign-out."""
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
    """Return the answer that lets a browser in: the cookie of its new sign-in, what marks it as known where that is
    given, and the way on.
    """
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
    """End the sign-in that a request's cookie stands for and return the way that it came in; raises EngineError."""
    found: Visitor = request.scope[VISITOR]
    if not found.key:
        return None
    with Store.open(Home.find(), timeout_s=5.0) as store:
        return store.sign_ins.end(found.key)


def page(
    wanted: str, name: str = "", said: str = "", status: int = 200, headers: Mapping[str, str] = NOTHING
) -> Response:
    """Return the page with the ways in: a button for each provider, and the form where somebody has a password."""
    ways = "".join(_button(each.key, each.label, wanted) for each in configured().found)
    no_form = bool(ways) and not _has_passwords()
    words = {
        "next": escape(wanted, quote=True),
        "name": escape(name[:200], quote=True),
        "said": escape(said),
        "role": "alert" if status >= 400 else "status",
        "hidden": "" if said else "hidden",
        "ways": ways,
        "no_ways": "" if ways else "hidden",
        "no_form": "hidden" if no_form else "",
        "no_choice": "hidden" if no_form or not ways else "",
        "focus": "" if ways else "autofocus",
    }
    return HTMLResponse(PAGE.substitute(words), status, {**NEVER_STORE, **headers})


def _button(key: str, label: str, wanted: str) -> str:
    address = at("/signin/provider?") + urlencode({"at": key} | ({"next": wanted} if wanted != at("/") else {}))
    return f'<a class="way" href="{escape(address, quote=True)}">Sign in with {escape(label)}</a>'


def _has_passwords() -> bool:
    try:
        with Reader.open(Home.find(), timeout_s=LOOK_S) as reader:
            return reader.sign_ins.has_passwords()
    except EngineError:  # the page must not fail where the store is held for a moment: the form says so itself
        return True


async def _checked(request: Request, name: str, password: str) -> str | None:
    """Return the secret of a new sign-in, None where too many others wait for theirs; raises SignInRefused,
    StoreError.
    """
    if len(_waiting) >= MOST_WAITING:
        return None
    home, mine = Home.find(), object()
    known = trusted_browser.known(home, request.cookies.get(trusted_browser.COOKIE), name)
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
