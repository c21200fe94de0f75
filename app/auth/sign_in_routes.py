"""Sign-in and sign-out: the form, its cookie, and the end of a sign-in. Plain HTML, so that no console code runs before
sign-in.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.auth.middleware import VISITOR
from app.core import visitor
from app.core.assets import at, cookie_path, render
from app.core.caches import NEVER_STORE
from app.core.visitor import Visitor, cookie_name, is_secure, place, safe_way
from engine.access.confusables import plain
from engine.access.passwords import LEAST, MOST
from engine.access.providers import configured
from engine.commands.accounts import AT_ONCE, change_password, sign_in
from engine.errors import ConfigError, EngineError, SignInRefused
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
    return page(wanted, said="You have signed out." if "out" in request.query_params else _why_again(found.key))


def _why_again(key: str) -> str:
    """Return why the sign-in with this key ended, if its person may not know; empty otherwise."""
    with suppress(EngineError), Reader.open(Home.find(), timeout_s=LOOK_S) as reader:
        if key and reader.sign_ins.lost_by_new_password(key):
            return "You were signed out because your password was changed."
    return ""


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
    return welcome(request, secret, wanted, mark(Home.find(), name))


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
    kept = {cookie_name(scheme): (secret, int(LASTS_S))} | ({COOKIE: (mark, AGE_S)} if mark else {})
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
    known = known_browser(home, request.cookies.get(COOKIE), name)
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


# ---- The page that changes one's own password ----------------------------------------------------------------------
# Plain HTML, like the sign-in page: no password enters a script run or its state.

ACCOUNT = "/account"


def password_routes() -> list[BaseRoute]:
    """Return the routes that change one's own password."""
    return [Route(at("/password"), password_form), Route(at("/password"), change, methods=["POST"])]


async def password_form(request: Request) -> Response:
    """Show the form to a person who has a password here."""
    try:
        who = await run_in_threadpool(_who, request)
    except EngineError as error:
        return password_page("you", str(error), 503)
    return password_page(who) if who else RedirectResponse(at(ACCOUNT), 303, NEVER_STORE)


async def change(request: Request) -> Response:
    """Change the password; all other browsers are signed out, and this one gets a new cookie."""
    found: Visitor = request.scope[VISITOR]
    if found.who is None:
        return RedirectResponse(at(ACCOUNT), 303, NEVER_STORE)
    who, fields, browser = found.who.name, await form_fields(request), request.headers.get("user-agent", "")
    if fields is None:
        return password_page(who, UNREAD, 413)
    present, new = fields.get("present", ""), fields.get("new", "")
    if new != fields.get("again", ""):
        return password_page(who, "The new passwords do not match. Enter the new password twice.", 422)
    try:
        secret = await run_in_threadpool(change_password, Home.find(), who, present, new, browser=browser)
    except SignInRefused as error:
        return password_page(who, str(error), 401)
    except ConfigError as error:
        return password_page(who, str(error), 422)
    except EngineError as error:
        return password_page(who, str(error), 503)
    return welcome(request, secret, at(f"{ACCOUNT}?changed=password"))


def password_page(name: str, said: str = "", status: int = 200) -> Response:
    """Return the page with the form; typed passwords are never sent back."""
    body = render("sign_in/password.html", name=name, said=said, least=LEAST, most=MOST)
    return HTMLResponse(body, status, NEVER_STORE)


def _who(request: Request) -> str | None:
    """Return the name of the signed-in person if they have a password here, else None."""
    found: Visitor = request.scope[VISITOR]
    if found.who is None:
        return None
    with Reader.open(Home.find()) as reader:
        return found.who.name if reader.people.one(found.who.name).has_password else None


# ------------------------------------------------------------------------------------------------------------------
# A cookie for browsers with an earlier sign-in, so that others' failed attempts don't lock the person out. It
# grants nothing else: a copy only allows a few more password attempts. Source: OWASP device cookies.

COOKIE = "parallab_browser"
AGE_S = 365 * 24 * 3600


def mark(home: Home, name: str) -> str:
    """Return the cookie for a browser after a sign-in."""
    return _signer(home).dumps([_folded(name), secrets.token_urlsafe(12)])


def known_browser(home: Home, cookie: str | None, name: str) -> str:
    """Return the key for counting a browser's failures if the person has signed in on it before; else empty."""
    try:
        found = _signer(home).loads(cookie) if cookie else None
    except BadSignature:
        return ""
    if not isinstance(found, list) or len(found) != 2 or found[0] != _folded(name):
        return ""
    return hashlib.sha256(str(found[1]).encode()).hexdigest()


def _folded(name: str) -> str:
    return plain(name).casefold()


def _signer(home: Home) -> URLSafeSerializer:
    return URLSafeSerializer(visitor.key(home), salt="browser")


# ---- Read the fields of a plain HTML form, with limits on number, length and time ----------------------------------

LONGEST_FORM = 8_000
UNREAD = "The form was too large or timed out. Try again."


async def form_fields(request: Request) -> dict[str, str] | None:
    """Return the first value of each field; empty for another content type, None for a form too large or too slow."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    if (sent := await body(request, LONGEST_FORM)) is None:
        return None
    try:
        found = parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # too many fields
        return {}
    return {name: values[0] for name, values in found.items()}


# ---- Read a request's body, with limits on length and time ---------------------------------------------------------

PATIENCE_S = 10.0
"""A form arrives in one piece; slower clients only hold a connection."""


async def body(request: Request, most: int) -> bytes | None:
    """Return a body of at most `most` bytes; None for a longer or late one."""
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    return None
    except TimeoutError:
        return None
    return bytes(found)
