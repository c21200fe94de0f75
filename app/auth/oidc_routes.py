"""Sign-in and sign-out through an OpenID provider. Streamlit runs the flow of `st.login`; a verified person then gets a
regular Parallab sign-in.

Streamlit's own cookie grants no access: it can't be revoked, and its signature has several encodings
(docs/decisions/openid.md).
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
from app.core.assets import at, base, cookie_path, inside
from app.core.caches import NEVER_STORE
from app.core.streamlit_internals import (
    generate_login_redirect_url,
    get_origin_from_redirect_uri,
    login_endpoints,
    signed_claims,
)
from app.core.visitor import safe_way
from engine.access.providers import CALLBACK, configured
from engine.commands.accounts import sign_in_by_provider, vouched
from engine.errors import EngineError, SignInRefused
from engine.home import Home
from engine.store.access.sign_ins import LASTS_S

WANTED, AT = "parallab.wanted", "parallab.at"
"""Session keys during the flow: the requested page, and the provider."""
ASK, LEAVE = "/auth/login", "/auth/logout"


def provider_routes() -> list[BaseRoute]:
    """Return the routes to the provider and back; they precede Streamlit's own."""
    ways = {"/signin/provider": set_out, ASK: ask, CALLBACK: arrive, LEAVE: leave}
    return [Route(at(path), way) for path, way in ways.items()]


async def set_out(request: Request) -> Response:
    """Redirect a browser to the provider `at`, like `st.login`, and remember the requested page."""
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
    """Redirect to the provider's page, or show an error if it doesn't respond."""
    answer = await _streamlits(ASK, request)
    if answer.status_code < 400:
        return answer
    said = (
        f"{_label(request)} does not respond, so sign-in is unavailable. Try again in a minute; see the console's log "
        "for the cause."
    )
    return page(safe_way(request.session.get(WANTED, "/")), said=said, status=502)


async def arrive(request: Request) -> Response:
    """Handle the provider's callback and sign the person in; also the return from a sign-out at the provider."""
    query, label = request.query_params, _label(request)
    if not {"state", "code", "error"} & set(query):
        return RedirectResponse(at("/signin?out"), 303, NEVER_STORE)
    wanted = safe_way(request.session.pop(WANTED, "/"))
    if not _was_begun(request):
        return page(
            wanted,
            said="This sign-in was not started in this browser, or a newer one replaced it. Start again.",
            status=400,
        )
    theirs = await _streamlits(CALLBACK, request)
    if "error" in query:
        return page(wanted, said=f"Sign-in failed: cancelled or refused at {label}.", status=401)
    if not (claims := _claims(theirs)):
        return page(wanted, said=_unusable(label), status=502)
    try:
        secret = await run_in_threadpool(_sign_in, claims, request.headers.get("user-agent", ""))
        await run_in_threadpool(end, request)
    except SignInRefused as error:
        return page(wanted, said=str(error), status=403)
    except EngineError as error:
        return page(wanted, said=str(error), status=503)
    return _with_cookies(welcome(request, secret, wanted), theirs)


async def leave(request: Request) -> Response:
    """Delete Streamlit's cookies and redirect to the provider's sign-out, if any; the sign-in here already ended."""
    theirs = await _streamlits(LEAVE, request)
    onward = theirs.headers.get("location", at("/"))
    return _with_cookies(RedirectResponse(at("/signin?out") if onward == at("/") else onward, 303, NEVER_STORE), theirs)


async def _streamlits(path: str, request: Request) -> Response:
    """Return Streamlit's response; redirect home without a provider."""
    if not configured().found:
        return RedirectResponse(at("/"), 303, NEVER_STORE)
    answer: Response = await _theirs()[path](request)
    return answer


@cache
def _theirs() -> dict[str, Any]:
    """Return Streamlit's routes by their paths within the console."""
    return {inside(path): answer for path, answer in login_endpoints(base().strip("/")).items()}


def _other_name(request: Request) -> str | None:
    """Return the console's origin registered at the provider if this browser uses another one, since the flow's cookies
    are bound to the host name.

    A browser is redirected at most once, since a proxy may present another name than people use.
    """
    origin = get_origin_from_redirect_uri()
    other = (
        origin is not None
        and urlsplit(origin).netloc != request.headers.get("host", "")
        and "moved" not in request.query_params
    )
    return origin if other else None


def _sign_in(claims: Mapping[str, Any], browser: str) -> str:
    return sign_in_by_provider(Home.find(), vouched(claims, configured().rules), browser=browser)


def _was_begun(request: Request) -> bool:
    """Say whether this browser started the flow with this state: Authlib keeps it in the session under a key that ends
    with it.
    """
    state = request.query_params.get("state", "")
    return any(key.startswith("_state_") and key.endswith(f"_{state}") for key in request.session) if state else False


def _claims(answer: Response) -> dict[str, Any]:
    """Return the claims of the verified ID token that Streamlit has signed; empty where the flow failed."""
    jar = SimpleCookie()
    for header in answer.headers.getlist("set-cookie"):
        jar.load(header)
    return signed_claims({name: morsel.value for name, morsel in jar.items()})


def _with_cookies(answer: Response, theirs: Response) -> Response:
    """Forward Streamlit's cookies, limited to its sign-out route, which sends them to the provider."""
    for header in theirs.headers.getlist("set-cookie"):
        kept = re.sub(rf"(?i)\bpath={cookie_path()}(?=;|$)", f"Path={at('/auth')}", header)
        answer.headers.append("set-cookie", re.sub(r"(?i)\bmax-age=[1-9]\d*", f"Max-Age={LASTS_S:.0f}", kept))
    return answer


def _label(request: Request) -> str:
    return configured().label_of(request.session.get(AT, ""))


def _unusable(label: str) -> str:
    return (
        f"Invalid response from {label}: sign-in failed. The usual causes are a wrong client secret in secrets.toml "
        "and clocks that differ; see the console's log."
    )
