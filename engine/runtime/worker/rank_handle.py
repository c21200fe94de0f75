"""One rank as its worker sees it: the process, the channel, the last messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from engine.errors import RankFailed
from engine.recorder import Point, Span
from engine.runtime.nodes.node import RemoteProcess
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.process import RankPlan
from engine.store.records import RankBatch, RankRow, RankState
from engine.trace.chunk import TraceChunk
from engine.trace.ring_reader import TraceReader


@dataclass
class RankHandle:
    """One rank as the worker sees it."""

    plan: RankPlan
    process: BaseProcess | RemoteProcess
    channel: Connection
    state: RankState = "starting"
    preloaded: bool = False
    open: bool = True
    waits_at: str | None = None
    heard_at: str | None = None
    heard_s: float = 0.0
    """The time (monotonic, s) of its last message."""
    inbox: list[Flush] = field(default_factory=list)
    latest: Flush = field(default_factory=Flush)
    stored_step: int = 0
    """A step whose points, and those of all steps before, are stored."""
    passes: float | None = None
    done_at: float | None = None
    failure: RankFailed | None = None
    failed_at: float = 0.0
    echo: bool = False
    """Whether its failure is only the loss of another rank."""
    exit_is_known: bool = True
    """False if the fork server, the only process that could report it, died first."""
    memory_mb: float | None = None
    cpu_percent: float | None = None
    trace: TraceReader = field(init=False)

    def __post_init__(self) -> None:
        self.trace = TraceReader(self.plan.trace.memory)

    @property
    def role(self) -> str:
        return self.plan.role

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def remote(self) -> RemoteProcess | None:
        """Its process if it is on another node: its pid means nothing here."""
        return self.process if isinstance(self.process, RemoteProcess) else None

    def row(self) -> RankRow:
        """Return the rank as stored."""
        return RankRow(
            self.plan.index,
            self.role,
            self.process.pid,
            self.plan.device,
            self.state,
            self.latest.last_step,
            self.heard_at,
            self.process.exitcode if self.exit_is_known else None,
            self.memory_mb,
            self.cpu_percent,
        )

    def take(self, spans: Sequence[Span] = (), chunk: TraceChunk | None = None) -> RankBatch | None:
        """Return everything that the rank sent since the last call, and of its trace what is to be stored, as one
        batch; None if there is nothing.
        """
        if not self.inbox and not spans and chunk is None:
            return None
        flushes, self.inbox = self.inbox, []
        histograms: dict[tuple[str, int], int] = {}
        for flush in flushes:
            for key, count in flush.histograms.items():
                histograms[key] = histograms.get(key, 0) + count
        return RankBatch(
            self.plan.index,
            [Point(*fields) for flush in flushes for fields in flush.points],
            self.trace.sums(),
            spans,
            histograms,
            self.latest.last_step,
            self.latest.dropped,
            chunk,
        )
