"""The changes of the API: launch a run or a sweep, once per key, and say before what that would be; cancel a run; write
a note.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field, JsonValue

from app.api.catalogue_routes import sweep_in_full
from app.api.errors import described
from app.api.lab_routes import acting
from app.api.lab_shapes import SweepInFull
from app.api.run_routes import RunId
from app.api.run_shapes import Body, Count, Demanded, Id, Number, RunEntry, ScriptTold, Shape, TermsTold, left_out
from app.auth.bearer import API, token_of
from app.core.assets import at
from app.core.visitor import shown_secret
from engine.access import command_link
from engine.access.agents import acting_agent
from engine.analysis.total_work import unreached
from engine.config_values import MOST_RUNS, read_values
from engine.errors import ConfigError, Forbidden
from engine.home import Home
from engine.launch import launch, rehearse
from engine.launch_options import LaunchOptions
from engine.queue.sweep_estimate import before_launch
from engine.registry import definition
from engine.script.command import Command, missing_file, read_command
from engine.script.enrich import enriched
from engine.store import Launch, Reader, Status, Store, SweepLaunch
from engine.store.launches import LONGEST_KEY, LaunchKey
from engine.store.runs.commands import NAME_LENGTH, NOTE_LENGTH
from engine.store.sweeps.sweeps import SEED
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep, rehearse_sweep
from engine.sweep.plan import cautions, plan

router = APIRouter()
LONGEST_BODY = 64 * 1024
TIMEOUT_S = 5.0
MOST_NAMED = 12
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


def _one_of_two(schema: dict[str, Any]) -> None:
    """Remove null from the schema of a field that is a text or a list."""
    schema["anyOf"] = [each for each in schema["anyOf"] if each.get("type") != "null"]
    schema.pop("default", None)


class Submission(Body):
    """A run to launch."""

    experiment: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        json_schema_extra=left_out,
        description="Experiment name, see GET /experiments, or the name of a recipe; omit it with a command.",
    )
    command: str | list[str] | None = Field(
        None,
        json_schema_extra=_one_of_two,
        description="A command of your own script, as text or as its words; requires the permission to run commands.",
    )
    folder: str = Field(
        "", max_length=4_096, description="Absolute path of the folder that the command runs in; required with one."
    )
    python: str = Field(
        "", max_length=4_096, description="Interpreter of the command's Python; default: the command's own."
    )
    rank_by: str = Field("", max_length=200, description="Metric that ranks the command's runs.")
    better: Literal["max", "min"] = Field("max", description="Which values of that metric are better.")
    preset: str | None = Field(
        None, max_length=100, description="Preset to start from; default: the defaults of all settings."
    )
    config: dict[str, JsonValue] = Field(
        {},
        description="Settings that override the preset, or the values of the command; GET /experiments/{name} has the "
        "JSON schema of an experiment's.",
    )
    title: str = Field("", max_length=NAME_LENGTH, description="Name of the run.")
    terms: TermsTold = Field(TermsTold(), description="Priority, core sharing, time limit, retries and cluster.")
    owner: Owner = None


class SweepSubmission(Submission):
    """A sweep to launch: its title is the name of the sweep, and what varies is left out of its config."""

    over: dict[str, list[JsonValue] | str] = Field(
        {},
        max_length=2,
        description="Values of up to two settings: a list, or a text such as '1, 2, 4' or '1..8'. Without any, seeds "
        "must be at least 2.",
    )
    seeds: int = Field(1, ge=1, le=MOST_RUNS, description="Runs per combination; seeds count up from the config's.")
    seed_field: str = Field(
        "", max_length=200, description="Setting of a command that takes the seeds; default: the one named seed."
    )
    exclusive: bool = Field(False, description="Whether each run runs alone on the machine, for timing.")
    stop_after: int | None = Field(
        None, ge=1, json_schema_extra=left_out, description="Failed runs after which the queued ones are cancelled."
    )


class Launched(RunEntry):
    """The run, and what to know of it."""

    command: list[str] | None = Field(
        description="The words of its command, with its settings; null for an experiment of Parallab."
    )

    cautions: list[str] = Field(
        description="Intervals that exceed the length of the run, such as evaluate_every of 10 rounds in a run of 8; "
        "they have no effect."
    )


class Planned(Shape):
    """What a launch would queue."""

    experiment: str
    owner: str
    runs: Count = Field(description="Number of runs.")
    names: list[str] = Field(description=f"Names of the first {MOST_NAMED} of them.")
    config: dict[str, Any] = Field(description="All settings that the runs share; the seed is the first run's.")
    over: dict[str, list[Any]] = Field(description="Values of each varied setting.")
    demand: Demanded = Field(description="Of the largest run.")
    core_hours: Number | None = Field(description="Estimated usage of all runs; null without similar runs.")
    gpu_hours: Number | None
    idle_s: Number | None = Field(description="Estimated seconds to the last end on an idle machine.")
    ends_in_s: Number | None = Field(description="The same given the other runs.")
    estimated_from: Count = Field(description="Number of the runs that have similar ones.")
    cautions: list[str] = Field(description="Intervals that exceed the length of a run; they have no effect.")


class Noting(Body):
    """A note to write."""

    text: str = Field(max_length=NOTE_LENGTH, description="The text; Markdown is not interpreted.")
    append: bool = Field(True, description="Whether it is added as a paragraph; otherwise it replaces the note.")
    owner: Owner = None


class WrittenNote(Shape):
    """The note of a run."""

    id: Id
    note: str


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
    """Queue one run of an experiment, a recipe or a command under the name of the token's person; 422 lists the invalid
    settings by field. Requires a token with scope launch, and for a command the permission to run commands.
    """
    home, owner, began_at = Home.find(), acting(request, asked.owner), now()
    once = LaunchKey.of(key, asked.model_dump(mode="json")) if key is not None else None
    with shown_secret(home, token_of(request.scope)):
        wanted = _wanted(home, asked, owner)
        known = definition(wanted)
        config = known.configure(asked.preset, asked.config)
        wanted = replace(wanted, config=config.model_dump(mode="json"))
        run_id = launch(home, wanted, timeout_s=TIMEOUT_S, once=once)
    with Reader.open(home) as reader:
        script = ScriptTold.of(reader.runs.one(run_id))
        entry = Launched.model_validate(
            {
                **RunEntry.of(reader.runs.entry(run_id)).model_dump(),
                "command": script.argv if script else None,
                "cautions": unreached(known, config, wanted.terms.max_run_time_s),
            }
        )
    response.headers["location"] = at(f"{API}/runs/{run_id}")
    if once and entry.created_at < began_at:
        response.status_code = 200
    return entry


@router.post(
    "/sweeps",
    status_code=201,
    summary="Launch a sweep",
    responses={
        200: {"model": SweepInFull, "description": "The sweep that the same key launched earlier."},
        201: {
            "description": "The sweep, queued.",
            "headers": {"Location": {"description": "URL of the sweep.", "schema": {"type": "string"}}},
        },
        400: described("Invalid request body."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def submit_sweep(asked: SweepSubmission, request: Request, response: Response, key: Key = None) -> SweepInFull:
    """Queue the runs of a sweep, all or none, as POST /runs queues one."""
    home, owner, began_at = Home.find(), acting(request, asked.owner), now()
    once = LaunchKey.of(key, asked.model_dump(mode="json")) if key is not None else None
    with shown_secret(home, token_of(request.scope)):
        sweep_id = launch_sweep(home, _sweep(home, asked, owner), timeout_s=TIMEOUT_S, once=once)
    found = sweep_in_full(sweep_id)
    response.headers["location"] = at(f"{API}/sweeps/{sweep_id}")
    if once and found.created_at < began_at:
        response.status_code = 200
    return found


@router.post(
    "/plan",
    summary="Say what a launch would do",
    responses={
        400: described("Invalid request body."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def plan_launch(asked: SweepSubmission, request: Request) -> Planned:
    """Check a launch as POST /runs does, or with `over` or `seeds` as POST /sweeps does, and queue nothing: what they
    would refuse is refused. Returns the runs, their resources, and estimates from similar runs.
    """
    home, owner = Home.find(), acting(request, asked.owner)
    with shown_secret(home, token_of(request.scope)):
        if asked.over or asked.seeds > 1:
            sweep = _sweep(home, asked, owner)
            runs = rehearse_sweep(home, sweep, timeout_s=TIMEOUT_S)
            planned = plan(sweep)
            fields = [name for name in planned.grid if name != SEED]
            warned = cautions(sweep.shared.experiment, planned, sweep.shared.terms.max_run_time_s)
        else:
            wanted, fields = _wanted(home, asked, owner), []
            known = definition(wanted)
            config = known.configure(asked.preset, asked.config)
            runs = [rehearse(home, replace(wanted, config=config.model_dump(mode="json")), timeout_s=TIMEOUT_S)]
            warned = unreached(known, config, wanted.terms.max_run_time_s)
    first, most = runs[0], max((run.demand for run in runs), key=lambda each: (each.cores, each.gpus, each.ranks))
    with Reader.open(home) as reader:
        costs = None if first.terms.target else before_launch(reader, home, runs, fields, exclusive=asked.exclusive)
    return Planned(
        experiment=first.experiment,
        owner=owner,
        runs=len(runs),
        names=[run.name for run in runs[:MOST_NAMED] if run.name],
        config={name: value for name, value in first.config.items() if name not in fields},
        over={name: list(dict.fromkeys(run.config[name] for run in runs)) for name in fields},
        demand=Demanded.model_validate(most),
        **{name: getattr(costs, name, None) for name in ("core_hours", "gpu_hours", "idle_s", "ends_in_s")},
        estimated_from=costs.like if costs else 0,
        cautions=warned,
    )


def _sweep(home: Home, asked: SweepSubmission, owner: str) -> SweepLaunch:
    """Return the sweep that a request launches."""
    wanted = _wanted(home, asked, owner)
    known = definition(wanted)
    preset = known.preset(asked.preset).settings if asked.preset else {}
    grid = {
        name: read_values(known.config, name, values) if isinstance(values, str) else values
        for name, values in asked.over.items()
    }
    return SweepLaunch(
        replace(wanted, config={**preset, **asked.config}),
        grid,
        asked.seeds,
        exclusive=asked.exclusive,
        stop_after=asked.stop_after,
        seed_field=asked.seed_field,
    )


def _wanted(home: Home, asked: Submission, owner: str) -> Launch:
    """Return what a request launches, without its config. Raises Forbidden before anything of a command is read."""
    command, name = None, asked.experiment or ""
    if (asked.experiment is None) == (asked.command is None):
        raise ConfigError.of("experiment", "Either experiment or command is required, not both.")
    if asked.command is not None and acting_agent():
        raise Forbidden("An agent can launch experiments and recipes, not commands. A person can save one as a recipe.")
    with Reader.open(home) as reader:
        if asked.command is None:
            command = reader.recipes.command_of(name)
        if asked.command is not None or command is not None:
            refused = reader.access.standing(owner).refusal("run commands") or command_link.why_not()
        else:
            refused = ""
    if refused:
        with Store.open(home, timeout_s=TIMEOUT_S) as store:
            store.access.permit("run commands", by=owner, detail=f"command={asked.command or name}")
    if asked.command is not None:
        command = _read(asked)
        name = command.name
    return Launch(
        name, {}, owner, asked.preset, asked.title, LaunchOptions(**asked.terms.model_dump()), command=command
    )


def _read(asked: Submission) -> Command:
    """Return the command of a request, with the settings that its source shows."""
    if not (Path(asked.folder).is_absolute() and Path(asked.folder).is_dir()):
        raise ConfigError.of("folder", f"folder must be the absolute path of a folder; got '{asked.folder}'.")
    if asked.python and shutil.which(asked.python) is None:
        raise ConfigError.of("python", f"python must be an interpreter's path; got '{asked.python}'.")
    found = enriched(read_command(asked.command or "", asked.folder, asked.python))
    if missing := missing_file(found, Path(found.folder)):
        raise ConfigError.of("command", missing)
    return replace(found, result=asked.rank_by, better=asked.better) if asked.rank_by else found


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


@router.post(
    "/runs/{run_id}/note",
    summary="Write a run's note",
    responses={
        400: described("Invalid request body."),
        404: described("Unknown run."),
        413: described(f"The request body exceeds {LONGEST_BODY // 1024} KB."),
    },
)
def note(run_id: RunId, asked: Noting, request: Request) -> WrittenNote:
    """Add a paragraph to the note of a run, or replace it; a repeated request adds none. Requires a token with scope
    launch or agent.
    """
    by = acting(request, asked.owner)
    with Store.open(Home.find(), timeout_s=TIMEOUT_S) as store, store.db.change():
        there, text = store.read.runs.one(run_id).note if asked.append else "", asked.text.strip()
        if there:
            text = there if f"\n\n{there}".endswith(f"\n\n{text}") else f"{there}\n\n{text}"
        store.annotations.set_note(run_id, text, by=by)
        return WrittenNote(id=run_id, note=store.read.runs.one(run_id).note)
