"""`Store`: the writing parts, over one connection; `Store.read` has the queries."""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from engine.errors import EngineError, StoreGone
from engine.home import Home
from engine.store.access.accounts import PeopleReader
from engine.store.access.authorization import AccessCommands, AccessReader, AuditReader, is_marked, mark
from engine.store.access.last_visit import RecentEndReader, VisitCommands, VisitReader
from engine.store.access.people import PeopleCommands
from engine.store.access.quotas import QuotaReader
from engine.store.access.sign_ins import SignInCommands, SignInReader, TokenCommands, TokenReader
from engine.store.connection import Connection, ReadConnection, WriteConnection
from engine.store.curves.multi_run import MultiRunReader, SparklineReader, StudyReader
from engine.store.curves.series import CurveReader, PointReader
from engine.store.exercises import ExerciseCommands, ExerciseReader
from engine.store.imports.reports import ReportCommands
from engine.store.notices.outbox import DeliveryCommands, NoticeWriter, OutboxReader
from engine.store.notices.subscriptions import SubscriptionCommands, SubscriptionReader
from engine.store.queue.claims import ClaimCommands, DiskCommands
from engine.store.queue.cluster_jobs import ClusterJobCommands, ClusterJobReader
from engine.store.queue.queue import QueueCommands, QueueReader
from engine.store.queue.runner import MachineCommands, MachineReader, RunnerCommands, RunnerReader
from engine.store.runs.annotations import AnnotationCommands, ViewCommands, ViewReader
from engine.store.runs.commands import RunCommands
from engine.store.runs.config_groups import GroupReader, LeaderboardReader
from engine.store.runs.counters import CounterReader
from engine.store.runs.details import FieldReader, RunDetails, TraceQueries
from engine.store.runs.files import FileCommands, FileReader
from engine.store.runs.origins import OriginReader
from engine.store.runs.reader import RunReader
from engine.store.scripts import RecipeCommands, RecipeReader
from engine.store.sweeps.commands import SweepCommands
from engine.store.sweeps.duels import DuelCommands, DuelReader
from engine.store.sweeps.sweeps import FoldReader, SweepReader
from engine.store.worker_writes import WorkerCommands


class Store:
    """All commands of a store, by part; for one thread, and a context manager."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self.read = Reader(db)
        self.access = AccessCommands(db)
        self.annotations = AnnotationCommands(db)
        self.claims = ClaimCommands(db)
        self.cluster_jobs = ClusterJobCommands(db)
        self.delivery = DeliveryCommands(db)
        self.disk = DiskCommands(db)
        self.duels = DuelCommands(db)
        self.files = FileCommands(db)
        self.exercises = ExerciseCommands(db)
        self.machine = MachineCommands(db)
        self.notices = NoticeWriter(db)
        self.people = PeopleCommands(db)
        self.queue = QueueCommands(db)
        self.recipes = RecipeCommands(db)
        self.reports = ReportCommands(db)
        self.runner = RunnerCommands(db)
        self.runs = RunCommands(db)
        self.sign_ins = SignInCommands(db)
        self.subscriptions = SubscriptionCommands(db)
        self.sweeps = SweepCommands(db)
        self.tokens = TokenCommands(db)
        self.views = ViewCommands(db)
        self.visits = VisitCommands(db)
        self.worker = WorkerCommands(db)

    @classmethod
    def open(cls, home: Home, timeout_s: float = 30.0) -> Self:
        """Open the store, creating and migrating it if necessary, and write the marker file if it has accounts; raises
        StoreTooNew, StoreBusy, StoreError.
        """
        opened = cls(WriteConnection.open(home, timeout_s))
        try:
            if not is_marked(home) and opened.read.access.has_people():
                mark(home)
        except BaseException:
            opened.close()
            raise
        return opened

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Check the commands of a block as usual, and undo them; a refusal is raised and recorded."""
        with suppress(_Rehearsed), self.db.change():
            yield
            raise _Rehearsed

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Rehearsed(Exception):
    """Everything was allowed, and is rolled back."""


# ---- `Reader`: all queries of the store, over one connection -------------------------------------------------------


class Reader:
    """All queries of a store, by part; for one thread, and a context manager."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.access = AccessReader(db)
        self.audit = AuditReader(db)
        self.cluster_jobs = ClusterJobReader(db)
        self.counters = CounterReader(db)
        self.curves = CurveReader(db)
        self.details = RunDetails(db)
        self.duels = DuelReader(db)
        self.exercises = ExerciseReader(db)
        self.fields = FieldReader(db)
        self.files = FileReader(db)
        self.folds = FoldReader(db)
        self.groups = GroupReader(db)
        self.leaderboard = LeaderboardReader(db)
        self.machine = MachineReader(db)
        self.multi_run = MultiRunReader(db)
        self.origins = OriginReader(db)
        self.outbox = OutboxReader(db)
        self.people = PeopleReader(db)
        self.points = PointReader(db)
        self.queue = QueueReader(db)
        self.quotas = QuotaReader(db)
        self.recent_ends = RecentEndReader(db)
        self.recipes = RecipeReader(db)
        self.runner = RunnerReader(db)
        self.runs = RunReader(db)
        self.sign_ins = SignInReader(db)
        self.sparklines = SparklineReader(db)
        self.studies = StudyReader(db)
        self.subscriptions = SubscriptionReader(db)
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


# ------------------------------------------------------------------------------------------------------------------
# A thread with a store connection of its own, for work of the runner that may wait for others: networks, clusters.

log = logging.getLogger(__name__)

TROUBLE_S = 5.0
"""Wait after an error, which is logged; the work begins again then."""
CLOSE_S = 2.0
"""Time to end; what is unfinished is the next runner's."""
Work = Callable[[], float]
"""Does what is due and returns the seconds until its next call."""


class StoreThread:
    """Does work on the store of one home while its context is open; `begin` returns the work for a store."""

    def __init__(self, home: Home, name: str, begin: Callable[[Store], Work]) -> None:
        self._home = home
        self._begin = begin
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                with Store.open(self._home) as store:
                    work = self._begin(store)
                    while not self._leaving.wait(work()):
                        pass
            except StoreGone as gone:  # never begin another home in its place
                log.error("%s end: %s", self._thread.name, gone)
                return
            except EngineError as trouble:
                log.warning("%s are delayed: %s", self._thread.name, trouble)
            except Exception as bug:  # its words may hold a secret, such as a webhook's address
                found = "".join(traceback.format_tb(bug.__traceback__))
                log.error("internal error in the thread of %s, %s:\n%s", self._thread.name, type(bug).__name__, found)
            self._leaving.wait(TROUBLE_S)
