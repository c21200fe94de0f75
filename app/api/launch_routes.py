"""The two changes of the API: launch a run, once per key, and cancel a run."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field, JsonValue

from app.api.errors import described
from app.api.lab_routes import acting
from app.api.run_routes import RunId
from app.api.run_shapes import Body, Id, RunEntry, Shape, TermsTold, left_out
from app.auth.bearer import API, token_of
from app.core.assets import at
from app.core.visitor import shown_secret
from engine.analysis.total_work import unreached
from engine.home import Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.store import Launch, Reader, Status, Store
from engine.store.launches import LONGEST_KEY, LaunchKey
from engine.store.runs.commands import NAME_LENGTH
from engine.store.timestamps import now

router = APIRouter()
LONGEST_BODY = 64 * 1024
TIMEOUT_S = 5.0
Owner = Annotated[
    str | None,
    Field(
        max_length=60,
        description=("Owner of the run in a lab without accounts. With accounts it is the token's person; omit it."),
    ),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        json_schema_extra=left_out,
        min_length=1,
        max_length=LONGEST_KEY,
        description=(
            "Your key for this launch: a repeated request within a week launches nothing and returns the first "
            "request's run."
        ),
    ),
]


class Submission(Body):
    """A run to launch."""

    experiment: str = Field(min_length=1, max_length=100, description="Experiment name; see GET /experiments.")
    preset: str | None = Field(
        None, max_length=100, description="Preset to start from; default: the defaults of all settings."
    )
    config: dict[str, JsonValue] = Field(
        {}, description="Settings that override the preset; GET /experiments/{name} has their JSON schema."
    )
    title: str = Field("", max_length=NAME_LENGTH, description="Name of the run.")
    terms: TermsTold = Field(TermsTold(), description="Priority, core sharing, time limit, retries and cluster.")
    owner: Owner = None


class Launched(RunEntry):
    """The run, and what to know of it."""

    cautions: list[str] = Field(
        description="Intervals that exceed the length of the run, such as evaluate_every of 10 rounds in a run of 8; "
        "they have no effect."
    )


class Cancellation(Body):
    """Options of a cancel."""

    force: bool = Field(False, description="Kill the processes at once (SIGKILL).")
    owner: Owner = None


class Cancelled(Shape):
    """Result of a cancel."""

    id: Id
    status: Status = Field(
        description="`cancelled` for a queued run; otherwise `stopping`, then `cancelled` after all its processes "
        "have ended."
    )


@router.post(
    "/runs",
    status_code=201,
    summary="Launch a run",
    responses={
        200: {"model": Launched, "description": "The run that the same key launched earlier."},
        201: {
            "description": "The run, queued.",
            "headers": {"Location": {"description": "URL of the run.", "schema": {"type": "string"}}},
        },
        400: described("Invalid request body."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def submit(asked: Submission, request: Request, response: Response, key: Key = None) -> Launched:
    """Queue one run under the name of the token's person; 422 lists the invalid settings by field. Requires a token
    with scope launch.
    """
    home, owner, began_at = Home.find(), acting(request, asked.owner), now()
    known = experiment(asked.experiment)
    config = known.configure(asked.preset, asked.config)
    once = LaunchKey.of(key, asked.model_dump(mode="json")) if key is not None else None
    terms, settings = LaunchOptions(**asked.terms.model_dump()), config.model_dump(mode="json")
    wanted = Launch(known.name, settings, owner, asked.preset, asked.title, terms)
    with shown_secret(home, token_of(request.scope)):
        run_id = launch(home, wanted, timeout_s=TIMEOUT_S, once=once)
    with Reader.open(home) as reader:
        entry = Launched.model_validate(
            {
                **RunEntry.of(reader.runs.entry(run_id)).model_dump(),
                "cautions": unreached(known, config, terms.max_run_time_s),
            }
        )
    response.headers["location"] = at(f"{API}/runs/{run_id}")
    if once and entry.created_at < began_at:
        response.status_code = 200
    return entry


@router.post(
    "/runs/{run_id}/cancel",
    summary="Cancel a run",
    responses={
        400: described("Invalid request body."),
        404: described("Unknown run."),
        409: described("The run has already ended."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def cancel(run_id: RunId, asked: Cancellation, request: Request) -> Cancelled:
    """Request a run's end: a queued run ends at once, otherwise its worker and ranks are ended. Repeating the request
    changes nothing. Requires a token with scope launch.
    """
    by = acting(request, asked.owner)
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store:
        return Cancelled(id=run_id, status=store.runs.cancel(run_id, by=by, force=asked.force))
