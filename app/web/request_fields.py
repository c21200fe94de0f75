"""The fields of a request: numbers, times and ranges in its query, the name in its body."""

import json
import math
from datetime import UTC, datetime

from starlette.requests import Request

from app.auth.request_body import body
from engine.errors import ConfigError, Problem
from engine.store import Stretch
from engine.store.curves.series import Axis

LONGEST_BODY = 2_000
AXES: dict[str, Axis] = {"step": "step", "passes": "passes", "time": "time_s"}
"""The live chart's names of a curve's axes, and the store's."""


async def name_of_body(request: Request) -> object:
    """Return the `name` of a JSON body; other content types are refused, since a foreign form could send them."""
    wrong = ConfigError([Problem("name", 'The body must be JSON such as {"name": "Ada"}, at most 2,000 bytes.')])
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
        raise ConfigError([Problem("axis", f"axis must be one of {', '.join(AXES)}, got '{query['axis']}'.")])
    return Stretch(axis, number_field(request, "from", -math.inf), number_field(request, "to", math.inf))


def number_field(request: Request, field: str, default: float) -> float:
    """Return a number in the query, or the default if it is missing."""
    text = request.query_params.get(field)
    try:
        found = default if text is None else float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise ConfigError([Problem(field, f"{field} must be a number, got '{text}'.")])
    return found


def time_field(request: Request, field: str) -> str:
    """Return a time in the query in the store's format."""
    text = request.query_params.get(field, "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise ConfigError(
            [Problem(field, f"{field} must be a time such as 2026-11-01T14:30:00.000Z, got '{text[:40]}'.")]
        ) from None


def whole_field(request: Request, field: str, default: int | None = None) -> int:
    """Return a whole number in the query, or the default, if any, if it is missing."""
    text = request.query_params.get(field)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > 18:
        raise ConfigError([Problem(field, f"{field} must be a whole number, got '{text or ''}'.")])
    return int(text)
