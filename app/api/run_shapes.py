"""A run as the API tells it: as a list has it, and in full."""

from typing import Any

from pydantic import ConfigDict, Field

from app.api.shapes import Count, Id, Moment, Number, Shape
from engine.launch_options import LONGEST_S, MOST_RETRIES, Priority
from engine.store.records import RankState, Status, StopKind

Numbers = dict[str, Number]


class RunEntry(Shape):
    """A run as a list has it."""

    id: Id = Field(description="The run's number.")
    experiment: str = Field(
        description="The method's name; one that was imported may have a name that no experiment of this lab has."
    )
    preset: str | None = Field(description="The preset that its config began as; null for a config made by hand.")
    name: str = Field(description="What its owner calls it, may be empty.")
    owner: str = Field(description="Who launched it.")
    status: Status = Field(description="finished, failed, cancelled and lost are ends.")
    cause: str = Field(description="Why it ended as it did, in a sentence; empty while it is on.")
    created_at: Moment = Field(description="When it was queued.")
    started_at: Moment | None = Field(description="When all ranks were ready.")
    ended_at: Moment | None = Field(description="When it ended.")
    progress: float = Field(ge=0, le=1, description="The share of its work that is done.")
    time_left_s: Number | None = Field(
        description="Seconds that are left at its pace so far; null where nothing tells."
    )
    execution_time_s: Number | None = Field(description="Seconds from all ranks ready to all ranks done.")
    startup_time_s: Number | None = Field(description="Seconds from its worker taking it to all ranks ready.")
    time_before_s: Number = Field(description="Seconds of training of the runs that it goes on from.")
    sweep_id: Id | None = Field(description="The sweep that it is part of.")
    seeding: int = Field(
        ge=1,
        description=(
            "The rule that it drew random numbers by: 1 seed + rank, 2 streams. Runs of different rules are no "
            "repetitions."
        ),
    )
    config: dict[str, Any] = Field(
        description="All settings; GET /experiments/{name} says what each means. Of one "
        "that is longer than 16 KB a list "
        "has a part, and in it '(left out)' "
        "says how many are missing; GET /runs/{id} has all."
    )
    last: Numbers = Field(
        description=(
            "The last value of each metric, the mean over ranks where only ranks recorded it. GET /metric-names "
            "says units."
        )
    )
    best: Numbers = Field(description="The best value of each metric that has a better side.")
    mean: Numbers = Field(description="The mean of all values of each metric.")
    tags: list[str] = Field(description="The words that people file it under.")
    starred_by: str | None = Field(description="Who starred it.")
    pinned_by: str | None = Field(description="Who made it its experiment's baseline.")
    archived_by: str | None = Field(description="Who put it out of the tables.")


class RunList(Shape):
    """A page of runs, the newest first."""

    runs: list[RunEntry]
    next: Id | None = Field(description="Give this as `before` for the next page; null where there is none.")
    notes: list[str] = Field(description="How the filter was understood where it could be meant in two ways.")


class Demanded(Shape):
    """What a run asks of the machine."""

    cores: Count
    gpus: Count
    ranks: Count = Field(description="Processes that it starts.")
    threads_per_rank: Count


class TermsTold(Shape):
    """What a launch asked for beside the config."""

    model_config = ConfigDict(strict=True)

    priority: Priority = Field(default="normal", description="Runs of a higher one start first; high takes an admin.")
    oversubscribe: bool = Field(
        default=False,
        description="Whether it may start on cores that other runs hold: sooner, and with times that say little.",
    )
    max_run_time_s: float | None = Field(
        default=None,
        ge=1,
        le=LONGEST_S,
        allow_inf_nan=False,
        description="Seconds until it is ended; null for no limit.",
    )
    max_retries: int = Field(
        default=0, ge=0, le=MOST_RETRIES, description="How often it is queued anew where it is lost."
    )


class RankTold(Shape):
    """One process of a run, as last heard of."""

    rank: Count
    role: str = Field(description="Such as trainer1.")
    pid: int | None
    device: str = Field(description="Such as cpu or cuda:0.")
    state: RankState
    last_step: int | None = Field(description="The last step that it recorded, by its own count.")
    heartbeat_at: Moment | None
    exit_code: int | None = Field(description="Negative for a signal.")
    memory_mb: Number | None = Field(description="Resident memory, MB.")
    cpu_percent: Number | None = Field(description="100 for one core.")
    dropped: Count = Field(description="Points that did not fit its buffer.")


class SummaryTold(Shape):
    """One metric of a run in a row."""

    metric: str
    rank: int | None = Field(description="The rank that recorded it; null for one of the whole run.")
    count: Count = Field(description="Values that are finite.")
    nonfinite: Count = Field(description="Values that are NaN or infinite; they count nowhere else.")
    last: Number | None
    last_step: int | None
    best: Number | None
    low: Number | None
    high: Number | None
    mean: Number | None


class EventTold(Shape):
    """What happened to a run."""

    at: Moment
    kind: str = Field(description="A new status, or what was done to it.")
    who: str
    detail: str


class Phases(Shape):
    """Where one rank's time went."""

    rank: Count
    seconds: Numbers = Field(description="Seconds by phase: compute, communicate, wait and so on.")


class RunInFull(RunEntry):
    """All that the console's page of a run shows, but its curves and logs."""

    error: str = Field(description="Traceback or end of a log behind the cause; empty where there is none.")
    note: str = Field(description="What people wrote about it.")
    version: int = Field(description="Grows with every write to the run.")
    demand: Demanded
    cores: list[int] = Field(description="Cores that the runner gave, by number.")
    gpus: list[int] = Field(description="GPUs that the runner gave, by index.")
    terms: TermsTold
    starts: Count = Field(description="How often it was given a worker.")
    attempt: Count = Field(description="How many runs before it in its chain were lost and queued anew by the runner.")
    claimed_at: Moment | None
    begun_at: Moment | None
    heartbeat_at: Moment | None = Field(description="When its worker last wrote.")
    stop_requested_at: Moment | None
    stop_requested_by: str | None
    stop_kind: StopKind
    held_by: str | None = Field(description="Who keeps it from starting while it waits.")
    queue_position: int | None = Field(
        description="How many runs wait before it; null where it does not wait, or is on hold."
    )
    progress_done: int
    progress_total: int
    progress_unit: str = Field(description="What progress counts, such as samples.")
    parent_id: Id | None = Field(description="The run that it resumes, or repeats.")
    resumes: bool = Field(
        description="Whether it goes on from its parent's checkpoint; else it repeats its parent from the start."
    )
    resumed_as: list[Id]
    retried_as: list[Id]
    chain: list[Id] = Field(
        description="The run with all that it goes back to and all that go back to it, the oldest first."
    )
    environment: dict[str, Any] = Field(description="Host, versions, commit, devices that it ran on.")
    summaries: list[SummaryTold]
    ranks: list[RankTold]
    phases: list[Phases]
    events: list[EventTold] = Field(description="The oldest first.")
    logs: list[str] = Field(description="The sources that GET /runs/{id}/logs knows.")
