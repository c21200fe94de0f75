"""The routes of programs outside of Parallab: begin a run, report what it records until its end, and mark it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field, JsonValue

from app.api.errors import described
from app.api.lab_routes import acting
from app.api.launch_routes import LONGEST_BODY, TIMEOUT_S, Owner
from app.api.run_routes import RunId
from app.api.run_shapes import MOST_ID, Body, Count, Id, Number, RunEntry, Shape, left_out
from app.auth.bearer import API
from app.core.assets import at
from engine.home import Home
from engine.store import Reader, Status, Store
from engine.store.imports.reports import Receipt, Report, ReportedEnd, ReportedRun
from engine.store.runs.commands import NAME_LENGTH, NOTE_LENGTH, TAG_LENGTH
from engine.transfer.import_bounds import LONGEST_TAG
from engine.transfer.reported_runs import begin, points, report

router = APIRouter()
LONGEST_REPORT = 2 << 20
"""Bytes of the body of a report or a run's begin; other bodies have `LONGEST_BODY`."""
MOST_ROWS = 10_000
NON_FINITE = Literal["NaN", "Infinity", "-Infinity"]
Value = Annotated[float, Field(allow_inf_nan=False)] | NON_FINITE
Step = Annotated[int, Field(ge=-MOST_ID, le=MOST_ID)]
Seconds = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=LONGEST_TAG)]


class Beginning(Body):
    """A run that a program outside of Parallab executes."""

    key: str = Field(
        "",
        max_length=200,
        description="Your name of the run: the same key again is the same run, so a repeated request begins nothing, "
        "and a program that was started again continues a run that has not ended. Default: a new run.",
    )
    experiment: Text = Field("", description="What runs are grouped by, such as a project; default: `reported`.")
    name: Text = Field("", description="Name of the run.")
    config: dict[str, JsonValue] = Field({}, description="Its settings; inner ones get a name with a dot.")
    tags: list[Text] = Field([], max_length=100, description="Its tags.")
    note: Annotated[str, Field(max_length=NOTE_LENGTH)] = Field("", description="Its note.")
    host: Text = Field("", description="Machine that the program runs on.")
    program: Text = Field("", description="The program.")
    python: Text = Field("", description="Version of its Python.")
    owner: Owner = None


class ReportedRow(Body):
    """Values that were recorded together."""

    step: Step = Field(description="Step, as the program counts.")
    time_s: Seconds = Field(description="Seconds since the run began, by the program's clock.")
    values: dict[str, Value] = Field(
        description='Value of each metric; those that JSON has no digits for are "NaN", "Infinity" and "-Infinity".'
    )


class Ending(Body):
    """The end of a run in the words of its program."""

    status: Literal["finished", "failed"] = Field(description="How it ended.")
    cause: Annotated[str, Field(max_length=2_000)] = Field("", description="Reason, as a sentence.")
    error: Annotated[str, Field(max_length=100_000)] = Field("", description="Traceback behind the cause.")
    time_s: Seconds | None = Field(
        None, json_schema_extra=left_out, description="Execution time in seconds; default: by the console's clock."
    )


class Reporting(Body):
    """What one process has recorded since its last report; without rows it says that the program lives."""

    rows: list[ReportedRow] = Field([], max_length=MOST_ROWS, description="New values, in the order recorded.")
    offset: int = Field(0, ge=0, le=MOST_ID, description="Number of the process's rows before these.")
    writer: str = Field("", max_length=100, description="Name of the process among those that report to this run.")
    config: dict[str, JsonValue] = Field({}, description="New and changed settings.")
    dropped: int = Field(0, ge=0, le=MOST_ID, description="Rows that the process has dropped so far, in all.")
    end: Ending | None = Field(None, json_schema_extra=left_out, description="The run's end, after these rows.")
    owner: Owner = None


class Received(Shape):
    """What the lab holds; it is committed."""

    id: Id
    status: Status
    rows: Count = Field(description="Rows of the process that are stored: the `offset` of its next report.")
    elapsed_s: Number = Field(description="Seconds since the run began, by the console's clock.")

    @classmethod
    def of(cls, receipt: Receipt) -> "Received":
        """Return a receipt as JSON."""
        return cls(**vars(receipt))


class MarkChanges(Body):
    """MarkChanges to change; what is left out stays."""

    name: str | None = Field(None, max_length=NAME_LENGTH, json_schema_extra=left_out, description="Its name.")
    note: str | None = Field(None, max_length=NOTE_LENGTH, json_schema_extra=left_out, description="Its note.")
    tags: list[Annotated[str, Field(min_length=1, max_length=TAG_LENGTH)]] = Field(
        [], max_length=100, description="Tags to add."
    )
    untag: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        [], max_length=100, description="Tags to remove."
    )
    starred: bool | None = Field(None, json_schema_extra=left_out, description="Whether it has the lab's star.")
    archived: bool | None = Field(None, json_schema_extra=left_out, description="Whether tables hide it.")
    baseline: bool | None = Field(
        None, json_schema_extra=left_out, description="Whether it is the baseline of its experiment."
    )
    owner: Owner = None


@router.post(
    "/reported-runs",
    status_code=201,
    summary="Begin a reported run",
    responses={
        200: {"model": Received, "description": "The run that has this key; it continues."},
        201: {
            "description": "The run; it is running.",
            "headers": {"Location": {"description": "URL of the run.", "schema": {"type": "string"}}},
        },
        400: described("Invalid request body."),
        409: described("The run of this key has finished or failed."),
        413: described(f"The request body exceeds {LONGEST_REPORT // 1024:,} KB."),
    },
)
def begin_reported(asked: Beginning, request: Request, response: Response) -> Received:
    """Begin a run whose program Parallab did not start: it is running at once, shows as other runs do, and is lost
    while nothing is reported to it. Requires a token with scope launch; quotas of reported runs and of disk apply.
    """
    home, by = Home.find(), acting(request, asked.owner)
    run = ReportedRun(
        environment={"host": asked.host, "program": asked.program, "python": asked.python},
        **{name: getattr(asked, name) for name in ("experiment", "key", "name", "config", "tags", "note")},
    )
    receipt, is_new = begin(home, run, by=by, timeout_s=TIMEOUT_S)
    response.headers["location"] = at(f"{API}/runs/{receipt.id}")
    if not is_new:
        response.status_code = 200
    return Received.of(receipt)


@router.post(
    "/runs/{run_id}/report",
    summary="Report to a run",
    responses={
        400: described("Invalid request body."),
        404: described("Unknown run."),
        409: described("The run has ended, is not a reported one, or rows before these are missing."),
        413: described(f"The request body exceeds {LONGEST_REPORT // 1024:,} KB."),
    },
)
def report_to(run_id: RunId, asked: Reporting, request: Request) -> Received:
    """Append rows and settings to a reported run, and end it; all or nothing, and on disk before the answer. Rows that
    are stored already, by `offset`, are not stored again, so a request is safe to repeat.
    """
    names: dict[str, str] = {}
    told = Report(
        rows=[points(row.step, row.time_s, row.values, names) for row in asked.rows],
        end=ReportedEnd(**asked.end.model_dump()) if asked.end else None,
        **{name: getattr(asked, name) for name in ("offset", "writer", "config", "dropped")},
    )
    return Received.of(report(Home.find(), run_id, told, by=acting(request, asked.owner), timeout_s=TIMEOUT_S))


@router.post(
    "/runs/{run_id}/marks",
    summary="Mark a run",
    responses={
        400: described("Invalid request body."),
        404: described("Unknown run."),
        409: described("A run that has not ended can't be archived."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def mark(run_id: RunId, asked: MarkChanges, request: Request) -> RunEntry:
    """Change name, note, tags, star, archive and baseline of any run, all or nothing. Requires a token with scope
    launch.
    """
    by = acting(request, asked.owner)
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store, store.db.change():
        store.read.runs.one(run_id)
        give = store.annotations
        if asked.name is not None:
            give.rename(run_id, asked.name, by=by)
        if asked.note is not None:
            give.set_note(run_id, asked.note, by=by)
        for tag in asked.tags:
            give.tag([run_id], tag, by=by)
        for tag in asked.untag:
            give.untag([run_id], tag, by=by)
        if asked.starred is not None:
            (give.star if asked.starred else give.unstar)([run_id], by=by)
        if asked.archived is not None:
            (give.archive if asked.archived else give.unarchive)([run_id], by=by)
        if asked.baseline is not None:
            (give.pin if asked.baseline else give.unpin)(run_id, by=by)
    with Reader.open(Home.find()) as reader:
        return RunEntry.of(reader.runs.entry(run_id))
