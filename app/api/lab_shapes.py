"""What the API tells of the lab: who asks, sweeps, experiments, metrics, the queue, the machine."""

from typing import Any, Literal

from pydantic import Field

from app.api.shapes import Count, Id, Moment, Number, Shape
from engine.access.rules import Role
from engine.launch_options import Priority
from engine.store.records import Status


class Me(Shape):
    """Who asks, and what they may do."""

    name: str = Field(description="Whom the token or the sign-in stands for; empty in a lab without accounts.")
    role: Role | None = Field(description="Null in a lab without accounts, where everyone may do everything.")
    scope: Literal["read", "launch"] | None = Field(
        description="What the token is for; null for a browser, and in a lab without accounts."
    )
    accounts: bool = Field(description="Whether the lab has accounts.")
    may: list[str] = Field(
        description="The commands that they may give to what is their own; of these the API has launch and cancel."
    )


class SweepTold(Shape):
    """Runs of one experiment over values of some settings, times seeds."""

    id: Id
    experiment: str
    name: str
    owner: str
    created_at: Moment
    grid: dict[str, list[Any]] = Field(description="The values of each setting that varies, the seed last.")
    statuses: dict[Status, Count] = Field(
        description="How many of its runs have each status; those of none are left out."
    )
    held: bool = Field(description="Whether it is paused.")
    exclusive: bool = Field(description="Whether each of its runs has the machine to itself.")
    stop_after: int | None = Field(description="So many cells may end badly, then its queued runs are cancelled.")
    figure: str = Field(description="The published figure that it was launched as; empty for none.")


class SweepInFull(SweepTold):
    """A sweep and which runs it has; GET /runs?sweep=ID tells them."""

    run_ids: list[Id] = Field(description="In the order of the queue.")


class SweepList(Shape):
    """A page of sweeps, the newest first."""

    sweeps: list[SweepTold]
    next: Id | None = Field(description="Give this as `before` for the next page; null where there is none.")


class ExperimentTold(Shape):
    """A method that can be launched."""

    name: str
    title: str
    sentence: str
    source: str = Field(description="The paper or tutorial.")
    axis: str = Field(description="The setting that scaling charts count along.")
    resumable: bool = Field(description="Whether its runs keep checkpoints.")
    preset_names: list[str]


class ExperimentList(Shape):
    """All that can be launched."""

    experiments: list[ExperimentTold]


class PresetTold(Shape):
    """A named config."""

    sentence: str
    settings: dict[str, Any] = Field(description="What differs from the defaults.")
    expects: dict[str, Number] = Field(description="The least value of each metric that a run of it reaches.")
    takes: str = Field(description="About how long it takes and where; empty where it was not tried.")


class ExperimentInFull(ExperimentTold):
    """A method with its presets, and its settings as a JSON schema."""

    presets: dict[str, PresetTold]
    config_schema: dict[str, Any] = Field(
        description="JSON schema of the config: bounds, units, help and defaults of every setting."
    )


class MetricTold(Shape):
    """What one metric means."""

    name: str
    label: str
    unit: str = Field(description="Empty for a plain number.")
    better: Literal["max", "min"] | None = Field(description="Which way is better; null where neither is.")
    help: str
    live: bool = Field(description="Whether it is a curve over steps; else one number a run or rank.")


class MetricList(Shape):
    """Every metric that this version or the store knows."""

    metrics: list[MetricTold]


class EstimateTold(Shape):
    """Seconds that like runs held their slots."""

    median: Number
    shortest: Number
    longest: Number
    runs: Count = Field(description="How many like runs there are.")


class WaitTold(Shape):
    """One run that waits."""

    run_id: Id
    experiment: str
    name: str
    owner: str
    priority: Priority
    cores: Count
    gpus: Count
    created_at: Moment
    held_by: str | None
    reason: str = Field(description="Why it waits.")
    takes: EstimateTold | None = Field(description="Null where nothing tells.")
    starts_in_s: Number | None = Field(description="Seconds until it should start; null where nothing tells.")


class QueueTold(Shape):
    """What waits, in the order in which it starts."""

    queued: Count = Field(description="How many runs wait in all.")
    max_running_per_person: int | None = Field(description="Null for no limit.")
    runs: list[WaitTold] = Field(description="The first of them.")


class GpuTold(Shape):
    """One GPU of the machine."""

    index: Count
    name: str
    memory_mb: Count


class HolderTold(Shape):
    """A run that is on, and what it holds."""

    run_id: Id
    owner: str
    status: Status
    cores: Count
    gpus: list[int] = Field(description="By index.")


class RunnerTold(Shape):
    """The process that claims and places runs."""

    alive: bool
    started_at: Moment
    heartbeat_at: Moment
    stopping: bool = Field(description="Whether it takes no new runs.")
    warm: bool = Field(description="Whether a spare worker stands ready.")
    cores: Count = Field(description="Cores that it gives out.")
    gpus: Count = Field(description="GPUs that it gives out.")


class SampleTold(Shape):
    """One number about the machine."""

    at: Moment
    source: str = Field(description="host, gpu0, gpu1 and so on.")
    name: str = Field(description="Such as cpu_percent or memory_mb; the name ends in the unit.")
    value: Number


class MachineTold(Shape):
    """The machine that the runner serves."""

    cores: Count
    cpu_model: str
    memory_gb: Number
    gpus: list[GpuTold]
    holders: list[HolderTold]
    runner: RunnerTold | None = Field(description="Null where none is registered.")
    samples: list[SampleTold] = Field(description="The newest of each.")
    disk_free_bytes: Count = Field(description="Free on the home's disk.")
    store_bytes: Count = Field(description="Size of the store with its write-ahead log.")
