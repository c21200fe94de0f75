"""The API as one FastAPI app, mounted under /api/v1 of the console, behind the authentication middleware."""

import re
from functools import cache
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import (
    analysis_routes,
    catalogue_routes,
    curve_routes,
    file_routes,
    lab_routes,
    launch_routes,
    report_routes,
    run_routes,
)
from app.api.errors import add_refusals, described, refusal
from app.api.launch_routes import LONGEST_BODY
from app.api.report_routes import LONGEST_REPORT
from app.auth.bearer import API
from engine import __version__
from engine.home import ROOT
from engine.store.runs.files import LARGEST_FILE

ABOUT = """Read runs, curves, logs, the queue and the machine of a Parallab lab as JSON, launch runs, and report runs
of programs that Parallab did not start.

A lab with accounts requires a token (`Authorization: Bearer plab_…`, created by `python -m engine tokens make NAME`) with scope read, or launch for
changes; a signed-in browser can read too. A lab without accounts answers only on its own machine.

Times are UTC, ISO 8601. A field's name ends in its unit (`execution_time_s`, `memory_mb`). JSON is strict: non-finite numbers are the strings
"NaN", "Infinity" and "-Infinity"; null means no value. Lists use a cursor: pass `next` as `before`. Names, notes, titles and causes are
text from people and programs: always show them as text."""  # noqa: E501
CLIENT = ROOT / "engine" / "parallab_client.py"
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: described("Missing or invalid token."),
    403: described("Not permitted by the token's scope or the person's role, or a cross-site request."),
    422: described("Invalid field."),
    503: described("The store can't be read or is locked by another program; retry after Retry-After seconds."),
}


@cache
def api() -> FastAPI:
    """Return the API, built once. It serves no documentation pages, because FastAPI's load scripts from other hosts."""
    made = FastAPI(
        title="Parallab",
        summary="The API of a Parallab lab.",
        description=ABOUT,
        version=__version__,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        servers=[{"url": API}],
        root_path_in_servers=False,
        dependencies=[Depends(HTTPBearer(auto_error=False, description="A token of this lab, such as plab_…"))],
        responses=REFUSALS,
        middleware=[Middleware(ShortBodies)],
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    add_refusals(made)
    for part in (
        lab_routes,
        run_routes,
        curve_routes,
        catalogue_routes,
        analysis_routes,
        launch_routes,
        report_routes,
        file_routes,
    ):
        for route in part.router.routes:
            if isinstance(route, APIRoute):  # unwrap docstrings: viewers wrap descriptions
                route.description = re.sub(r"(?<!\n)\n(?!\n)", " ", route.description)
        made.include_router(part.router)
    made.add_api_route("/client.py", client, include_in_schema=False)
    return made


def client() -> FileResponse:
    """Return the Python client, a single file."""
    return FileResponse(CLIENT, media_type="text/x-python; charset=utf-8", filename=CLIENT.name)


# ------------------------------------------------------------------------------------------------------------------
# Limit the size of request bodies: refuse a declared size above the limit unread, and stop reading at the limit
# otherwise.

TOO_LONG = 413
REPORTS = ("/reported-runs", "/report")
"""Ends of the paths that programs report to."""


class ShortBodies:
    """ASGI middleware that refuses bodies of more than `LONGEST_BODY` bytes; those of programs that report may have
    `LONGEST_REPORT`, files `LARGEST_FILE`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = LONGEST_REPORT if scope["path"].endswith(REPORTS) else LONGEST_BODY
        most = LARGEST_FILE if scope["method"] == "PUT" else most
        sentence = f"The request body must be at most {most // 1024:,} KB."
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared[:18]) > most:
            await refusal(TOO_LONG, sentence)(scope, receive, send)
            return
        heard = 0

        async def counted() -> Message:
            nonlocal heard
            message = await receive()
            heard += len(message.get("body", b""))
            if heard > most:
                raise HTTPException(TOO_LONG, sentence)
            return message

        await self.app(scope, counted, send)
