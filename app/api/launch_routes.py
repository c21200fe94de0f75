"""The two changes that the API makes: a run is launched, once for each key, and a run is cancelled."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field, JsonValue

from app.api.errors import told
from app.api.identity import acting
from app.api.run_routes import RunId
from app.api.run_shapes import RunEntry, TermsTold
from app.api.shapes import Body, Id, Shape, left_out
from app.auth.bearer import API
from app.core.base_path import at
from engine.home import Home
from engine.launch import launch
from engine.launch_options import Terms
from engine.registry import experiment
from engine.store import Reader, Status, Store
from engine.store.runs.commands import NAME_LENGTH
from engine.store.runs.idempotency_keys import LONGEST, LaunchKey
from engine.store.timestamps import now

router = APIRouter()
LONGEST_BODY = 64 * 1024
TIMEOUT_S = 5.0
Owner = Annotated[
    str | None,
    Field(
        max_length=60,
        description=(
            "In a lab without accounts: under whose name. With accounts it is the token's person; leave it out."
        ),
    ),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        json_schema_extra=left_out,
        min_length=1,
        max_length=LONGEST,
        description=(
            "What you call this launch: a request that comes again with it within a week launches nothing, and is "
            "answered with the first one's run."
        ),
    ),
]


class Submission(Body):
    """A run to be launched."""

    experiment: str = Field(min_length=1, max_length=100, description="The method's name; GET /experiments lists them.")
    preset: str | None = Field(
        None, max_length=100, description="A named config to start from; without one, the defaults."
    )
    config: dict[str, JsonValue] = Field(
        {}, description="Settings that differ from it; GET /experiments/{name} has their bounds as a JSON schema."
    )
    title: str = Field("", max_length=NAME_LENGTH, description="What you call the run.")
    terms: TermsTold = Field(TermsTold(), description="What the run asks for beside its config.")
    owner: Owner = None


class Cancellation(Body):
    """How a run is to end."""

    force: bool = Field(False, description="Kill its processes without asking them first.")
    owner: Owner = None


class Cancelled(Shape):
    """What came of a cancel."""

    id: Id
    status: Status = Field(
        description="cancelled where it was queued; else stopping, and cancelled once nothing of it is left."
    )


@router.post(
    "/runs",
    status_code=201,
    summary="Launch a run",
    responses={
        200: {"model": RunEntry, "description": "The run that the same key launched before."},
        201: {
            "description": "The run, queued.",
            "headers": {"Location": {"description": "Where the run is told in full.", "schema": {"type": "string"}}},
        },
        400: told("The body can't be read."),
        413: told(f"The body is longer than {LONGEST_BODY // 1024} KB."),
    },
)
def submit(asked: Submission, request: Request, response: Response, key: Key = None) -> RunEntry:
    """Queue one run under the name of the token's person; 422 says by field which settings break a rule. Takes a token
    of the scope launch.
    """
    home, owner, began_at = Home.find(), acting(request, asked.owner), now()
    known = experiment(asked.experiment)
    config = known.configure(asked.preset, asked.config)
    once = LaunchKey.of(key, asked.model_dump(mode="json")) if key is not None else None
    terms = Terms(**asked.terms.model_dump())
    run_id = launch(
        home,
        known.name,
        config,
        owner=owner,
        preset=asked.preset,
        title=asked.title,
        timeout_s=TIMEOUT_S,
        terms=terms,
        once=once,
    )
    with Reader.open(home) as reader:
        entry = RunEntry.model_validate(reader.runs.entry(run_id))
    response.headers["location"] = at(f"{API}/runs/{run_id}")
    if once and entry.created_at < began_at:
        response.status_code = 200
    return entry


@router.post(
    "/runs/{run_id}/cancel",
    summary="Cancel a run",
    responses={
        400: told("The body can't be read."),
        404: told("No run has that number."),
        409: told("The run has ended already."),
        413: told(f"The body is longer than {LONGEST_BODY // 1024} KB."),
    },
)
def cancel(run_id: RunId, asked: Cancellation, request: Request) -> Cancelled:
    """Ask for a run's end: at once while it is queued, else by ending worker and ranks. Asking twice changes nothing.
    Takes a token of the scope launch.
    """
    by = acting(request, asked.owner)
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store:
        return Cancelled(id=run_id, status=store.runs.cancel(run_id, by=by, force=asked.force))
