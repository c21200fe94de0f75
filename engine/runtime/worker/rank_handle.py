"""One rank as its worker sees it: the process, the channel, the last messages."""

from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from engine.errors import RankFailed
from engine.recorder import Point
from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.process import RankPlan
from engine.store.records import RankBatch, RankRow, RankState


@dataclass
class RankHandle:
    """One rank as the worker sees it."""

    plan: RankPlan
    process: BaseProcess
    channel: Connection
    state: RankState = "starting"
    preloaded: bool = False
    open: bool = True
    waits_at: str | None = None
    heard_at: str | None = None
    inbox: list[Flush] = field(default_factory=list)
    latest: Flush = field(default_factory=Flush)
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

    @property
    def role(self) -> str:
        return self.plan.role

    @property
    def pid(self) -> int:
        return self.process.pid or 0

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

    def take(self) -> RankBatch | None:
        """Return everything that the rank sent since the last call as one batch, or None."""
        if not self.inbox:
            return None
        flushes, self.inbox = self.inbox, []
        histograms: dict[tuple[str, int], int] = {}
        for flush in flushes:
            for key, count in flush.histograms.items():
                histograms[key] = histograms.get(key, 0) + count
        return RankBatch(
            self.plan.index,
            [Point(*raw) for flush in flushes for raw in flush.points],
            self.latest.phases,
            [span for flush in flushes for span in flush.spans],
            histograms,
            self.latest.last_step,
            self.latest.dropped,
        )
