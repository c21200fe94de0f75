"""`Reader`: all queries of the store, over one connection."""

from typing import Self

from engine.home import Home
from engine.store.access.accounts import PeopleReader
from engine.store.access.audit import AuditReader
from engine.store.access.last_visit import VisitReader
from engine.store.access.ownership import OwnershipReader
from engine.store.access.quotas import QuotaReader
from engine.store.access.recent_ends import RecentEndReader
from engine.store.access.sign_ins import SignInReader
from engine.store.access.standing import AccessReader
from engine.store.access.tokens import TokenReader
from engine.store.connection import Connection, ReadConnection
from engine.store.curves.export_pages import PointReader
from engine.store.curves.machine_samples import MachineReader
from engine.store.curves.multi_run import MultiRunReader
from engine.store.curves.series import CurveReader
from engine.store.curves.sparklines import SparklineReader
from engine.store.curves.study_queries import StudyReader
from engine.store.curves.traces import TraceQueries
from engine.store.notices.channels import ChannelReader
from engine.store.notices.outbox import OutboxReader
from engine.store.queue.cluster_jobs import ClusterJobReader
from engine.store.queue.queue import QueueReader
from engine.store.queue.runner import RunnerReader
from engine.store.runs.config_groups import GroupReader
from engine.store.runs.counters import CounterReader
from engine.store.runs.details import RunDetails
from engine.store.runs.fields import FieldReader
from engine.store.runs.leaderboard import LeaderboardReader
from engine.store.runs.origins import OriginReader
from engine.store.runs.reader import RunReader
from engine.store.runs.saved_views import ViewReader
from engine.store.sweeps.duels import DuelReader
from engine.store.sweeps.folds import FoldReader
from engine.store.sweeps.sweeps import SweepReader


class Reader:
    """All queries of a store, by part; for one thread, and a context manager."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.access = AccessReader(db)
        self.audit = AuditReader(db)
        self.channels = ChannelReader(db)
        self.cluster_jobs = ClusterJobReader(db)
        self.counters = CounterReader(db)
        self.curves = CurveReader(db)
        self.details = RunDetails(db)
        self.duels = DuelReader(db)
        self.fields = FieldReader(db)
        self.folds = FoldReader(db)
        self.groups = GroupReader(db)
        self.leaderboard = LeaderboardReader(db)
        self.machine = MachineReader(db)
        self.multi_run = MultiRunReader(db)
        self.origins = OriginReader(db)
        self.outbox = OutboxReader(db)
        self.ownership = OwnershipReader(db)
        self.people = PeopleReader(db)
        self.points = PointReader(db)
        self.queue = QueueReader(db)
        self.quotas = QuotaReader(db)
        self.recent_ends = RecentEndReader(db)
        self.runner = RunnerReader(db)
        self.runs = RunReader(db)
        self.sign_ins = SignInReader(db)
        self.sparklines = SparklineReader(db)
        self.studies = StudyReader(db)
        self.sweeps = SweepReader(db)
        self.tokens = TokenReader(db)
        self.traces = TraceQueries(db)
        self.views = ViewReader(db)
        self.visits = VisitReader(db)

    @classmethod
    def open(cls, home: Home, timeout_s: float = 2.0) -> Self:
        """Open the store read-only; raises StoreTooNew, StoreBusy, StoreError."""
        return cls(ReadConnection.open(home, timeout_s))

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
