"""The API as one FastAPI app, mounted under /api/v1 of the console. What it must not forget: the gate before it decides
who comes in.
"""

import re
from functools import cache
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount

from app.api import catalogue_routes, curve_routes, lab_routes, launch_routes, run_routes
from app.api.body_limit import ShortBodies
from app.api.errors import add_refusals, told
from app.api.launch_routes import LONGEST_BODY
from app.auth.bearer import API
from app.core.base_path import at
from engine import __version__
from engine.home import ROOT

ABOUT = """Runs, curves, logs, the queue and the machine of one Parallab lab as JSON, and launches.

A lab with accounts asks for a token (`Authorization: Bearer plab_…`, made by `python -m engine tokens make NAME`) of the scope read, or launch for what
changes something; a browser that is signed in reads too. A lab without accounts answers on its own machine alone.

Times are UTC, ISO 8601. A field's name ends in its unit (`execution_time_s`, `memory_mb`). JSON is strict: a number that is none is one of the strings
"NaN", "Infinity" and "-Infinity"; null means that there is nothing. Lists are paged by a cursor: give `next` as `before`. Names, notes, titles and causes are
what people and programs wrote: show them as text."""  # noqa: E501
CLIENT = ROOT / "app" / "api" / "parallab_client.py"
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: told("No token, or one that lets nobody in."),
    403: told("The token's scope, or the person's role, does not allow it; or a page of another site asked."),
    422: told("A field breaks a rule."),
    503: told("The store can't be read, or is held by another program; Retry-After says when to ask again."),
}


@cache
def api() -> FastAPI:
    """Return the API, made once; it serves no page of its own, since those of FastAPI load scripts from elsewhere."""
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
        dependencies=[Depends(HTTPBearer(auto_error=False, description="A token of the lab, such as plab_…"))],
        responses=REFUSALS,
        middleware=[Middleware(ShortBodies, most=LONGEST_BODY)],
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    add_refusals(made)
    for part in (lab_routes, run_routes, curve_routes, catalogue_routes, launch_routes):
        for route in part.router.routes:
            if isinstance(route, APIRoute):  # a docstring is wrapped for its file, a description by who shows it
                route.description = re.sub(r"(?<!\n)\n(?!\n)", " ", route.description)
        made.include_router(part.router)
    made.add_api_route("/client.py", client, include_in_schema=False)
    return made


def api_routes() -> list[BaseRoute]:
    """Return the API as a route beside the console's own."""
    mount = Mount(at(API), api())
    mount.path_regex = re.compile(
        mount.path_regex.pattern, re.DOTALL
    )  # an address with a line's end in it is the API's to refuse too
    return [mount]


def client() -> FileResponse:
    """Return the client for Python, one file that needs no other."""
    return FileResponse(CLIENT, media_type="text/x-python; charset=utf-8", filename=CLIENT.name)
