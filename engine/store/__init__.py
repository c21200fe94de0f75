"""The database of one lab: `Store` writes it, `Reader` reads it; all speak the records, and SQL stops at this door."""

from engine.store.audit import Entry
from engine.store.comparing import Column, Recorded
from engine.store.curves import Stretch
from engine.store.duels import NewDuelRun, StoredDuel
from engine.store.people import Person
from engine.store.queue import QueuedRun
from engine.store.reading import Reader
from engine.store.records import (
    ALIVE,
    ENDED,
    Band,
    Bin,
    Demand,
    Event,
    Heat,
    MachineSample,
    ProcessIdentity,
    RankBatch,
    RankRow,
    RankState,
    Run,
    RunnerRow,
    RunRow,
    Series,
    Status,
    Summary,
)
from engine.store.shares import Held
from engine.store.sign_ins import SignedIn
from engine.store.studies import Surroundings, Tested
from engine.store.sweep_commands import NewRun
from engine.store.sweeps import RankNumber, Sweep
from engine.store.views import SavedView
from engine.store.writing import Store

__all__ = [
    "ALIVE",
    "ENDED",
    "Band",
    "Bin",
    "Column",
    "Demand",
    "Entry",
    "Event",
    "Heat",
    "Held",
    "MachineSample",
    "NewDuelRun",
    "NewRun",
    "Person",
    "ProcessIdentity",
    "QueuedRun",
    "RankBatch",
    "RankNumber",
    "RankRow",
    "RankState",
    "Reader",
    "Recorded",
    "Run",
    "RunRow",
    "RunnerRow",
    "SavedView",
    "Series",
    "SignedIn",
    "Status",
    "Store",
    "StoredDuel",
    "Stretch",
    "Summary",
    "Surroundings",
    "Sweep",
    "Tested",
]
