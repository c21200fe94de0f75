"""Routes for runs and their logs."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import Field

from app.api.errors import described as told
from app.api.run_shapes import (
    DIGITS,
    MOST_ID,
    Asked,
    Demanded,
    EventTold,
    HealthTold,
    Id,
    JobInfo,
    LogTail,
    Phases,
    RankTold,
    RunEntry,
    RunInFull,
    RunList,
    ScriptTold,
    SummaryTold,
    TermsTold,
    left_out,
    said_of,
)
from app.run import log_tail
from engine.errors import EngineError, StoreBusy, StoreTooNew
from engine.filter.syntax import LONGEST
from engine.home import Home
from engine.queue.cluster_wait import job_state
from engine.queue.forecast import wait_reason
from engine.store import Reader, Status

router = APIRouter()
RunId = Annotated[int, Path(ge=1, le=MOST_ID, description="The run's number."), DIGITS]


class RunsAsked(Asked):
    """Query parameters of the run list."""

    filter: str = Field(
        "",
        max_length=LONGEST,
        description="Filter expression (docs/filter.md), such as trainers >= 4 and test/accuracy.best > 98.",
    )
    status: list[Status] = Field([], max_length=8, description="Only runs with these statuses; repeatable.")
    experiment: str | None = Field(
        None, json_schema_extra=left_out, max_length=200, description="Only runs of this experiment."
    )
    owner: str | None = Field(None, json_schema_extra=left_out, max_length=200, description="Only runs of this person.")
    sweep: Id | None = Field(None, json_schema_extra=left_out, description="Only runs of this sweep.")
    archived: bool = Field(False, description="Include archived runs; ignored if the filter mentions `archived`.")
    sort: str = Field(
        "",
        max_length=LONGEST,
        description="Order, by any field of the filter language: -test/accuracy.best, learning_rate, -duration. A "
        "minus sorts in descending order; runs without a value come last. Default: by number, highest first. Numbers "
        "are given when runs are queued or imported; -created sorts by the time that is recorded.",
    )
    before: Id | None = Field(
        None,
        json_schema_extra=left_out,
        description="Cursor: only runs that come after this one in the order; pass `next` of the previous page. A run "
        "whose value changes meanwhile may be on two pages or on none.",
    )
    limit: int = Field(100, ge=1, le=500, description="Page size.")


class LogAsked(Asked):
    """Query parameters of a log."""

    source: str = Field(
        "worker", max_length=100, description="Source of the log: worker, or a rank's role such as trainer1."
    )
    offset: Annotated[int, Field(ge=0, le=MOST_ID)] | None = Field(
        None, json_schema_extra=left_out, description="Byte offset to read from; default: the last 256 KB."
    )


@router.get(
    "/runs",
    summary="List runs, highest number first",
    responses={400: told("Invalid filter or order."), 404: told("The run that before names was deleted.")},
)
def runs(asked: Annotated[RunsAsked, Query()]) -> RunList:
    """Return a page of runs that match all conditions; archived runs only on request. Curves are not included."""
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        matching = reader.fields.filter(asked.filter)
        found = reader.runs.find(
            order=reader.fields.order(asked.sort) if asked.sort.strip() else None,
            statuses=asked.status or None,
            experiment=asked.experiment,
            owner=asked.owner,
            sweep=asked.sweep,
            matching=matching,
            archived=None if asked.archived or matching.mentions("archived") else False,
            before=asked.before,
            limit=asked.limit + 1,
        )
        notes = [*matching.notes, *reader.fields.notes_on_experiment(asked.experiment)]
    shown = [RunEntry.of(row) for row in found[: asked.limit]]
    return RunList(runs=shown, next=shown[-1].id if len(found) > asked.limit else None, notes=notes)


@router.get("/runs/{run_id}", summary="Get a run", responses={404: told("Unknown run.")})
def run(run_id: RunId) -> RunInFull:
    """Return all of a run except curves and logs: config, environment, summaries, ranks, phases, events, ancestors and
    descendants.
    """
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        return in_full(reader, run_id)


@router.get("/runs/{run_id}/ranks", summary="Get the state of each rank", responses={404: told("Unknown run.")})
def ranks(run_id: RunId) -> HealthTold:
    """Return what each rank of a run is doing, whom it waits for, and the verdict on whether one stands still."""
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        reason = wait_reason(reader, reader.runs.one(run_id))
        return HealthTold.model_validate(reader.details.health_now(run_id, reason))


@router.get("/runs/{run_id}/logs", summary="Read a log", responses={404: told("Unknown run or log.")})
def logs(run_id: RunId, asked: Annotated[LogAsked, Query()]) -> LogTail:
    """Return the end of one log of a run, or the part after a byte offset; at most 256 KB."""
    home = Home.find()
    with Reader.open(home) as reader:
        reader.runs.one(run_id)
        sources = [source for source, _ in reader.details.logs(run_id)]
    try:
        found = log_tail.tail(log_tail.log_path(home, run_id, asked.source), asked.offset)
    except (StoreBusy, StoreTooNew):
        raise
    except EngineError as error:
        raise HTTPException(404, home.unnamed(str(error))) from error
    return LogTail(
        source=asked.source, sources=sources, text=found.text, start=found.start, end=found.end, size=found.size
    )


def in_full(reader: Reader, run_id: int) -> RunInFull:
    """Return a run with all its details, read in one snapshot; raises NoSuchRun."""
    found = reader.runs.one(run_id)
    same = {name: getattr(found, name) for name in RunInFull.model_fields if hasattr(found, name)}
    entry = reader.runs.entry(run_id)
    job = job_state(found, reader.cluster_jobs.of(run_id))
    told = (
        vars(entry)
        | {
            "disturbance": entry.disturbance,
            "disturbed": entry.disturbed,
            "elapsed_s": entry.elapsed_s,
            "units": entry.units,
            "not_learned": said_of(entry),
        }
        | same
        | {"progress_done": found.progress_done, "progress_total": found.progress_total}
    )
    return RunInFull(
        **{
            name: value
            for name, value in told.items()
            if name in RunInFull.model_fields and name not in ("demand", "terms", "command")
        },
        command=script.argv if (script := ScriptTold.of(found)) else None,
        script=script,
        demand=Demanded.model_validate(found.demand),
        terms=TermsTold.model_validate(found.terms),
        job=JobInfo(cluster=found.target, **vars(job)) if job else None,
        queue_position=reader.queue.position(run_id) if found.status == "queued" else None,
        wait_reason=wait_reason(reader, found),
        resumed_as=reader.runs.resumed_as(run_id),
        cloned_from=reader.runs.cloned_from(run_id),
        cloned_as=reader.runs.cloned_as(run_id),
        retried_as=reader.runs.retried_as(run_id),
        chain=[each for each, _ in reader.runs.chain(run_id)],
        summaries=[SummaryTold.model_validate(each) for each in reader.details.summaries(run_id)],
        ranks=[RankTold.model_validate(each) for each in reader.details.ranks(run_id)],
        phases=[Phases(rank=rank, seconds=dict(seconds)) for rank, seconds in reader.details.phases(run_id).items()],
        events=[EventTold.model_validate(each) for each in reader.details.events(run_id)],
        logs=[source for source, _ in reader.details.logs(run_id)],
    )
