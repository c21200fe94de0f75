"""The database of one lab: `Store` writes it, `Reader` reads it. Callers get the records of this package, never SQL.

Both consist of parts that share one connection: `store.runs.add(...)`, `reader.curves.series(...)`. A part is a class
in the folder of its noun, without a base class; `store.read` has the reading parts over the writing connection. A
folder imports only those before it:

    timestamps records launches curve_records · schema · sqlite_errors connection · access · notices · runs · curves ·
    sweeps · queue · worker_writes · reader store · imports · maintenance
"""

from engine.store.access.accounts import Person
from engine.store.access.authorization import Entry
from engine.store.access.quotas import Held
from engine.store.access.sign_ins import SignedIn
from engine.store.curve_records import Band, Bin, Heat, MachineSample, Series
from engine.store.curves.multi_run import Column, RecordedMetric, Surroundings, Tested
from engine.store.curves.series import Stretch
from engine.store.launches import Launch, SweepLaunch
from engine.store.queue.queue import QueuedRun
from engine.store.records import (
    ALIVE,
    ENDED,
    Demand,
    Event,
    ProcessIdentity,
    RankBatch,
    RankRow,
    RankState,
    Run,
    RunnerRow,
    RunRow,
    Status,
    Summary,
)
from engine.store.runs.annotations import SavedView
from engine.store.store import Reader, Store
from engine.store.sweeps.duels import StoredDuel, StrategyLaunch
from engine.store.sweeps.sweeps import RankNumber, Sweep

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
    "Launch",
    "MachineSample",
    "Person",
    "ProcessIdentity",
    "QueuedRun",
    "RankBatch",
    "RankNumber",
    "RankRow",
    "RankState",
    "Reader",
    "RecordedMetric",
    "Run",
    "RunRow",
    "RunnerRow",
    "SavedView",
    "Series",
    "SignedIn",
    "Status",
    "Store",
    "StoredDuel",
    "StrategyLaunch",
    "Stretch",
    "Summary",
    "Surroundings",
    "Sweep",
    "SweepLaunch",
    "Tested",
]
