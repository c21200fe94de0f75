"""`Store`: the writing parts, over one connection; `Store.read` has the queries."""

from typing import Self

from engine.home import Home
from engine.store.access.accounts_mark import is_marked, mark
from engine.store.access.authorization import AccessCommands
from engine.store.access.last_visit import VisitCommands
from engine.store.access.oidc_accounts import OidcCommands
from engine.store.access.people import PeopleCommands
from engine.store.access.sign_ins import SignInCommands
from engine.store.access.tokens import TokenCommands
from engine.store.connection import WriteConnection
from engine.store.curves.machine_samples import MachineCommands
from engine.store.notices.channels import ChannelCommands
from engine.store.notices.delivery import DeliveryCommands
from engine.store.notices.outbox import NoticeWriter
from engine.store.queue.claims import ClaimCommands
from engine.store.queue.cluster_jobs import ClusterJobCommands
from engine.store.queue.disk import DiskCommands
from engine.store.queue.queue import QueueCommands
from engine.store.queue.runner import RunnerCommands
from engine.store.reader import Reader
from engine.store.runs.annotations import AnnotationCommands
from engine.store.runs.commands import RunCommands
from engine.store.runs.saved_views import ViewCommands
from engine.store.sweeps.commands import SweepCommands
from engine.store.sweeps.duel_commands import DuelCommands
from engine.store.worker_writes import WorkerCommands


class Store:
    """All commands of a store, by part; for one thread, and a context manager."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self.read = Reader(db)
        self.access = AccessCommands(db)
        self.annotations = AnnotationCommands(db)
        self.channels = ChannelCommands(db)
        self.claims = ClaimCommands(db)
        self.cluster_jobs = ClusterJobCommands(db)
        self.delivery = DeliveryCommands(db)
        self.disk = DiskCommands(db)
        self.duels = DuelCommands(db)
        self.machine = MachineCommands(db)
        self.notices = NoticeWriter(db)
        self.oidc = OidcCommands(db)
        self.people = PeopleCommands(db)
        self.queue = QueueCommands(db)
        self.runner = RunnerCommands(db)
        self.runs = RunCommands(db)
        self.sign_ins = SignInCommands(db)
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

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
