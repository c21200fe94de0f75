"""Error responses of the API: a message, the status, and the invalid fields."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from app.api.run_shapes import Shape
from app.auth.bearer import API
from app.core.caches import NEVER_STORE
from engine.errors import (
    ConfigError,
    EngineError,
    FilterError,
    Forbidden,
    NoSuchDuel,
    NoSuchFile,
    NoSuchRun,
    NoSuchSweep,
    RunnerError,
    SignInRefused,
    StoreError,
    WrongStatus,
)
from engine.home import Home

RETRY_AFTER_S = 1
SHOWN = 60
"""Maximum length of a value quoted in an error."""
STATUSES: tuple[tuple[type[EngineError], int], ...] = (
    (NoSuchRun, 404),
    (NoSuchSweep, 404),
    (NoSuchDuel, 404),
    (NoSuchFile, 404),
    (WrongStatus, 409),
    (StoreError, 503),
    (RunnerError, 503),
    (SignInRefused, 401),
    (Forbidden, 403),
    (FilterError, 400),
)
"""The first matching class applies; the default is 422."""
SENTENCES = {
    400: "Invalid request body. Send one JSON object with content-type: application/json.",
    404: "Path {path} doesn't exist. openapi.json lists all paths.",
    405: "Method {method} is not allowed for {path}. See the Allow header.",
    413: "The request body is too large.",
}
"""Errors for a bare status."""


class FieldProblem(Shape):
    """An error of one field."""

    field: str = Field(description="Field name; empty if the rule involves several fields.")
    sentence: str = Field(description="Value, rule and cure.")


class Refusal(Shape):
    """The reason of an error response."""

    error: str = Field(description="Human-readable message.")
    problems: list[FieldProblem] = Field(default=[], description="The errors per field, if any.")


def described(why: str) -> dict[str, Any]:
    """Return the OpenAPI description of an error response."""
    return {"model": Refusal, "description": why}


def refusal(
    status: int, sentence: str, problems: Sequence[FieldProblem] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response."""
    named = [FieldProblem(field=_writable(each.field), sentence=_writable(each.sentence)) for each in problems]
    return JSONResponse(
        Refusal(error=_writable(sentence), problems=named).model_dump(), status, NEVER_STORE | dict(headers or {})
    )


def of_error(error: EngineError) -> Response:
    """Return the response for an engine error, without the store's path."""
    status = status_of(error)
    problems: list[FieldProblem] = []
    if isinstance(error, ConfigError):
        problems = [FieldProblem(field=each.field, sentence=each.sentence) for each in error.problems]
    elif isinstance(error, FilterError):
        problems = [FieldProblem(field=error.field, sentence=f"{error} (characters {error.start} to {error.end})")]
    return refusal(
        status,
        Home.find().unnamed(str(error)),
        problems,
        {"retry-after": str(RETRY_AFTER_S)} if status == 503 else None,
    )


def status_of(error: EngineError) -> int:
    """Return the HTTP status of an engine error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 422)


def add_refusals(api: FastAPI) -> None:
    """Register handlers that turn every error of a request into an error response."""

    @api.exception_handler(EngineError)
    async def ours(request: Request, error: EngineError) -> Response:
        return of_error(error)

    @api.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        problems = [_problem(item) for item in error.errors()]
        return refusal(422, " ".join(problem.sentence for problem in problems), problems)

    @api.exception_handler(HTTPException)
    async def bare(request: Request, error: HTTPException) -> Response:
        said = str(error.detail)
        if said in (HTTPStatus(error.status_code).phrase, "There was an error parsing the body"):
            said = SENTENCES.get(error.status_code, f"{said}.").format(
                method=request.method, path=request.url.path[:200]
            )
        allowed = {"allow": ", ".join(_methods(api, request))} if error.status_code == 405 else error.headers
        return refusal(error.status_code, said, headers=allowed)

    @api.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return refusal(500, "Internal server error. The console's log has the traceback.")


def _methods(api: FastAPI, request: Request) -> list[str]:
    """Return the methods allowed at a path, collected over all its routes."""
    path = request.scope["path"].removeprefix(API)
    return sorted(
        {
            method.upper()
            for pattern, item in api.openapi()["paths"].items()
            for method in item
            if compile_path(pattern)[0].match(path)
        }
    )


def _problem(item: dict[str, Any]) -> FieldProblem:
    """Convert a pydantic error to a sentence with field, rule and value."""
    where = [str(part) for part in item["loc"]]
    field = ".".join(where[1:])[:200]
    if item["type"] == "json_invalid":
        return FieldProblem(
            field="", sentence=f"The request body is not valid JSON. {SENTENCES[400].partition('. ')[2]}"
        )
    if item["type"] == "extra_forbidden":
        return FieldProblem(field=field, sentence=f"Unknown field '{field}'. openapi.json lists all fields.")
    if item["type"] == "missing":
        return FieldProblem(field=field, sentence=f"{field or 'A request body'} is required.")
    rule = str(item["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    return FieldProblem(field=field, sentence=f"{field or 'The body'} {rule}; got {_shown(item.get('input'))}.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _writable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 can't encode."""
    return text.encode("utf-8", "backslashreplace").decode()
