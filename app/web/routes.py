"""The console's routes besides Streamlit's pages: health, change tokens, series, logs, the name, plotly.js, sign-in,
API and metrics.

Each opens the store, reads little, and returns an engine error as a message with a status.
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth.bearer import API
from app.auth.middleware import HEALTH, VISITOR
from app.auth.sign_in_routes import body, password_routes, sign_in_routes
from app.core import visitor
from app.core.assets import PLOTLY, PLOTLY_URL, at, base, cookie_path
from app.core.caches import NEVER_STORE, ResponseCache, SharedReader, machine_token
from app.core.visitor import is_secure
from app.home import summary
from app.run import live_series, live_update, log_tail
from app.web.command_palette import palette
from app.web.health import health
from app.web.page_html import page_routes
from app.web.prometheus import prometheus_routes
from engine.errors import ConfigError, EngineError, FilterError, NoSuchRun, StoreBusy, StoreTooNew
from engine.filter.syntax import LONGEST
from engine.home import Home
from engine.store import Reader, Stretch
from engine.store.access.people import checked_name
from engine.store.curves.series import Axis
from engine.system import run_files

_reader = SharedReader()
_responses = ResponseCache()


def routes() -> list[BaseRoute]:
    """Return the routes of the console besides its pages."""
    return [
        Route(at(HEALTH), _answered(health)),
        *polled_routes(),
        Route(at("/api/compare"), _shared(comparison)),
        Route(at("/api/log"), _answered(log)),
        Route(at("/api/timeline"), _shared(timeline)),
        Route(at("/api/palette"), _answered(palette)),
        Route(at("/api/name"), name, methods=["POST"]),
        Route(at(PLOTLY_URL), plotly_script),
        *sign_in_routes(),
        *password_routes(),
        *prometheus_routes(),
        api_mount(),
        *page_routes(),
        *([Route(HEALTH, _answered(health)), Route("/", to_the_console)] if base() else []),
    ]


def polled_routes() -> list[Route]:
    """Return the routes that every open page polls."""
    return [
        Route(at("/api/token"), _shared(token)),
        Route(at("/api/standing"), _shared(run_standing)),
        Route(at("/api/home"), _shared(home)),
        Route(at("/api/series"), _shared(run_series)),
    ]


def api_mount() -> Mount:
    """Return the API, which its first request imports: the console answers before."""
    mount = Mount(at(API), _api)
    # an address with a line's end in it is the API's to refuse too
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


async def _api(scope: Scope, receive: Receive, send: Send) -> None:
    await (await run_in_threadpool(_service))(scope, receive, send)


@cache
def _service() -> ASGIApp:
    from app.api.service import api

    return api()


async def to_the_console(request: Request) -> Response:
    """Redirect from the host's root to the console's base path."""
    return RedirectResponse(at("/"), 303, NEVER_STORE)


async def token(request: Request) -> Response:
    """Return the change token of one run, of one sweep, of one duel, of the machine, of the exercises, or of the whole
    store; of a filter its newest run.
    """
    found = 0
    if "machine" in request.query_params:
        found = await run_in_threadpool(_read, machine_token)
    elif "sweep" in request.query_params:
        sweep_id = whole_field(request, "sweep")
        found = await run_in_threadpool(_read, lambda reader: reader.sweeps.token(sweep_id))
    elif "duel" in request.query_params:
        duel_id = whole_field(request, "duel")
        found = await run_in_threadpool(_read, lambda reader: reader.duels.token(duel_id))
    elif "exercises" in request.query_params:
        found = await run_in_threadpool(_read, lambda reader: reader.exercises.token())
    elif "latest" in request.query_params:
        text = request.query_params["latest"][:LONGEST]
        with suppress(FilterError):
            found = await run_in_threadpool(_read, lambda reader: reader.runs.newest(reader.fields.filter(text)) or 0)
    else:
        found = _reader.token(Home.find(), whole_field(request, "run") if "run" in request.query_params else None)
    return JSONResponse({"token": found}, headers=NEVER_STORE)


async def run_standing(request: Request) -> Response:
    """Return the live content of a run's page with `section` open; if its version still is `version`, only that."""
    home, run_id, section = Home.find(), whole_field(request, "run"), request.query_params.get("section", "")
    version = _reader.token(home, run_id)
    if version and version == whole_field(request, "version", 0):
        return _unchanged(version)
    found = await _responses.get(
        (home.path, "standing", run_id, section, version), lambda: vars(live_update.standing(home, run_id, section))
    )
    return found.response(request)


async def home(request: Request) -> Response:
    """Return the live content of the Home page with runs that ended after `since` as news, `without` those of attempts
    at some exercises; if its version still is `version`, only that.
    """
    where, since, version = Home.find(), time_field(request, "since"), whole_field(request, "version", 0)
    without = frozenset(request.query_params.getlist("without"))
    found = await run_in_threadpool(summary.shared, where, since, without)
    if found.version == version:
        return _unchanged(version)
    return (await _responses.get((where.path, "home", since, found.version), lambda: vars(found))).response(request)


async def run_series(request: Request) -> Response:
    """Return a run's curves after a point id, or the range from `from` to `to` on `axis` (step, passes or time); a page
    with another `revision` shows other metrics.
    """
    home, run_id, after, within = (
        Home.find(),
        whole_field(request, "run"),
        whole_field(request, "after", 0),
        stretch_field(request),
    )
    names = request.query_params.getlist("metrics")
    version = _reader.token(home, run_id)
    if version and version == whole_field(request, "version", 0):
        return _unchanged(version)
    found = await _responses.get(
        (home.path, "series", run_id, *names, after, within, version, whole_field(request, "revision", 0)),
        lambda: live_series.answer(home, run_id, names, after, within),
    )
    return found.response(request)


async def comparison(request: Request) -> Response:
    """Return the chart of one `metric` of the Compare page's view in the query, at a finer resolution from `from` to
    `to` on its x axis.
    """
    home, query = Home.find(), dict(request.query_params)
    within = number_field(request, "from", -math.inf), number_field(request, "to", math.inf)

    def make() -> Any:
        from app.compare.zoom import answer  # importing plotly and pandas takes a second; only a zoom needs them

        return answer(home, query, query.get("metric", ""), within)

    found = await _responses.get((home.path, "compare", *sorted(query.items()), _reader.token(home)), make)
    return found.response(request)


async def timeline(request: Request) -> Response:
    """Return the picture of a run's timeline from `from` to `to`, in microseconds after all ranks were ready; without
    them a few steps at the start, or with `newest` the newest ones.
    """
    home, run_id = Home.find(), whole_field(request, "run")
    begin, end = (
        number_field(request, name, math.nan) if name in request.query_params else None for name in ("from", "to")
    )

    def make() -> Any:
        from app.charts.timeline_picture import picture  # NumPy, which no other route needs

        return picture(home, run_id, begin, end, newest=newest)

    newest = "newest" in request.query_params
    key = (home.path, "timeline", run_id, begin, end, newest, _reader.token(home, run_id))
    return (await _responses.get(key, make)).response(request)


def log(request: Request) -> Response:
    """Return a log of a run, or without a run of the lab, after a byte offset; or the whole file as a download."""
    run_id, source = (
        whole_field(request, "run") if "run" in request.query_params else None,
        request.query_params.get("source", ""),
    )
    path = (
        log_tail.lab_log_path(Home.find(), source) if run_id is None else log_tail.log_path(Home.find(), run_id, source)
    )
    if "download" in request.query_params:
        if not path.is_file():
            whose = "the lab" if run_id is None else f"run {run_id}"
            raise NoSuchRun(f"The log '{source}' of {whose} doesn't exist: not written yet, or removed.")
        filename = path.name if run_id is None else f"run-{run_id}-{source}.log"
        if run_files.has_hole(path):
            as_file = {"Content-Disposition": f'attachment; filename="{filename}"'}
            return StreamingResponse(
                (each.text for each in run_files.pieces(path)),
                media_type="text/plain; charset=utf-8",
                headers=NEVER_STORE | as_file,
            )
        return FileResponse(path, media_type="text/plain; charset=utf-8", filename=filename, headers=NEVER_STORE)
    offset = whole_field(request, "offset") if "offset" in request.query_params else None
    return JSONResponse(vars(log_tail.tail(path, offset)), headers=NEVER_STORE)


async def name(request: Request) -> Response:
    """Set the cookie with a person's name; return the proof for the page."""
    if request.scope[VISITOR].asked:
        return JSONResponse({"error": "This lab has accounts: the name comes from the sign-in."}, 403, NEVER_STORE)
    try:
        given = checked_name(await name_of_body(request))
    except ConfigError as error:
        return JSONResponse({"error": str(error)}, 422, NEVER_STORE)
    home = Home.find()
    answer = JSONResponse({"name": given, "proof": visitor.hand_over(home, given)}, headers=NEVER_STORE)
    kept = visitor.sign(home, given)
    secure = is_secure(request.url.scheme)
    answer.set_cookie(
        visitor.NAME_COOKIE,
        kept,
        visitor.COOKIE_AGE_S,
        path=cookie_path(),
        httponly=True,
        samesite="lax",
        secure=secure,
    )
    return answer


async def plotly_script(request: Request) -> Response:
    """Return plotly.js; its address includes the version, so browsers may cache it forever."""
    return FileResponse(
        PLOTLY, media_type="text/javascript", headers={"cache-control": "public, max-age=31536000, immutable"}
    )


def _answered(route: Callable[[Request], Response]) -> Callable[[Request], Any]:
    """Return the route as a coroutine that runs it off the event loop and turns engine errors into a status."""

    async def answer(request: Request) -> Response:
        try:
            return await run_in_threadpool(route, request)
        except EngineError as error:
            return JSONResponse({"error": Home.find().unnamed(str(error))}, _status_of(error), NEVER_STORE)

    return answer


def _shared(route: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return a coroutine route with engine errors turned into a status, as `_answered` does."""

    async def answer(request: Request) -> Response:
        try:
            found: Response = await route(request)
        except EngineError as error:
            return JSONResponse({"error": Home.find().unnamed(str(error))}, _status_of(error), NEVER_STORE)
        return found

    return answer


def _read(question: Callable[[Reader], int]) -> int:
    with Reader.open(Home.find()) as reader:
        return question(reader)


def _unchanged(version: int) -> Response:
    return JSONResponse({"version": version, "unchanged": True}, headers=NEVER_STORE)


def _status_of(error: EngineError) -> int:
    if isinstance(error, ConfigError):
        return 400
    return 503 if isinstance(error, StoreBusy | StoreTooNew) else 404


# ---- The fields of a request: numbers, times and ranges in its query, the name in its body -------------------------

LONGEST_BODY = 2_000
AXES: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""The live chart's names of a curve's axes, and the store's."""


async def name_of_body(request: Request) -> object:
    """Return the `name` of a JSON body; other content types are refused, since a foreign form could send them."""
    wrong = ConfigError.of("name", 'The body must be JSON such as {"name": "Ada"}, at most 2,000 bytes.')
    if (
        request.headers.get("content-type", "").partition(";")[0] != "application/json"
        or (sent := await body(request, LONGEST_BODY)) is None
    ):
        raise wrong
    try:
        return json.loads(sent)["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise wrong from None


def stretch_field(request: Request) -> Stretch | None:
    """Return the range that a zoomed chart requests, None for all."""
    query = request.query_params
    if not {"from", "to", "axis"} & set(query):
        return None
    if (axis := AXES.get(query.get("axis", "step"))) is None:
        raise ConfigError.of("axis", f"axis must be one of {', '.join(AXES)}, got '{query['axis']}'.")
    return Stretch(axis, number_field(request, "from", -math.inf), number_field(request, "to", math.inf))


def number_field(request: Request, field: str, default: float) -> float:
    """Return a number in the query, or the default if it is missing."""
    text = request.query_params.get(field)
    try:
        found = default if text is None else float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise ConfigError.of(field, f"{field} must be a number, got '{text}'.")
    return found


def time_field(request: Request, field: str) -> str:
    """Return a time in the query in the store's format."""
    text = request.query_params.get(field, "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise ConfigError.of(
            field, f"{field} must be a time such as 2026-11-01T14:30:00.000Z, got '{text[:40]}'."
        ) from None


def whole_field(request: Request, field: str, default: int | None = None) -> int:
    """Return a whole number in the query, or the default, if any, if it is missing."""
    text = request.query_params.get(field)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > 18:
        raise ConfigError.of(field, f"{field} must be a whole number, got '{text or ''}'.")
    return int(text)
