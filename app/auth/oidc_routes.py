"""The way in and out by an OpenID provider. Streamlit carries the flow of `st.login` out; whom it proves gets a sign-in
of our own, like any other.

Streamlit's own cookie opens nothing here: it can't be taken back, and one signature of it can be written in several
ways (docs/decisions/openid.md).
"""

import re
from collections.abc import Mapping
from functools import cache
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.auth.sign_in_routes import end, page, welcome
from app.auth.streamlit_internals import (
    generate_login_redirect_url,
    get_origin_from_redirect_uri,
    login_endpoints,
    signed_claims,
)
from app.core.base_path import at, base, cookie_path, inside
from app.core.caches import NEVER_STORE
from app.core.visitor import safe_way
from engine.access.providers import CALLBACK, configured
from engine.commands.oidc_claims import vouched
from engine.commands.sign_in import sign_in_by_provider
from engine.errors import EngineError, SignInRefused
from engine.home import Home
from engine.store.access.sign_ins import LASTS_S

WANTED, AT = "parallab.wanted", "parallab.at"
"""What a browser's way to the provider and back remembers: where it wanted to go, and which provider it was sent to."""
ASK, LEAVE = "/auth/login", "/auth/logout"


def provider_routes() -> list[BaseRoute]:
    """Return the routes that lead to a provider and back; they stand before Streamlit's own."""
    ways = {"/signin/provider": set_out, ASK: ask, CALLBACK: arrive, LEAVE: leave}
    return [Route(at(path), way) for path, way in ways.items()]


async def set_out(request: Request) -> Response:
    """Send a browser to the provider `at`, as `st.login` does; remember where it wanted to go."""
    known = configured().found
    key, wanted = (
        request.query_params.get("at", known[0].key if known else ""),
        safe_way(request.query_params.get("next", "/")),
    )
    if key not in [each.key for each in known]:
        return RedirectResponse(at("/signin"), 303, NEVER_STORE)
    if elsewhere := _other_name(request):
        return RedirectResponse(
            f"{elsewhere}{at('/signin/provider')}?{urlencode({'at': key, 'next': wanted, 'moved': 1})}",
            303,
            NEVER_STORE,
        )
    request.session.update({WANTED: wanted, AT: key})
    return RedirectResponse(generate_login_redirect_url(key), 303, NEVER_STORE)


async def ask(request: Request) -> Response:
    """Go on to the provider's own page; say so where it does not answer."""
    answer = await _streamlits(ASK, request)
    if answer.status_code < 400:
        return answer
    said = (
        f"{_label(request)} does not answer, so nobody can sign in there at this moment. Try again in a minute; "
        "the console's log says what is wrong."
    )
    return page(safe_way(request.session.get(WANTED, "/")), said=said, status=502)


async def arrive(request: Request) -> Response:
    """Take what the provider sends a browser back with, and let its person in; also where a sign-out at the provider
    ends.
    """
    query, label = request.query_params, _label(request)
    if not {"state", "code", "error"} & set(query):
        return RedirectResponse(at("/signin?out"), 303, NEVER_STORE)
    wanted = safe_way(request.session.pop(WANTED, "/"))
    if not _was_begun(request):
        return page(
            wanted,
            said="This sign-in was not begun in this browser, or a later one took its place. Begin it again.",
            status=400,
        )
    theirs = await _streamlits(CALLBACK, request)
    if "error" in query:
        return page(wanted, said=f"Nobody is signed in: it was cancelled at {label}, or refused there.", status=401)
    if not (claims := _claims(theirs)):
        return page(wanted, said=_unusable(label), status=502)
    try:
        secret = await run_in_threadpool(_let_in, claims, request.headers.get("user-agent", ""))
        await run_in_threadpool(end, request)
    except SignInRefused as error:
        return page(wanted, said=str(error), status=403)
    except EngineError as error:
        return page(wanted, said=str(error), status=503)
    return _with_cookies(welcome(request, secret, wanted), theirs)


async def leave(request: Request) -> Response:
    """Take Streamlit's cookies away and lead on to the provider's own sign-out, where it has one; the sign-in here has
    ended before.
    """
    theirs = await _streamlits(LEAVE, request)
    onward = theirs.headers.get("location", at("/"))
    return _with_cookies(RedirectResponse(at("/signin?out") if onward == at("/") else onward, 303, NEVER_STORE), theirs)


async def _streamlits(path: str, request: Request) -> Response:
    """Have Streamlit answer; without a provider there is nothing to ask it."""
    if not configured().found:
        return RedirectResponse(at("/"), 303, NEVER_STORE)
    answer: Response = await _theirs()[path](request)
    return answer


@cache
def _theirs() -> dict[str, Any]:
    """Return Streamlit's own routes by their paths within the console."""
    return {inside(path): answer for path, answer in login_endpoints(base().strip("/")).items()}


def _other_name(request: Request) -> str | None:
    """Return the console's address by which the provider sends people back, where this browser came by another one:
    cookies of the way there are kept by name.

    A browser is moved once at most, since a proxy may show us another name than people use.
    """
    origin = get_origin_from_redirect_uri()
    other = (
        origin is not None
        and urlsplit(origin).netloc != request.headers.get("host", "")
        and "moved" not in request.query_params
    )
    return origin if other else None


def _let_in(claims: Mapping[str, Any], browser: str) -> str:
    return sign_in_by_provider(Home.find(), vouched(claims, configured().rules), browser=browser)


def _was_begun(request: Request) -> bool:
    """Say whether this browser was sent out with the state that comes back: Authlib keeps it in the browser's session
    under a key that ends in it.
    """
    state = request.query_params.get("state", "")
    return any(key.startswith("_state_") and key.endswith(f"_{state}") for key in request.session) if state else False


def _claims(answer: Response) -> dict[str, Any]:
    """Return what Streamlit has just signed of the ID token that it checked; empty where the flow failed."""
    jar = SimpleCookie()
    for header in answer.headers.getlist("set-cookie"):
        jar.load(header)
    return signed_claims({name: morsel.value for name, morsel in jar.items()})


def _with_cookies(answer: Response, theirs: Response) -> Response:
    """Pass Streamlit's cookies on, for the one route that needs them: its sign-out, which tells the provider who
    leaves.
    """
    for header in theirs.headers.getlist("set-cookie"):
        kept = re.sub(rf"(?i)\bpath={cookie_path()}(?=;|$)", f"Path={at('/auth')}", header)
        answer.headers.append("set-cookie", re.sub(r"(?i)\bmax-age=[1-9]\d*", f"Max-Age={LASTS_S:.0f}", kept))
    return answer


def _label(request: Request) -> str:
    return configured().label_of(request.session.get(AT, ""))


def _unusable(label: str) -> str:
    return (
        f"What {label} answered could not be used, so nobody is signed in. Most often the client secret in "
        "secrets.toml is not the one that it knows,"
        " or the clocks of the two machines differ; the console's log says which."
    )
