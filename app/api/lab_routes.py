"""Routes for the caller, the queue and the machine."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request

from app.api.lab_shapes import (
    EstimateTold,
    GpuTold,
    HolderTold,
    MachineTold,
    Me,
    QueueTold,
    QuotaTold,
    RunnerTold,
    SampleTold,
    WaitTold,
)
from app.api.run_shapes import Asked, left_out
from app.auth.middleware import VISITOR
from app.core.visitor import Visitor
from engine.access.agents import acting_agent
from engine.access.quotas import BOUNDS, limits
from engine.access.rules import COMMANDS, PersonStanding
from engine.errors import ConfigError
from engine.home import Home
from engine.queue.forecast import MOST, Wait, outlook
from engine.store import Reader, RunnerRow
from engine.store.access.people import checked_name
from engine.system.machine import machine, storage
from engine.system.runner_process import lives

router = APIRouter()


class QueueAsked(Asked):
    """Query parameters of the queue."""

    limit: int = Field(100, ge=1, le=MOST, description="Maximum number of queued runs.")


class QuotaAsked(Asked):
    """Query parameters of the quota."""

    owner: str | None = Field(
        None,
        json_schema_extra=left_out,
        max_length=60,
        description="Person in a lab without accounts; otherwise it is the token's.",
    )


@router.get("/me", summary="Get the signed-in user")
def me(request: Request) -> Me:
    """Return the person of the token or session, and their permissions."""
    found = visitor(request)
    who = found.who
    standing = who.standing if who else PersonStanding("", "admin", open=True)
    return Me(
        name=standing.name,
        role=who.role if who else None,
        scope=who.scope if who else None,
        agent=agent.name if (agent := acting_agent()) else None,
        accounts=found.asked,
        may=[name for name in COMMANDS if standing.may(name)],
    )


@router.get("/quota", summary="Get the person's usage and limits")
def quota(asked: Annotated[QuotaAsked, Query()], request: Request) -> QuotaTold:
    """Return what the runs of the token's person use, their limits, and those of the agent that asks."""
    home, agent, who = Home.find(), acting_agent(), visitor(request).who
    person = who.name if who else asked.owner or ""
    mine = limits(home).of(person)
    with Reader.open(home) as reader:
        held, of_agents = reader.quotas.held(person), reader.quotas.held_by_agents(person)
        own = reader.quotas.held_by_agents(person, agent) if agent else None
    return QuotaTold(
        **vars(held),
        **{name.removesuffix("_per_person"): getattr(mine, name) for name in BOUNDS},
        agent_runs=of_agents,
        own_agent_runs=own,
        max_own_agent_runs=agent.runs if agent else None,
    )


@router.get("/queue", summary="List queued runs")
def queue(asked: Annotated[QueueAsked, Query()]) -> QueueTold:
    """Return the queued runs in starting order, with the reason for waiting and the estimated start of each."""
    home = Home.find()
    with Reader.open(home) as reader:
        waits, total = list(outlook(reader, home).values()), reader.queue.count()
    return QueueTold(
        queued=total,
        max_running_per_person=limits(home).max_running_per_person,
        runs=[_wait(wait) for wait in waits[: asked.limit]],
    )


@router.get("/machine", summary="Get the machine's state")
def machine_now() -> MachineTold:
    """Return the machine's capacity, usage, latest measurements, and its runner."""
    home, here = Home.find(), machine()
    room = storage(home)
    with Reader.open(home) as reader:
        holders, row, samples = reader.queue.alive(), reader.runner.current(), reader.machine.latest()
    return MachineTold(
        cores=here.cores,
        cpu_model=here.cpu_model,
        memory_gb=here.memory_gb,
        gpus=[GpuTold.model_validate(gpu) for gpu in here.gpus],
        holders=[
            HolderTold(run_id=run.id, owner=run.owner, status=run.status, cores=run.demand.cores, gpus=list(run.gpus))
            for run in holders
        ],
        runner=_runner(home, row) if row else None,
        samples=[SampleTold.model_validate(sample) for sample in samples],
        disk_free_bytes=room.disk_free,
        store_bytes=room.store + room.write_ahead_log,
    )


def _wait(wait: Wait) -> WaitTold:
    run = wait.run
    return WaitTold(
        run_id=run.id,
        experiment=run.experiment,
        name=run.name,
        owner=run.owner,
        priority=run.priority,
        cores=run.demand.cores,
        gpus=run.demand.gpus,
        target=run.target,
        created_at=run.created_at,
        held_by=run.held_by,
        reason=wait.reason,
        takes=EstimateTold.model_validate(wait.takes) if wait.takes else None,
        starts_in_s=wait.starts_in_s,
    )


def _runner(home: Home, row: RunnerRow) -> RunnerTold:
    return RunnerTold(
        alive=lives(home, row.process),
        started_at=row.started_at,
        heartbeat_at=row.heartbeat_at,
        stopping=row.stopping,
        warm=row.warm,
        cores=row.cores,
        gpus=row.gpus,
    )


# ------------------------------------------------------------------------------------------------------------------
# The name that a change is made under: the token's person, or in a lab without accounts the name in the request.


def visitor(request: Request) -> Visitor:
    """Return the visitor of a request, as authenticated by the middleware."""
    found: Visitor = request.scope[VISITOR]
    return found


def acting(request: Request, owner: str | None) -> str:
    """Return the name that a change is made under; raises ConfigError for a missing name, or one other than the token's
    person.
    """
    who = visitor(request).who
    if who is None:
        if owner is None:
            raise ConfigError.of(
                "owner",
                "owner is required for changes in a lab without accounts. Set it to your name; scripts of "
                "parallab_client have it in PARALLAB_OWNER.",
            )
        return checked_name(owner)
    if owner is not None and owner != who.name:
        raise ConfigError.of("owner", f"owner must be the token's person ({who.name}); got '{owner}'. Omit it.")
    return who.name
