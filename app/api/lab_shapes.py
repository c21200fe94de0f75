"""Response schemas of the lab: caller, sweeps, experiments, metrics, queue, machine."""

from typing import Any, Literal

from pydantic import Field

from app.api.run_shapes import Count, Id, Moment, Number, Shape
from engine.access.rules import Role
from engine.launch_options import Priority
from engine.store.access.sign_ins import Scope
from engine.store.records import Status


class Me(Shape):
    """The caller and their permissions."""

    name: str = Field(description="Person of the token or session; empty in a lab without accounts.")
    role: Role | None = Field(description="Null in a lab without accounts, where everyone has all permissions.")
    scope: Scope | None = Field(description="Of the token; null for a browser and in a lab without accounts.")
    agent: str | None = Field(description="The agent that asks, which acts with a member's permissions at most.")
    accounts: bool = Field(description="Whether the lab has accounts.")
    may: list[str] = Field(
        description="Permitted commands on the person's own objects; the API has launch, cancel, note, record, report, "
        "marks and files."
    )


class QuotaTold(Shape):
    """Usage of a person's runs, and their limits; null for no limit."""

    person: str
    running: Count
    max_running: int | None
    queued: Count
    max_queued: int | None
    cores: Count
    max_cores: int | None
    gpus: Count
    max_gpus: int | None
    max_run_time_s: Number | None = Field(description="Longest time limit of a run.")
    reported: Count = Field(description="Runs that programs elsewhere report now.")
    max_reported: int | None
    disk_bytes: Count = Field(description="Of folders and store, as last measured, and of kept files.")
    max_disk_gb: Number | None
    file_bytes: Count = Field(description="Of the files that the runs keep.")
    max_files_gb: Number | None
    agent_runs: Count = Field(description="Queued and running runs of the person's agents.")
    max_agent_runs: int | None
    own_agent_runs: Count | None = Field(description="Those of the agent that asks; null for a person.")
    max_own_agent_runs: int | None


class SweepTold(Shape):
    """A sweep: runs of one experiment over values of some settings, times seeds."""

    id: Id
    experiment: str
    name: str
    owner: str
    created_at: Moment
    command: list[str] | None = Field(
        description="The words of the command that its runs vary; null for an experiment of Parallab."
    )
    grid: dict[str, list[Any]] = Field(description="Values of each varied setting, the seed last.")
    statuses: dict[Status, Count] = Field(description="Number of runs per status; statuses without runs are omitted.")
    held: bool = Field(description="Whether the sweep is paused.")
    exclusive: bool = Field(description="Whether its runs are exclusive: each runs alone on the machine.")
    stop_after: int | None = Field(description="Number of failed cells after which the queued runs are cancelled.")
    figure: str = Field(description="Published figure that the sweep reproduces; empty for none.")
    equal_work: dict[str, Any] = Field(
        description="Length and varied settings of the config whose total work each run does; empty where the length "
        "is the same in all runs."
    )


class SweepInFull(SweepTold):
    """A sweep with the ids of its runs; GET /runs?sweep=ID returns the runs."""

    run_ids: list[Id] = Field(description="In queue order.")
    unequal_work: str = Field(
        description="That the values do unequal total work, with the work of each, as a sentence; empty if they don't."
    )


class SweepList(Shape):
    """A page of sweeps, highest number first or in the order asked for."""

    sweeps: list[SweepTold]
    next: Id | None = Field(description="`before` of the next page; null on the last page.")


class ExperimentTold(Shape):
    """An experiment that can be launched."""

    name: str
    title: str
    sentence: str
    source: str = Field(description="The paper or tutorial.")
    axis: str = Field(description="Setting on the x-axis of scaling charts.")
    resumable: bool = Field(description="Whether its runs keep checkpoints.")
    preset_names: list[str]


class FaultTold(Shape):
    """An experiment of the lab's own that can't be used."""

    name: str
    sentence: str = Field(description="Place, reason and cure.")


class RecipeTold(Shape):
    """A command that was saved under a name."""

    name: str
    title: str
    description: str


class ExperimentList(Shape):
    """All experiments."""

    experiments: list[ExperimentTold]
    faults: list[FaultTold] = Field(description="Those of the lab's own that can't be used.")
    recipes: list[RecipeTold] = Field(description="Commands that people saved under a name, which launches them.")


class PresetTold(Shape):
    """A named config."""

    sentence: str
    settings: dict[str, Any] = Field(description="Differences from the defaults.")
    expects: dict[str, Number] = Field(description="Minimum value of each metric that a run reaches.")
    takes: str = Field(description="Approximate duration and machine; empty if not measured.")


class ExperimentInFull(ExperimentTold):
    """An experiment with its presets and the JSON schema of its settings."""

    presets: dict[str, PresetTold]
    config_schema: dict[str, Any] = Field(
        description="JSON schema of the config: bounds, units, help and defaults of every setting."
    )


class MetricTold(Shape):
    """Description of one metric."""

    name: str
    label: str
    unit: str = Field(description="Empty for a dimensionless number.")
    better: Literal["max", "min"] | None = Field(description="Better direction; null for neither.")
    help: str
    live: bool = Field(description="Whether it is a curve over steps; otherwise one number per run or rank.")


class MetricList(Shape):
    """All metrics of this version and of the store."""

    metrics: list[MetricTold]


class EstimateTold(Shape):
    """Seconds that similar runs held their slots (start-up, execution and shutdown), at most the run's time limit."""

    median: Number
    shortest: Number
    longest: Number
    runs: Count = Field(description="Number of similar runs.")
    execution_s: Number | None = Field(description="Their median execution time; null if not recorded.")
    whole_s: Number | None = Field(
        description="Their median without the time limit, if that ends the run before its work is done; else null."
    )
    scaled_from: list[str] = Field(
        description="Counts, such as `epochs 2`, of runs whose times were scaled by their work; empty for similar runs."
    )


class WaitTold(Shape):
    """A queued run."""

    run_id: Id
    experiment: str
    name: str
    owner: str
    priority: Priority
    cores: Count
    gpus: Count
    target: str = Field(description="Cluster that it is for; empty for the console's machine.")
    created_at: Moment
    held_by: str | None
    reason: str = Field(description="Why it waits.")
    takes: EstimateTold | None = Field(description="Null if there is no estimate.")
    starts_in_s: Number | None = Field(description="Estimated seconds until the start; null if there is no estimate.")


class QueueTold(Shape):
    """The queue, in starting order."""

    queued: Count = Field(description="Total number of queued runs.")
    max_running_per_person: int | None = Field(description="Null for no limit.")
    runs: list[WaitTold] = Field(description="The first queued runs.")


class GpuTold(Shape):
    """One GPU of the machine."""

    index: Count
    name: str
    memory_mb: Count


class HolderTold(Shape):
    """A live run and its slots."""

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
    stopping: bool = Field(description="Whether the runner claims no new runs because it is stopping.")
    warm: bool = Field(description="Whether a spare worker is ready.")
    cores: Count = Field(description="Number of cores that the runner allocates.")
    gpus: Count = Field(description="Number of GPUs that the runner allocates.")


class SampleTold(Shape):
    """One measurement of the machine."""

    at: Moment
    source: str = Field(description="host, gpu0, gpu1 and so on.")
    name: str = Field(description="Such as cpu_percent or memory_mb; the name ends in the unit.")
    value: Number


class MachineTold(Shape):
    """The machine of the runner."""

    cores: Count
    cpu_model: str
    memory_gb: Number
    gpus: list[GpuTold]
    holders: list[HolderTold]
    runner: RunnerTold | None = Field(description="Null where none is registered.")
    samples: list[SampleTold] = Field(description="Latest value of each metric.")
    disk_free_bytes: Count = Field(description="Free space on the home's disk.")
    store_bytes: Count = Field(description="Size of the store including its write-ahead log.")
