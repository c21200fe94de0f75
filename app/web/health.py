"""The health check of the console for load balancers, containers and people; open to everybody."""

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.auth.middleware import VISITOR
from app.core.caches import NEVER_STORE
from app.core.visitor import Visitor, visitor_now
from engine import __version__
from engine.errors import EngineError
from engine.home import Home
from engine.store.schema.upgrade import newest
from engine.system.machine import storage
from engine.system.runner_process import is_separate, runner_process

STARTING_S = 20.0
"""Time after the console's start in which its runner may not have registered yet."""
_SINCE = time.monotonic()


def health(request: Request) -> Response:
    """Return store state, schema, runner state and free disk space; 503 if the store can't be read.

    The error message includes the path of the store only for signed-in visitors.
    """
    home = Home.find()
    body: dict[str, object] = {
        "console": "parallab",
        "version": __version__,
        "store": "ok",
        "schema": newest(),
        "runner": "absent",
    }
    status = 200
    try:
        visitor_now({})
        starts = not is_separate() and time.monotonic() - _SINCE < STARTING_S
        body["runner"] = "alive" if runner_process(home) else "starting" if starts else "absent"
    except EngineError as error:
        found: Visitor = request.scope[VISITOR]
        body |= {
            "store": str(error) if found.welcome else home.unnamed(str(error)),
            "schema": None,
            "runner": "unknown",
        }
        status = 503
    body["disk_free_bytes"] = storage(home).disk_free
    return JSONResponse(body, status, NEVER_STORE)
