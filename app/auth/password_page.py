"""The page on which somebody who is signed in chooses another password. Plain HTML, like the way in: no password passes
through a script run or its state.
"""

import re
from html import escape
from string import Template

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.auth.form_fields import UNREAD, form_fields
from app.auth.middleware import VISITOR
from app.auth.sign_in_routes import welcome
from app.core.base_path import at
from app.core.caches import NEVER_STORE
from app.core.static_files import static_text
from app.core.visitor import Visitor
from engine.access.passwords import LEAST, MOST
from engine.commands.password import change_password
from engine.errors import ConfigError, EngineError, SignInRefused
from engine.home import Home
from engine.store import Reader

PAGE = Template(static_text("sign_in/password.html"))
STYLE = "\n".join(re.findall(r"<style>.*?</style>", static_text("sign_in/signin.html"), re.DOTALL))
"""It looks like the way in."""
ACCOUNT = "/account"


def password_routes() -> list[BaseRoute]:
    """Return the routes by which people change their own password."""
    return [Route(at("/password"), form), Route(at("/password"), change, methods=["POST"])]


async def form(request: Request) -> Response:
    """Show the form, to somebody who has a password here."""
    try:
        who = await run_in_threadpool(_who, request)
    except EngineError as error:
        return page("you", str(error), 503)
    return page(who) if who else RedirectResponse(at(ACCOUNT), 303, NEVER_STORE)


async def change(request: Request) -> Response:
    """Take the present password and a new one; every other browser is signed out, and this one gets a new cookie."""
    found: Visitor = request.scope[VISITOR]
    if found.who is None:
        return RedirectResponse(at(ACCOUNT), 303, NEVER_STORE)
    who, fields, browser = found.who.name, await form_fields(request), request.headers.get("user-agent", "")
    if fields is None:
        return page(who, UNREAD, 413)
    present, new = fields.get("present", ""), fields.get("new", "")
    if new != fields.get("again", ""):
        return page(who, "The two new passwords are not the same. Type the new one twice.", 422)
    try:
        secret = await run_in_threadpool(change_password, Home.find(), who, present, new, browser=browser)
    except SignInRefused as error:
        return page(who, str(error), 401)
    except ConfigError as error:
        return page(who, str(error), 422)
    except EngineError as error:
        return page(who, str(error), 503)
    return welcome(request, secret, at(f"{ACCOUNT}?changed=password"))


def page(name: str, said: str = "", status: int = 200) -> Response:
    """Return the page with the form; what was typed into it is never sent back."""
    words = PAGE.substitute(
        style=STYLE,
        name=escape(name, quote=True),
        said=escape(said),
        hidden="" if said else "hidden",
        least=str(LEAST),
        most=str(MOST),
    )
    return HTMLResponse(words, status, NEVER_STORE)


def _who(request: Request) -> str | None:
    """Return the name of whoever is signed in and has a password here, None for all others."""
    found: Visitor = request.scope[VISITOR]
    if found.who is None:
        return None
    with Reader.open(Home.find()) as reader:
        return found.who.name if reader.people.one(found.who.name).has_password else None
