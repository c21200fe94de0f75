"""What the store speaks: plain dataclasses, so that no caller ever sees a row, a cursor or SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.launch_options import USUAL, Terms
from engine.recorder import Point, Span
from engine.seeding import SEEDING

Status = Literal["queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost"]
"""The first counts least; the store keeps a priority as its index here."""
ALIVE: tuple[Status, ...] = ("starting", "running", "stopping")
"""A worker should exist for a run of this status."""
ENDED: tuple[Status, ...] = ("finished", "failed", "cancelled", "lost")
"""A run of this status never changes its status again."""
BAD_ENDS: tuple[Status, ...] = ("failed", "lost")
"""How a run ends that is worth another try, and that counts as a failure of its sweep."""

RESUMES, RESUMED = "resumes", "resumed"
"""The kinds of event that tie a resumed run to its parent: on the child "run 9 at step 1,200", on the parent "as run
12".
"""
RETRIES, RETRIED = "retries", "retried"
"""Likewise where a run is tried again, by the runner or by a person."""

StopKind = Literal["", "cancel", "force", "time limit"]
"""How a run's end was asked for."""


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, told apart from any other that ever had its pid: the boot, the pid, the start in clock ticks."""

    boot_id: str
    pid: int
    started_ticks: int
    pid_namespace: int | None = field(default=None, compare=False)
    """The PID namespace that the pid counts in (the inode of /proc/self/ns/pid). None where it was not recorded, as
    before this field: the reader's own.
    """


@dataclass(frozen=True)
class Demand:
    """What a run asks of the machine."""

    cores: int
    gpus: int
    ranks: int
    threads_per_rank: int
    listens: bool = False
    """Whether ranks listen on the network; asked when a run is queued, and not kept."""


@dataclass(frozen=True)
class Summary:
    """One metric of one run (rank None: of the whole run, else of one rank) in a row; NaN and infinities count in
    `nonfinite` alone.
    """

    metric: str
    rank: int | None
    count: int
    last: float | None
    last_step: int | None
    best: float | None
    """The largest or smallest value, whichever engine.metrics calls better; None where neither is."""
    low: float | None
    high: float | None
    mean: float | None
    nonfinite: int = 0


@dataclass(frozen=True)
class RunRow:
    """A run as a list shows it; reading it never touches the metric points."""

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
    """Done share, 0 to 1."""
    time_left_s: float | None
    execution_time_s: float | None
    startup_time_s: float | None
    version: int
    time_before_s: float
    sweep_id: int | None
    config: Mapping[str, Any]
    last: Mapping[str, float] = field(default_factory=dict)
    """Last value of each metric (mean over ranks where only ranks recorded it)."""
    best: Mapping[str, float] = field(default_factory=dict)
    mean: Mapping[str, float] = field(default_factory=dict)
    """Mean of all values of each metric (over ranks too where only ranks recorded it)."""
    tags: tuple[str, ...] = ()
    starred_by: str | None = None
    pinned_by: str | None = None
    """Who made it its experiment's baseline."""
    archived_by: str | None = None
    """Who put it out of the tables."""
    seeding: int = SEEDING
    """The rule that its ranks draw random numbers by (engine/seeding.py)."""


@dataclass(frozen=True)
class Run:
    """All of one run that is not a table of its own."""

    id: int
    experiment: str
    preset: str | None
    name: str
    owner: str
    status: Status
    cause: str
    error: str
    """Traceback or log tail behind the cause; empty when there is none."""
    config: Mapping[str, Any]
    demand: Demand
    gpus: tuple[int, ...]
    """GPU indices that the runner gave."""
    parent_id: int | None
    sweep_id: int | None
    created_at: str
    claimed_at: str | None
    starts: int
    """How often the run was claimed."""
    begun_at: str | None
    """Its worker took it (UTC ISO 8601)."""
    started_at: str | None
    """All ranks ready (UTC ISO 8601)."""
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
    """Training time of the runs that it goes on from; its execution time and its points count from there."""
    environment: Mapping[str, Any]
    version: int
    """The change token: grows with every write to the run, never shared by two runs."""
    tags: tuple[str, ...] = ()
    note: str = ""
    held_by: str | None = None
    """Who keeps it from starting while it waits."""
    cores: tuple[int, ...] = ()
    """CPU core ids that the runner gave."""
    exclusive: bool = False
    """Whether it is to have the machine to itself, as its sweep asks."""
    is_held: bool = False
    """Whether its sweep is paused: while it is queued it stays where it is."""
    terms: Terms = USUAL
    stop_kind: StopKind = ""
    attempt: int = 0
    """How many runs before it in its chain were lost and queued anew by the runner."""
    resumes: bool = True
    """Whether it goes on from its parent's checkpoint; else it repeats its parent from the start."""
    begun_uptime_s: float | None = None
    data_folder: str | None = None
    """Where its data sets lie, as the environment of whoever launched it named it; None leaves that to the runner's."""
    """The machine's uptime (s) when its worker took it."""
    starred_by: str | None = None
    pinned_by: str | None = None
    archived_by: str | None = None
    seeding: int = SEEDING

    @property
    def active(self) -> bool:
        """Whether anything about the run can still change by itself."""
        return self.status not in ENDED


RankState = Literal["starting", "ready", "running", "done", "failed", "ended"]


@dataclass(frozen=True)
class RankRow:
    """One rank of a run, as last heard of."""

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
    """Points that did not fit the rank's buffer; counted by `RankBatch.dropped`, not written by `update_ranks`."""


@dataclass(frozen=True)
class Event:
    """What happened to a run, when and by whom."""

    at: str
    kind: str
    who: str
    detail: str


@dataclass(frozen=True)
class RankBatch:
    """What one rank recorded since its last batch: new points, spans and histogram counts; phase seconds, last step and
    points dropped are totals.
    """

    rank: int
    points: Sequence[Point] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    spans: Sequence[Span] = ()
    histograms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    last_step: int | None = None
    dropped: int = 0


@dataclass(frozen=True)
class RunnerRow:
    """The runner as the store last heard of it."""

    process: ProcessIdentity
    heartbeat_at: str
    started_at: str
    stopping: bool
    cores: int
    gpus: int
    warm: bool
    """Whether a spare worker stands ready."""
    network: str = ""
    """What ranks listen on: a level of engine/system/network_isolation.py; empty where the runner did not say."""
