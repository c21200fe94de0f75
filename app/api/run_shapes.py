"""Response schemas of a run: in a list, and with all details."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

from engine.analysis.result import not_learned
from engine.launch_options import LONGEST_S, MOST_RETRIES, Priority
from engine.store.records import RankState, Run, RunRow, Status, StopKind
from engine.store.scripts import rendered
from engine.trace.health import ProcessState, VerdictState

# ---- Base classes of all requests and responses --------------------------------------------------------------------
# strict JSON, strings for non-finite numbers, times as text.

MOST_ID = 2**53 - 1
"""The greatest id that every JSON reader keeps exact."""
NUMBERS_THAT_ARE_NONE = ("NaN", "Infinity", "-Infinity")

Number = Annotated[
    float,
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"type": "string", "enum": list(NUMBERS_THAT_ARE_NONE)}]}, mode="serialization"
    ),
]
"""A number as JSON; one that JSON has no digits for is one of three strings, which most languages read as a float."""
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time in UTC, ISO 8601 with milliseconds and a Z."""
Id = Annotated[int, Field(ge=1, le=MOST_ID)]
Count = Annotated[int, Field(ge=0)]


def left_out(schema: dict[str, Any]) -> None:
    """Remove null from the schema of an optional request field: clients omit the field instead."""
    kind = next(each for each in schema.pop("anyOf") if each.get("type") != "null")
    schema.pop("default", None)
    schema.update(kind)


class Shape(BaseModel):
    """A response or a part of one; built from a dataclass with the same field names, or by its fields."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", ser_json_inf_nan="strings")


def as_json_writes_it(value: Any, kind: object) -> Any:
    """Return the text of a URL parameter; raises ValueError for a number or flag that JSON would not write this way.

    Pydantic alone would accept ' 4', '+4', '1_0' and 'yes' too.
    """
    for each in (kind, *get_args(kind)):
        pattern, words = WRITTEN.get(each, ("", ""))
        if pattern and isinstance(value, str) and not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"should be {words}")
    return value


WRITTEN: dict[object, tuple[str, str]] = {
    int: (r"-?(0|[1-9]\d*)", "a whole number in digits"),
    float: (r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", "a finite number in digits"),
    bool: ("true|false", "true or false"),
}
DIGITS = BeforeValidator(lambda value: as_json_writes_it(value, int))


class Asked(BaseModel):
    """Query parameters of a request; unknown names are refused, so that a typo never returns the wrong data."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def written_as_json(cls, value: Any, info: ValidationInfo) -> Any:
        """Require numbers and flags in JSON's notation."""
        return as_json_writes_it(value, cls.model_fields[info.field_name or ""].annotation)


class Body(BaseModel):
    """A request body; JSON types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


# ---- Response schemas of curves and logs: columns of equal length --------------------------------------------------


class Curve(Shape):
    """Points of one metric of one rank in recording order; the lists have equal length."""

    metric: str
    rank: int | None = Field(description="Recording rank; null for a metric of the whole run.")
    role: str = Field(description="Role of the rank; empty for a metric of the whole run.")
    unit: str = Field(description="Unit; empty for a dimensionless number.")
    steps: list[int] = Field(description="Step, counted per rank.")
    times_s: list[Number] = Field(description="Seconds since all ranks were ready.")
    passes: list[Number | None] = Field(description="Passes over the training data by all ranks; null if unknown.")
    values: list[Number]
    shown: Count = Field(description="Number of points in this response.")
    total: Count = Field(
        description=("Number of stored points; greater than `shown` for a range or a down-sampled curve.")
    )


class Curves(Shape):
    """Curves of one run."""

    run_id: Id
    version: int = Field(description="Increases with every write to the run.")
    status: Status
    series: list[Curve]


class LogTail(Shape):
    """Part of a log; offsets are in bytes of the file."""

    source: str
    sources: list[str] = Field(description="All logs of the run.")
    text: str = Field(description="Complete lines if possible; invalid UTF-8 is replaced.")
    start: Count
    end: Count = Field(description="`offset` of the next request.")
    size: Count = Field(description="Current file size.")


# ---- Response schemas of a run: in a list, and with all details ----------------------------------------------------

Numbers = dict[str, Number]


class RunEntry(Shape):
    """A run in a list."""

    id: Id = Field(description="The run's number.")
    experiment: str = Field(
        description="Experiment name; imported runs may have names that this lab has no experiment for."
    )
    preset: str | None = Field(description="Preset that the config started from; null for a custom config.")
    name: str = Field(description="Name given by the owner; may be empty.")
    owner: str = Field(description="Who launched it.")
    status: Status = Field(description="finished, failed, cancelled and lost are final.")
    cause: str = Field(description="Reason of the end; empty before the end.")
    created_at: Moment = Field(description="Time of queueing.")
    started_at: Moment | None = Field(description="Time when all ranks were ready.")
    ended_at: Moment | None = Field(description="When it ended.")
    progress: float = Field(ge=0, le=1, description="Completed fraction of the work.")
    time_left_s: Number | None = Field(
        description="Estimated remaining seconds at the current pace, or until its time limit if that comes first; "
        "null if unknown."
    )
    share_at_limit: Number | None = Field(
        description="Fraction of its work at which its time limit is expected to end it; null otherwise."
    )
    execution_time_s: Number | None = Field(description="Seconds from all ranks ready to all ranks done.")
    elapsed_s: Number | None = Field(
        description="Execution time, and before it is known: seconds so far, or until the end of a run that did not "
        "finish; null before all ranks were ready."
    )
    startup_time_s: Number | None = Field(description="Seconds from the worker's start on the run to all ranks ready.")
    time_before_s: Number = Field(description="Training seconds of the runs that it resumes.")
    disturbance: Number | None = Field(
        description="Share (0 to 1) of its CPU time that other programs or the host took; null if unknown."
    )
    disturbed: bool = Field(
        description="Whether that share exceeds the lab's threshold (usually 0.05): analyses of times leave it out."
    )
    sweep_id: Id | None = Field(description="Sweep of the run.")
    seeding: int = Field(
        ge=1,
        description=(
            "Seeding rule: 1 seed + rank, 2 streams. Runs with different rules are not repetitions of each other."
        ),
    )
    config: dict[str, Any] = Field(
        description="All settings, described by GET /experiments/{name}. Lists include at most 16 KB; '(left out)' "
        "then states how many settings are missing, and GET /runs/{id} has all."
    )
    command_id: Id | None = Field(
        description="Its command, the same for runs of one command; null for an experiment and for imported runs of "
        "other programs. GET /runs/{id} has the command."
    )
    reported: bool = Field(
        description="Whether a program that Parallab did not start reports it; if it is lost, its next report lets it "
        "go on."
    )
    ranked_by: str = Field(description="Metric that ranks the runs of its command; empty if none was chosen.")
    better: Literal["", "max", "min"] = Field(description="Which values of that metric are better.")
    last: Numbers = Field(
        description=(
            "Last value of each metric; mean over ranks if only ranks recorded it. GET /metric-names has the units."
        )
    )
    units: dict[str, str] = Field(description="Units of its metrics that people have set for its script.")
    best: Numbers = Field(description="Best value of each metric that has a better direction.")
    mean: Numbers = Field(description="Mean of all values of each metric.")
    not_learned: str = Field(
        description="Why it did not learn, or lost what it had learned, as a sentence; empty if it learned, and where "
        "that can't be judged."
    )
    tags: list[str] = Field(description="Tags of the run.")
    starred_by: str | None = Field(description="Who starred it.")
    pinned_by: str | None = Field(description="Person who pinned it as its experiment's baseline.")
    archived_by: str | None = Field(description="Person who archived it.")

    @classmethod
    def of(cls, row: RunRow) -> "RunEntry":
        """Return a run of a list."""
        own = {name: getattr(row, name) for name in cls.model_fields if hasattr(row, name)}
        return cls.model_validate({**own, "not_learned": said_of(row)})


def said_of(row: RunRow) -> str:
    """Return why a run did not learn; empty if it did."""
    bad = not_learned(row)
    return bad.sentence if bad else ""


class RunList(Shape):
    """A page of runs, highest number first or in the order asked for."""

    runs: list[RunEntry]
    next: Id | None = Field(description="`before` of the next page; null on the last page.")
    notes: list[str] = Field(description="Interpretation of ambiguous parts of the filter.")


class Demanded(Shape):
    """Resources that a run requests."""

    cores: Count
    gpus: Count
    ranks: Count = Field(description="Number of processes.")
    threads_per_rank: Count


class TermsTold(Shape):
    """Launch options."""

    model_config = ConfigDict(strict=True)

    priority: Priority = Field(
        default="normal", description="Runs of higher priority start first; only admins can set high."
    )
    oversubscribe: bool = Field(
        default=False,
        description="Whether it may share cores with other runs: starts sooner, but its timings are unreliable.",
    )
    max_run_time_s: float | None = Field(
        default=None,
        ge=1,
        le=LONGEST_S,
        allow_inf_nan=False,
        description="Run time limit in seconds; null for no limit.",
    )
    max_retries: int = Field(
        default=0, ge=0, le=MOST_RETRIES, description="Number of automatic retries if the run is lost."
    )
    end_when_hung: bool = Field(default=False, description="Whether the run ends as failed if it hangs.")
    target: str = Field(
        default="", max_length=31, description="Cluster of the lab that it runs on; empty for the console's machine."
    )
    nodes: int = Field(default=1, ge=1, le=1024, description="Number of the cluster's nodes.")


class JobInfo(Shape):
    """Job of a run on a cluster."""

    cluster: str = Field(description="Name of the cluster.")
    job_id: str = Field(description="Slurm's id; empty until Slurm has accepted the job.")
    state: str = Field(description="Slurm's state, such as PENDING; empty if unknown, and after the job's end.")
    reason: str = Field(description="Slurm's reason why it waits, such as Resources; may be empty.")
    nodes: str = Field(description="Nodes that it has, as Slurm writes them; empty while it waits.")


class RankActivity(Shape):
    """What one rank is doing."""

    rank: Count = Field(description="The rank's index.")
    role: str = Field(description="Its role, such as trainer1.")
    pid: Count = Field(description="Its process.")
    state: ProcessState = Field(description="State of its process.")
    phase: str = Field(description="The outermost operation under way, such as compute; empty if none is.")
    operation: str = Field(description="The innermost one, with its number.")
    step: int = Field(description="Its last logged step.")
    waits_for: list[str] = Field(description="Roles that it waits for.")
    since_s: Number = Field(description="Seconds without progress.")
    works: bool = Field(description="Whether it has used the CPU since, outside of a wait.")
    place: str = Field(description="Source position; empty if not requested.")


class VerdictTold(Shape):
    """Whether a run stands still."""

    state: VerdictState = Field(
        description="HUNG: no rank makes progress; STALLED: one does not; QUEUED: the sentence says why the run waits."
    )
    rank: str = Field(description="Role of the rank that is the cause; empty if none is.")
    cause: str = Field(description="Such as stopped, dead, deadlock or stuck.")
    sentence: str = Field(description="Description of the problem, or of the wait of a queued run.")


class HealthTold(Shape):
    """The ranks of a run, and the verdict on them."""

    at: str = Field(description="When the worker last looked; empty if it has not yet.")
    ranks: list[RankActivity] = Field(description="By index; of a run that has ended, the last known state.")
    verdict: VerdictTold = Field(description="Whether the run stands still.")


class RankTold(Shape):
    """Last known state of one process of a run."""

    rank: Count
    role: str = Field(description="Such as trainer1.")
    pid: int | None
    device: str = Field(description="Such as cpu or cuda:0.")
    state: RankState
    last_step: int | None = Field(description="Last recorded step, counted per rank.")
    heartbeat_at: Moment | None
    exit_code: int | None = Field(description="Exit code; negative for a signal.")
    memory_mb: Number | None = Field(description="Resident memory, MB.")
    cpu_percent: Number | None = Field(description="CPU use; 100 is one core.")
    dropped: Count = Field(description="Points dropped because the buffer was full.")


class SummaryTold(Shape):
    """Summary of one metric of a run."""

    metric: str
    rank: int | None = Field(description="Recording rank; null for a metric of the whole run.")
    count: Count = Field(description="Number of finite values.")
    nonfinite: Count = Field(description="Number of NaN or infinite values; excluded from all other fields.")
    last: Number | None
    last_step: int | None
    best: Number | None
    low: Number | None
    high: Number | None
    mean: Number | None


class EventTold(Shape):
    """An event of a run."""

    at: Moment
    kind: str = Field(description="New status or action.")
    who: str
    detail: str


class Phases(Shape):
    """Time breakdown of one rank."""

    rank: Count
    seconds: Numbers = Field(description="Seconds per phase: compute, communicate, wait and others.")


class ScriptTold(Shape):
    """The command of a run of the lab's own script."""

    argv: list[str] = Field(description="The command with the run's settings.")
    environment: dict[str, str] = Field(description="Variables that it sets.")
    folder: str = Field(description="Folder that it runs in.")
    python: str = Field(description="Interpreter that was named; empty for the command's own.")
    level: str = Field(description="What its settings were read from: command, source, configuration, probe or help.")

    @classmethod
    def of(cls, run: Run) -> "ScriptTold | None":
        """Return the command of a run, None if it has none."""
        if run.command is None:
            return None
        found, own = rendered(run.command, run.config), run.command
        return cls(
            argv=found.argv, environment=found.environment, folder=own.folder, python=own.python, level=own.level
        )


class RunInFull(RunEntry):
    """Everything on the console's run page except curves and logs."""

    command: list[str] | None = Field(
        description="The words of its command, with its settings; null for an experiment of Parallab."
    )
    script: ScriptTold | None = Field(description="More of its command.")

    error: str = Field(description="Traceback or end of the log behind the cause; may be empty.")
    note: str = Field(description="Note of the run.")
    version: int = Field(description="Increases with every write to the run.")
    demand: Demanded
    cores: list[int] = Field(description="Allocated cores, by number.")
    gpus: list[int] = Field(description="Allocated GPUs, by index.")
    terms: TermsTold
    job: JobInfo | None = Field(description="Its job on a cluster; null on the console's machine and before it.")
    starts: Count = Field(description="Number of workers assigned to it so far.")
    attempt: Count = Field(description="Number of lost runs before it in its chain that the runner retried.")
    claimed_at: Moment | None
    begun_at: Moment | None
    heartbeat_at: Moment | None = Field(description="Time of the worker's last write.")
    stop_requested_at: Moment | None
    stop_requested_by: str | None
    stop_kind: StopKind
    held_by: str | None = Field(description="Person who put it on hold.")
    queue_position: int | None = Field(
        description="Number of queued runs before it; null if it is on hold or not queued."
    )
    wait_reason: str | None = Field(
        description="Why it waits, if it is queued; the event of its start says how long it waited, and why last."
    )
    progress_done: int
    progress_total: int
    progress_unit: str = Field(description="Unit of progress, such as samples.")
    parent_id: Id | None = Field(description="Run that it resumes or repeats.")
    resumes: bool = Field(
        description="Whether it resumes its parent's checkpoint; otherwise it repeats its parent from the start."
    )
    resumed_as: list[Id]
    cloned_from: Id | None = Field(description="The run whose settings it began with; it may have been deleted.")
    cloned_as: list[Id]
    retried_as: list[Id]
    chain: list[Id] = Field(description="The run with its ancestors and descendants, oldest first.")
    environment: dict[str, Any] = Field(description="Host, versions, commit and devices of the run.")
    summaries: list[SummaryTold]
    ranks: list[RankTold]
    phases: list[Phases]
    events: list[EventTold] = Field(description="The oldest first.")
    logs: list[str] = Field(description="Valid sources for GET /runs/{id}/logs.")
