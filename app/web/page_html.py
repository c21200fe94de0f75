"""The HTML of each page: Streamlit's, with the address of its server, the chosen theme and the tools of the header.

Without the address Streamlit's script first requests `/run/_stcore/health`, which logs two 404 responses in the browser
at each deep link.
"""

import json
from functools import lru_cache
from importlib.resources import files

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from app.auth.middleware import VISITOR
from app.core.assets import at, base, inside, render, static_text
from app.core.caches import NEVER_STORE
from app.core.visitor import Visitor
from app.links.addresses import RESULTS, current
from app.ui.documentation import PAGE_GUIDES
from app.ui.html import TERMS
from engine.home import ROOT

THEMES = (("system", "System"), ("light", "Light"), ("dark", "Dark"))


class _Address(Convertor[str]):
    """A part of an address, as it stands."""

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Page(_Address):
    """The name of a page in its address; the first page has none."""

    regex = "|".join(["", *sorted(path.stem for path in (ROOT / "pages").glob("*.py"))])


class _Unknown(_Address):
    """An address at which Streamlit serves nothing of its own."""

    regex = (
        r"(?!(?:.*/)?_stcore/|(?:media|component|static|auth|api)/|(?:oauth2callback|favicon\.png|manifest\.json)$)"
        r".*[^/]"
    )


def page_routes() -> list[Route]:
    """Return the route of all pages."""
    register_url_convertor("page", _Page())
    return [Route(at(path), page_html) for path in ("/{page:page}", RESULTS)] + (
        [Route(base(), page_html)] if base() else []
    )


def missing_page_routes() -> list[Route]:
    """Return the route of all other addresses; it comes after every route of ours."""
    register_url_convertor("unknown", _Unknown())
    return [Route(at("/{path:unknown}"), not_found)]


async def not_found(request: Request) -> Response:
    """Return the HTML of the page `not_found`: Streamlit itself would show its first page below a dialog."""
    return _answer(request, _html(base(), at("/not_found"), _name(request)), 404)


async def page_html(request: Request) -> Response:
    """Return the HTML in which Streamlit's script draws the page of its address; redirect an old address."""
    if (now := current(inside(request.url.path), request.url.query)) is not None:
        return RedirectResponse(at(now), 307, NEVER_STORE)
    return _answer(request, _html(base(), name=_name(request)), 200)


def _name(request: Request) -> str:
    """Return the name of the person who is signed in, empty for nobody."""
    found: Visitor = request.scope[VISITOR]
    return found.who.name if found.who else ""


def _answer(request: Request, page: str, status: int) -> Response:
    """Return a page; with a name in it, one that no cache keeps."""
    return HTMLResponse(page, status, NEVER_STORE if _name(request) else {"cache-control": "no-cache"})


HEADER_SCRIPTS = ("plot/enlarge.js", "header/tools.js", "header/times.js", "header/palette.js", "header/glossary.js")


@lru_cache(maxsize=256)
def _html(path: str, instead: str = "", name: str = "") -> str:
    """Return the page; with `instead`, one that shows that page and tells it which path was asked for; with `name`, one
    whose header has the person and *Sign out*.
    """
    elsewhere = (
        f"history.replaceState(null, '', {json.dumps(instead)} + '?path=' + encodeURIComponent(location.pathname));"
    )
    head = (
        f"<script>window.__streamlit = {{ BACKEND_BASE_URL: location.origin + {json.dumps(path)} }};"
        f"{elsewhere if instead else ''}</script>"
        f"<script>{static_text('header/theme.js')}</script><style>{static_text('header/tools.css')}</style>"
    )
    addresses = {
        "search": at("/api/palette"),
        "first_hour": at("/docs?page=first-hour"),
        "tour": at("/docs?page=tour"),
        "docs": at("/docs"),
    }
    guides = {at(page).rstrip("/"): at(f"/docs?page={name}") for page, name in PAGE_GUIDES.items()}
    person = {"name": name, "account": at("/account"), "sign_out": at("/signout")}
    tools, dialogs = (
        render("ui/header.html", **person),
        render("ui/dialogs.html", themes=THEMES, terms=TERMS, guides=guides, **addresses),
    )
    scripts = f"<script>{static_text('page/ago.js', *HEADER_SCRIPTS)}</script>"
    page = (files("streamlit") / "static" / "index.html").read_text()
    page = page.replace("<head>", f"<head>\n    {head}", 1).replace("<body>", f"<body>\n{tools}", 1)
    # Streamlit adds its own styles to the head, and of equal selectors the last one counts. Ours apply from the first
    # paint on, so that nothing moves later.
    styles = f"<style>{static_text('page/console.css', 'plot/enlarged.css')}</style>"
    return page.replace("</body>", f"{dialogs}{scripts}{styles}</body>", 1)
