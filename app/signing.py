"""The way in and out: a page with a form, the cookie that it sets, and its end. Plain HTML, so that nothing of the console runs before."""

from html import escape
from string import Template

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.doorway import COOKIE, Visitor, is_secure, safe_way
from app.form_fields import form_fields
from app.gate import VISITOR
from engine.access.signing_in import sign_in
from engine.errors import EngineError, SignInRefused
from engine.home import ROOT, Home
from engine.store import Store
from engine.store.sign_ins import LASTS_S

PAGE = Template((ROOT / "app" / "browser" / "signin.html").read_text())
NEVER_STORE = {"cache-control": "no-store"}


def sign_in_routes() -> list[BaseRoute]:
    """Return the routes by which people come in and leave."""
    return [Route("/signin", form), Route("/signin", come_in, methods=["POST"]), Route("/signout", leave, methods=["POST"])]


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
    wanted = safe_way(fields.get("next", "/"))
    browser = request.headers.get("user-agent", "")
    try:
        secret = await run_in_threadpool(sign_in, Home.find(), fields.get("name", ""), fields.get("password", ""), browser=browser)
    except SignInRefused as error:
        return page(wanted, fields.get("name", ""), str(error), 401)
    except EngineError as error:
        return page(wanted, fields.get("name", ""), str(error), 503)
    await run_in_threadpool(_end, request)
    answer = RedirectResponse(wanted, 303, NEVER_STORE)
    answer.set_cookie(COOKIE, secret, max_age=int(LASTS_S), httponly=True, samesite="lax", secure=is_secure(request.url.scheme))
    return answer


async def leave(request: Request) -> Response:
    """End the sign-in for good and take its cookie away."""
    try:
        await run_in_threadpool(_end, request)
    except EngineError as error:
        return page("/", said=f"You are still signed in: {error}", status=503)
    answer = RedirectResponse("/signin?out", 303, NEVER_STORE)
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=is_secure(request.url.scheme))
    return answer


def page(wanted: str, name: str = "", said: str = "", status: int = 200) -> Response:
    """Return the page with the form."""
    words = PAGE.substitute(next=escape(wanted, quote=True), name=escape(name[:200], quote=True), said=escape(said), hidden="" if said else "hidden")
    return HTMLResponse(words, status, NEVER_STORE)


def _end(request: Request) -> None:
    found: Visitor = request.scope[VISITOR]
    if found.key:
        with Store.open(Home.find(), timeout_s=5.0) as store:
            store.sign_out(found.key)
