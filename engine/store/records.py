"""Records of the store: plain dataclasses, so that callers never see rows, cursors or SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from engine.access.quotas import DISTURBED_ABOVE_PERCENT
from engine.launch_options import USUAL, LaunchOptions
from engine.metrics import Metric, MetricSetting, as_set
from engine.recorder import Point, Span
from engine.seeding import SEEDING
from engine.store.timestamps import seconds_since

if TYPE_CHECKING:
    from engine.script.command import Command
    from engine.trace.chunk import TraceChunk
    from engine.trace.layout import PackedChunk

Status = Literal["queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost"]
"""The last four are final."""
ALIVE: tuple[Status, ...] = ("starting", "running", "stopping")
"""Statuses of runs that should have a worker."""
ENDED: tuple[Status, ...] = ("finished", "failed", "cancelled", "lost")
"""Final statuses."""
BAD_ENDS: tuple[Status, ...] = ("failed", "lost")
"""Failures: ends that count in a sweep's failure limit and that are worth a retry."""

MISSED_S = 30.0
"""A program elsewhere that is silent for longer has missed two reports."""
RESUMES, RESUMED = "resumes", "resumed"
"""Event kinds that link a resumed run and its parent: on the child "run 9 at step 1,200", on the parent "as run 12"."""
RETRIES, RETRIED = "retries", "retried"
"""Event kinds that link a retry and its parent, by the runner or a person."""

BUDGET_OF = "the budget of duel"
"""Begins the name of the part of Parallab that ends a run which has spent the budget of its duel."""

StopKind = Literal["", "cancel", "force", "time limit"]
"""How a run's end was requested."""


@dataclass(frozen=True)
class ProcessIdentity:
    """Unique identity of a process, despite reused pids: the boot, the pid, the start in clock ticks."""

    boot_id: str
    pid: int
    started_ticks: int
    pid_namespace: int | None = field(default=None, compare=False)
    """PID namespace of the pid (the inode of /proc/self/ns/pid). None if it was not recorded, as before this field
    existed: the reader's own.
    """


@dataclass(frozen=True)
class Demand:
    """Resources that a run requests."""

    cores: int
    gpus: int
    ranks: int
    threads_per_rank: int
    listens: bool = False
    """Whether ranks listen on the network of this machine; checked when a run is queued, and not stored."""


@dataclass(frozen=True)
class Summary:
    """One row per metric of one run (rank None: of the whole run, otherwise of one rank); NaN and infinities count only
    in `nonfinite`.
    """

    metric: str
    rank: int | None
    count: int
    last: float | None
    last_step: int | None
    best: float | None
    """Largest or smallest value, whichever is better according to engine.metrics; None if neither is."""
    low: float | None
    high: float | None
    mean: float | None
    nonfinite: int = 0


@dataclass(frozen=True)
class RunRow:
    """A run in a list; reading it never touches the metric points."""

    id: int
    experiment: str
    preset: str | None
    name: str
    owner: str
    status: Status
    cause: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    progress: float
    """Completed fraction, 0 to 1."""
    time_left_s: float | None
    """At its own pace, or until its time limit if that comes first; None while the pace is unknown."""
    execution_time_s: float | None
    startup_time_s: float | None
    version: int
    time_before_s: float
    sweep_id: int | None
    config: Mapping[str, Any]
    last: Mapping[str, float] = field(default_factory=dict)
    """Last value of each metric (mean over ranks if only ranks recorded it)."""
    best: Mapping[str, float] = field(default_factory=dict)
    mean: Mapping[str, float] = field(default_factory=dict)
    """Mean of all values of each metric (also over ranks if only ranks recorded it)."""
    min: Mapping[str, float] = field(default_factory=dict)
    """Least value of each metric that has no best, and of those of other programs."""
    max: Mapping[str, float] = field(default_factory=dict)
    """Greatest value of each metric that has no best, and of those of other programs."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of finite values of the training loss and of episode rewards, over all ranks."""
    nonfinite: Mapping[str, int] = field(default_factory=dict)
    """Number of values that are NaN or infinite, of each metric that has any."""
    single: frozenset[str] = frozenset()
    """Metrics of which no rank, nor the whole run, has more than one value."""
    tags: tuple[str, ...] = ()
    starred_by: str | None = None
    pinned_by: str | None = None
    """Person who pinned it as its experiment's baseline."""
    archived_by: str | None = None
    """Person who archived it."""
    agent: str = ""
    """The agent that launched or reported it for its owner; empty for a person."""
    seeding: int = SEEDING
    """Seeding rule of its ranks (engine/seeding.py)."""
    target: str = ""
    """The cluster that it runs on; empty for this machine."""
    nodes: int = 1
    """Number of the cluster's nodes that it runs on."""
    limit_left_s: float | None = None
    """Seconds until its time limit ends it; None without a limit, and before its worker began."""
    share_at_limit: float | None = None
    """The part of its work, 0 to 1, that it will have done when its time limit ends it; None if its end comes first."""
    command_id: int | None = None
    """The command that it runs; None for an experiment of Parallab, and for runs of other programs."""
    reported: bool = False
    """Whether a program outside of Parallab reports it."""
    heartbeat_at: str | None = None
    """When its worker or program last wrote."""
    repeats: bool = False
    """Whether its setting `seed` only numbers repeats of its command (`Command.numbers_repeats`)."""
    script_key: str = ""
    """What identifies the script of its command (`Command.identity`); empty without a command."""
    ranked_by: str = ""
    """The metric that ranks the runs of its command; empty until a person chooses one, and without a command."""
    better: Literal["", "max", "min"] = ""
    """Which values of `ranked_by` are better."""
    metric_settings: Mapping[str, MetricSetting] = field(default_factory=dict)
    """How metrics of its script are shown, where a person has set it."""
    disturbed_above: float = DISTURBED_ABOVE_PERCENT / 100
    """The lab's threshold of `disturbance` when this was read (engine/access/quotas.py)."""

    @property
    def units(self) -> dict[str, str]:
        """Units that a person has set for metrics of its script."""
        return {name: each.unit for name, each in self.metric_settings.items() if each.unit}

    def metric(self, name: str) -> Metric:
        """Return a metric, with the unit and direction that a person has set for its script."""
        return as_set(name, self.metric_settings)

    @property
    def elapsed_s(self) -> float | None:
        """Execution time; before the end the time so far, of a run that did not finish the time until its end, always
        with the runs that it resumes. None before all ranks were ready.
        """
        return _elapsed_s(self)

    @property
    def disturbance(self) -> float | None:
        """The share (0 to 1) of its CPU time that others took; None if unknown, as for runs of earlier versions."""
        percent = self.last.get("perf/disturbance")
        return None if percent is None else percent / 100

    @property
    def disturbed(self) -> bool:
        """Whether others took so much of its CPU time that its times can't be trusted."""
        return (self.disturbance or 0.0) > self.disturbed_above


def _elapsed_s(run: "Run | RunRow") -> float | None:
    if run.execution_time_s is not None or run.started_at is None:
        return run.execution_time_s
    until = run.ended_at or (run.heartbeat_at if run.reported else None)  # of a program elsewhere, the last report
    return run.time_before_s + seconds_since(run.started_at, until) or None


def silent_since(run: "Run | RunRow") -> str | None:
    """Return the last report of a running program elsewhere that has missed two; None for other runs."""
    is_silent = run.reported and run.status == "running" and run.heartbeat_at is not None
    return run.heartbeat_at if is_silent and seconds_since(run.heartbeat_at or "") > MISSED_S else None


def reached_budget(run: "Run | RunRow") -> bool:
    """Return whether a run was ended because it had spent the budget of its duel; its status is cancelled."""
    return is_spent(run.status, run.cause)


def is_complete(run: "Run | RunRow") -> bool:
    """Return whether a run did all its work: it finished, or spent the budget of its duel."""
    return run.status == "finished" or reached_budget(run)


def is_spent(status: Status, cause: str) -> bool:
    """Return whether an end with this status and cause is that of a run which spent the budget of its duel."""
    return status == "cancelled" and cause.startswith(f"Cancelled by {BUDGET_OF} ")


@dataclass(frozen=True)
class Run:
    """All fields of one run."""

    id: int
    experiment: str
    preset: str | None
    name: str
    owner: str
    status: Status
    cause: str
    error: str
    """Traceback or end of the log behind the cause; may be empty."""
    config: Mapping[str, Any]
    demand: Demand
    gpus: tuple[int, ...]
    """Allocated GPU indices."""
    parent_id: int | None
    sweep_id: int | None
    created_at: str
    claimed_at: str | None
    starts: int
    """Number of claims of the run."""
    begun_at: str | None
    """Time when its worker began it (UTC ISO 8601)."""
    started_at: str | None
    """Time when all ranks were ready (UTC ISO 8601)."""
    ended_at: str | None
    stop_requested_at: str | None
    stop_requested_by: str | None
    worker: ProcessIdentity | None
    heartbeat_at: str | None
    progress_done: int
    progress_total: int
    progress_unit: str
    execution_time_s: float | None
    startup_time_s: float | None
    time_before_s: float
    """Training time of the runs that it resumes; its execution time and its points continue from there."""
    environment: Mapping[str, Any]
    version: int
    """Change token: grows with every write to the run, and is unique over all runs."""
    tags: tuple[str, ...] = ()
    note: str = ""
    held_by: str | None = None
    """Person who holds it in the queue."""
    cores: tuple[int, ...] = ()
    """Allocated CPU core ids."""
    exclusive: bool = False
    """Whether its sweep is exclusive, so that it runs alone on the machine."""
    is_held: bool = False
    """Whether its sweep is paused, which keeps a queued run from starting."""
    terms: LaunchOptions = USUAL
    stop_kind: StopKind = ""
    attempt: int = 0
    """Number of lost runs before it in its chain that the runner retried."""
    resumes: bool = True
    """Whether it continues from its parent's checkpoint; otherwise it repeats its parent from the start."""
    begun_uptime_s: float | None = None
    """The machine's uptime (s) when its worker took it."""
    data_folder: str | None = None
    """Data set folder from the environment of the launching process; None for the runner's."""
    starred_by: str | None = None
    pinned_by: str | None = None
    archived_by: str | None = None
    agent: str = ""
    """The agent that launched or reported it for its owner; empty for a person."""
    seeding: int = SEEDING
    uid: str = ""
    """Random id, which its checkpoints name: a number can be reused after a restore."""
    resumed_uid: str = ""
    """The random id that the checkpoint named which it resumed from."""
    command_id: int | None = None
    reported: bool = False
    """Whether a program outside of Parallab reports it: it has no worker, no slots and no ranks here."""
    command: "Command | None" = None
    """The command of the lab's own script that it runs, with the config as the values of its fields; None for an
    experiment of Parallab, and for imported runs of other programs.
    """

    @property
    def has_ranks(self) -> bool:
        """Whether Parallab ran it, here or in another lab: runs of other programs, reported or imported, have no ranks,
        logs, seeding rule or disturbance.
        """
        return self.demand.ranks > 0

    @property
    def target(self) -> str:
        """The cluster that it runs on; empty for this machine."""
        return self.terms.target

    @property
    def nodes(self) -> int:
        """Number of the cluster's nodes that it runs on."""
        return self.terms.nodes

    @property
    def elapsed_s(self) -> float | None:
        """As `RunRow.elapsed_s`."""
        return _elapsed_s(self)

    @property
    def repeats(self) -> bool:
        """As `RunRow.repeats`."""
        return self.command is not None and self.command.numbers_repeats

    @property
    def script_key(self) -> str:
        """What identifies its script (`Command.identity`); empty without a command."""
        return self.command.identity(self.experiment) if self.command else ""

    @property
    def active(self) -> bool:
        """Whether the run can still change without a command."""
        return self.status not in ENDED


RankState = Literal["starting", "ready", "running", "done", "failed", "ended"]


@dataclass(frozen=True)
class RankRow:
    """Last known state of one rank of a run."""

    rank: int
    role: str
    pid: int | None
    device: str
    state: RankState
    last_step: int | None
    heartbeat_at: str | None
    exit_code: int | None
    memory_mb: float | None = None
    cpu_percent: float | None = None
    dropped: int = 0
    """Points dropped because the rank's buffer was full; counted by `RankBatch.dropped`, not written by `update_ranks`.
    """


@dataclass(frozen=True)
class Event:
    """An event of a run, with time and actor."""

    at: str
    kind: str
    who: str
    detail: str


@dataclass(frozen=True)
class RankBatch:
    """Data recorded by one rank since its last batch: new points, spans and histogram counts; phase seconds, last step
    and dropped points are totals.
    """

    rank: int
    points: Sequence[Point] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    spans: Sequence[Span] = ()
    histograms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    last_step: int | None = None
    dropped: int = 0
    trace: "TraceChunk | PackedChunk | None" = None
    """New operations."""


@dataclass(frozen=True)
class RunnerRow:
    """Last known state of the runner."""

    process: ProcessIdentity
    heartbeat_at: str
    started_at: str
    stopping: bool
    cores: int
    gpus: int
    warm: bool
    """Whether a spare worker is ready."""
    network: str = ""
    """Network that ranks listen on: a level of engine/system/network_isolation.py; empty if unknown."""
