"""The HTML of each page: Streamlit's own, which is told at which address its server answers.

By itself Streamlit's script asks beneath the page first (`/run/_stcore/health`), which costs two answers of 404, in the
browser's log, at each deep link.
"""

import json
from functools import cache
from importlib.resources import files

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from app.core.base_path import at, base
from engine.home import ROOT


class _Page(Convertor[str]):
    """The name of a page in its address."""

    regex = "|".join(sorted(path.stem for path in (ROOT / "pages").glob("*.py")))

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def page_routes() -> list[Route]:
    """Return the route of every page but the one at the console's own address, where Streamlit asks in the
    right place.
    """
    register_url_convertor("page", _Page())
    return [Route(at("/{page:page}"), page_html)]


async def page_html(request: Request) -> Response:
    """Return the HTML in which Streamlit's script draws whichever page its address names."""
    return HTMLResponse(_told(base()), headers={"cache-control": "no-cache"})


@cache
def _told(path: str) -> str:
    script = f"<script>window.__streamlit = {{ BACKEND_BASE_URL: location.origin + {json.dumps(path)} }};</script>"
    return (files("streamlit") / "static" / "index.html").read_text().replace("<head>", f"<head>\n    {script}", 1)
