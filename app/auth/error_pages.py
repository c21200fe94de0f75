"""What whoever is not let in gets to see: a sentence, as a page for people and as JSON for scripts."""

from html import escape
from string import Template

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Scope

from app.core.caches import NEVER_STORE
from app.core.static_files import static_text

PAGE = Template(static_text("sign_in/refused.html"))


def wants_page(scope: Scope) -> bool:
    """Say whether a browser asks for a page, not a script for data."""
    return (
        scope["method"] == "GET"
        and "text/html" in Headers(scope=scope).get("accept", "")
        and not scope["path"].startswith("/api/")
    )


def refusal(scope: Scope, status: int, sentence: str) -> Response:
    """Return the answer with the sentence that says why."""
    headers = NEVER_STORE | ({"retry-after": "1"} if status == 503 else {})
    if wants_page(scope):
        return HTMLResponse(PAGE.substitute(said=escape(sentence)), status, headers)
    return JSONResponse({"error": sentence}, status, headers)
