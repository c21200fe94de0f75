"""Our routes beside Streamlit's pages: health, change tokens, series, logs, the name, plotly's script, the way in, the
API and its numbers.

Each opens the store for itself, reads little, and answers an error of ours as a sentence with its status.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.api.service import api_routes
from app.auth.middleware import HEALTH, VISITOR
from app.auth.password_page import password_routes
from app.auth.request_body import body
from app.auth.sign_in_routes import sign_in_routes
from app.core import name_cookie
from app.core.base_path import at, base, cookie_path
from app.core.caches import NEVER_STORE, ResponseCache
from app.core.machine_token import machine_token
from app.core.plotly_asset import PLOTLY, PLOTLY_URL
from app.core.shared_reader import SharedReader
from app.core.visitor import is_secure
from app.home import summary
from app.run import live_series, live_update, log_tail
from app.web.health import health
from app.web.page_html import page_routes
from app.web.prometheus import prometheus_routes
from engine.errors import ConfigError, EngineError, NoSuchRun, Problem, StoreBusy, StoreTooNew
from engine.home import Home
from engine.store import Reader, Stretch
from engine.store.access.people import checked_name
from engine.store.curves.series import Axis
from engine.system import log_files

LONGEST_BODY = 2_000
AXES: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""The live chart's names of a curve's axes, and the store's."""
_reader = SharedReader()
_responses = ResponseCache()


def routes() -> list[BaseRoute]:
    """Return the routes that the console serves beside its pages."""
    return [
        Route(at(HEALTH), _answered(health)),
        *polled_routes(),
        Route(at("/api/compare"), _shared(comparison)),
        Route(at("/api/log"), _answered(log)),
        Route(at("/api/name"), name, methods=["POST"]),
        Route(at(PLOTLY_URL), plotly_script),
        *sign_in_routes(),
        *password_routes(),
        *prometheus_routes(),
        *api_routes(),
        *page_routes(),
        *([Route(HEALTH, _answered(health)), Route("/", to_the_console)] if base() else []),
    ]


def polled_routes() -> list[Route]:
    """Return those of them that every open page asks again and again."""
    return [
        Route(at("/api/token"), _shared(token)),
        Route(at("/api/standing"), _shared(run_standing)),
        Route(at("/api/home"), _shared(home)),
        Route(at("/api/series"), _shared(run_series)),
    ]


async def to_the_console(request: Request) -> Response:
    """Send whoever asks for the host itself to where the console stands on it."""
    return RedirectResponse(at("/"), 303, NEVER_STORE)


async def token(request: Request) -> Response:
    """Return the change token of one run, of one sweep, of one duel, of the machine, or of the whole store."""
    if "machine" in request.query_params:
        found = await run_in_threadpool(_read, machine_token)
    elif "sweep" in request.query_params:
        sweep_id = _whole(request, "sweep")
        found = await run_in_threadpool(_read, lambda reader: reader.sweeps.token(sweep_id))
    elif "duel" in request.query_params:
        duel_id = _whole(request, "duel")
        found = await run_in_threadpool(_read, lambda reader: reader.duels.token(duel_id))
    else:
        found = _reader.token(Home.find(), _whole(request, "run") if "run" in request.query_params else None)
    return JSONResponse({"token": found}, headers=NEVER_STORE)


async def run_standing(request: Request) -> Response:
    """Return how a run stands for whoever has `section` of its page open; where its version still is `version`, only
    that.
    """
    home, run_id, section = Home.find(), _whole(request, "run"), request.query_params.get("section", "")
    version = _reader.token(home, run_id)
    if version and version == _whole(request, "version", 0):
        return _unchanged(version)
    found = await _responses.get(
        (home.path, "standing", run_id, section, version), lambda: vars(live_update.standing(home, run_id, section))
    )
    return found.response(request)


async def home(request: Request) -> Response:
    """Return how the lab stands for a person to whom what ended later than `since` is new; where its version still is
    `version`, only that.
    """
    where, since, version = Home.find(), _moment(request, "since"), _whole(request, "version", 0)
    found = await run_in_threadpool(summary.shared, where, since)
    if found.version == version:
        return _unchanged(version)
    return (await _responses.get((where.path, "home", since, found.version), lambda: vars(found))).response(request)


async def run_series(request: Request) -> Response:
    """Return a run's curves after a point id, or a stretch of them from `from` to `to` along `axis` (step, passes or
    time).
    """
    home, run_id, after, within = Home.find(), _whole(request, "run"), _whole(request, "after", 0), _stretch(request)
    names = [name for name in request.query_params.get("metrics", "").split(",") if name]
    version = _reader.token(home, run_id)
    if version and version == _whole(request, "version", 0):
        return _unchanged(version)
    found = await _responses.get(
        (home.path, "series", run_id, *names, after, within, version),
        lambda: live_series.answer(home, run_id, names, after, within),
    )
    return found.response(request)


async def comparison(request: Request) -> Response:
    """Return one `metric`'s chart of the Compare page's view that the rest of the query holds, finer from `from` to
    `to` along its axis.
    """
    home, query = Home.find(), dict(request.query_params)
    within = _number(request, "from", -math.inf), _number(request, "to", math.inf)

    def make() -> Any:
        from app.compare.zoom import answer  # plotly and pandas take a second to import; only who zooms waits for them

        return answer(home, query, query.get("metric", ""), within)

    found = await _responses.get((home.path, "compare", *sorted(query.items()), _reader.token(home)), make)
    return found.response(request)


def log(request: Request) -> Response:
    """Return one log of a run, or (without one) of the lab after a byte offset, or the whole file as a download."""
    run_id, source = (
        _whole(request, "run") if "run" in request.query_params else None,
        request.query_params.get("source", ""),
    )
    path = (
        log_tail.lab_log_path(Home.find(), source) if run_id is None else log_tail.log_path(Home.find(), run_id, source)
    )
    if "download" in request.query_params:
        if not path.is_file():
            whose = "the lab" if run_id is None else f"run {run_id}"
            raise NoSuchRun(f"The log '{source}' of {whose} has not been written yet, or its file was removed.")
        filename = path.name if run_id is None else f"run-{run_id}-{source}.log"
        if log_files.has_hole(path):
            as_file = {"Content-Disposition": f'attachment; filename="{filename}"'}
            return StreamingResponse(
                (each.text for each in log_files.pieces(path)),
                media_type="text/plain; charset=utf-8",
                headers=NEVER_STORE | as_file,
            )
        return FileResponse(path, media_type="text/plain; charset=utf-8", filename=filename, headers=NEVER_STORE)
    offset = _whole(request, "offset") if "offset" in request.query_params else None
    return JSONResponse(vars(log_tail.tail(path, offset)), headers=NEVER_STORE)


async def name(request: Request) -> Response:
    """Set the cookie that carries a person's name; answers with the proof that a page takes."""
    if request.scope[VISITOR].asked:
        return JSONResponse({"error": "This lab has accounts: the name is that of whoever signs in."}, 403, NEVER_STORE)
    try:
        said = checked_name(await _body(request))
    except ConfigError as error:
        return JSONResponse({"error": str(error)}, 422, NEVER_STORE)
    home = Home.find()
    answer = JSONResponse({"name": said, "proof": name_cookie.hand_over(home, said)}, headers=NEVER_STORE)
    kept = name_cookie.sign(home, said)
    secure = is_secure(request.url.scheme)
    answer.set_cookie(
        name_cookie.COOKIE,
        kept,
        name_cookie.COOKIE_AGE_S,
        path=cookie_path(),
        httponly=True,
        samesite="lax",
        secure=secure,
    )
    return answer


async def plotly_script(request: Request) -> Response:
    """Return plotly.js as its wheel ships it; the address names the version, so a browser may keep it for ever."""
    return FileResponse(
        PLOTLY, media_type="text/javascript", headers={"cache-control": "public, max-age=31536000, immutable"}
    )


async def _body(request: Request) -> object:
    """Return the `name` of a JSON body; other kinds of body are what a foreign form could send."""
    wrong = ConfigError([Problem("name", 'A name is sent as JSON, such as {"name": "Ada"}, in at most 2,000 bytes.')])
    if (
        request.headers.get("content-type", "").partition(";")[0] != "application/json"
        or (sent := await body(request, LONGEST_BODY)) is None
    ):
        raise wrong
    try:
        return json.loads(sent)["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise wrong from None


def _answered(route: Callable[[Request], Response]) -> Callable[[Request], Any]:
    """Return the route as a coroutine off the event loop, whose errors of ours become a sentence with a status."""

    async def answer(request: Request) -> Response:
        try:
            return await run_in_threadpool(route, request)
        except EngineError as error:
            return JSONResponse({"error": Home.find().unnamed(str(error))}, _status_of(error), NEVER_STORE)

    return answer


def _shared(route: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return a route that is a coroutine itself, with errors of ours as `_answered` gives them."""

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


def _stretch(request: Request) -> Stretch | None:
    """Return the stretch that a zoomed chart asks for, None where it asks for all."""
    query = request.query_params
    if not {"from", "to", "axis"} & set(query):
        return None
    if (axis := AXES.get(query.get("axis", "step"))) is None:
        raise ConfigError([Problem("axis", f"axis must be one of {', '.join(AXES)}, got '{query['axis']}'.")])
    return Stretch(axis, _number(request, "from", -math.inf), _number(request, "to", math.inf))


def _number(request: Request, field: str, default: float) -> float:
    text = request.query_params.get(field)
    try:
        found = default if text is None else float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise ConfigError([Problem(field, f"{field} must be a number, got '{text}'.")])
    return found


def _moment(request: Request, field: str) -> str:
    """Return a time as the store writes it."""
    text = request.query_params.get(field, "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise ConfigError(
            [Problem(field, f"{field} must be a time such as 2026-11-01T14:30:00.000Z, got '{text[:40]}'.")]
        ) from None


def _whole(request: Request, field: str, default: int | None = None) -> int:
    text = request.query_params.get(field)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > 18:
        raise ConfigError([Problem(field, f"{field} must be a whole number, got '{text or ''}'.")])
    return int(text)
