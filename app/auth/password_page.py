"""The page that changes one's own password. Plain HTML, like the sign-in page: no password enters a script run or its
state.
"""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.auth.form_fields import UNREAD, form_fields
from app.auth.middleware import VISITOR
from app.auth.sign_in_routes import welcome
from app.core.base_path import at
from app.core.caches import NEVER_STORE
from app.core.templates import render
from app.core.visitor import Visitor
from engine.access.passwords import LEAST, MOST
from engine.commands.accounts import change_password
from engine.errors import ConfigError, EngineError, SignInRefused
from engine.home import Home
from engine.store import Reader

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
