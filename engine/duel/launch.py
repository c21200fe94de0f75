"""Queue a duel, and its evaluation stage once tuning has ended. Torch-free."""

from collections.abc import Iterable

from engine.cluster.targets import machine_for
from engine.config_values import value_in_words
from engine.duel.evidence import gather
from engine.duel.plan import DuelCell, judging_cells, tuning_cells
from engine.duel.spec import Duel, from_json
from engine.duel.tuning import tuned
from engine.errors import WrongStatus
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of, retry
from engine.launch_options import LaunchOptions
from engine.store import NewDuelRun, NewRun, Reader, Store
from engine.store.records import ENDED
from engine.store.runs.commands import checked_name
from engine.system.machine import Machine, demand

AGAIN = LaunchOptions(max_retries=2)
"""A lost run says nothing about its strategy, so it is retried automatically."""


def launch_duel(
    home: Home,
    duel: Duel,
    *,
    owner: str,
    title: str = "",
    terms: LaunchOptions = AGAIN,
    timeout_s: float = PAGE_TIMEOUT_S,
) -> int:
    """Queue the tuning runs, all or none, and return the duel's id; the runner queues the evaluation runs later.

    Raises ConfigError for an invalid setting of either stage, DeviceError where this machine can't run it, StoreBusy.
    """
    duel, owner = duel.checked(), owner_of(owner)
    runs = new_runs(duel, tuning_cells(duel), machine_for(home, terms))
    judging_cells(duel, [duel.rates[0]] * len(duel.strategies))  # report errors of that stage now
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.duels.add(
            duel.as_json(), runs, owner=owner, name=checked_name(title), exclusive=duel.exclusive, terms=terms.checked()
        )


def go_on(reader: Reader, store: Store, duel_id: int) -> bool:
    """Queue the evaluation runs if all tuning runs have ended and each strategy has a learning rate; return whether
    it did.

    Idempotent, also for concurrent callers. Raises NoSuchDuel, ConfigError, DeviceError, StoreBusy.
    """
    if any(run.status not in ENDED for runs in reader.duels.runs(duel_id).values() for run in runs):
        return False  # the common case, without reading points
    found = gather(reader, duel_id)
    rates = tuned(found).rates
    if found.stored.stage != "tuning" or rates is None:
        return False
    duel = from_json(found.stored.plan)
    tuning = [run.id for runs in reader.duels.runs(duel_id).values() for run in runs]
    here = machine_for(store.db.home, reader.runs.one(tuning[0]).terms)
    return store.duels.judge(duel_id, new_runs(duel, judging_cells(duel, rates), here), exclusive=duel.exclusive)


def new_runs(duel: Duel, cells: Iterable[DuelCell], here: Machine) -> list[NewDuelRun]:
    """Convert cells to queue entries; raises DeviceError for one that a machine can't run."""
    return [
        _new_run(duel, cell, NewRun(cell.config.model_dump(mode="json"), demand(cell.config, here), _name(duel, cell)))
        for cell in cells
    ]


def retry_missing(home: Home, duel_id: int, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> list[int]:
    """Retry each planned run that was lost or cancelled before it spent the budget; return the new runs. Raises
    NoSuchDuel, StoreBusy.
    """
    with Reader.open(home, timeout_s=timeout_s) as reader:
        found = gather(reader, duel_id)
    again = [
        each.run.id
        for each in found.cells
        if each.run and not each.complete and each.run.status in ("lost", "cancelled")
    ]
    return [retry(home, run_id, owner=owner, timeout_s=timeout_s) for run_id in again]


def cancel_duel(home: Home, duel_id: int, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> list[int]:
    """Cancel all active runs of a duel and return them. Raises NoSuchDuel, StoreBusy."""
    with Reader.open(home, timeout_s=timeout_s) as reader:
        parts = reader.duels.one(duel_id).parts
    with Store.open(home, timeout_s=timeout_s) as store:
        return [run_id for part in parts for run_id in _cancelled(store, part.sweep_id, owner)]


def _cancelled(store: Store, sweep_id: int, owner: str) -> Iterable[int]:
    try:
        return store.sweeps.cancel(sweep_id, by=owner)
    except WrongStatus:  # all of them have ended
        return ()


def _new_run(duel: Duel, cell: DuelCell, run: NewRun) -> NewDuelRun:
    one = duel.strategies[cell.strategy]
    return NewDuelRun(cell.strategy, one.name, one.experiment, run)


def _name(duel: Duel, cell: DuelCell) -> str:
    return f"{duel.strategies[cell.strategy].name}, learning rate {value_in_words(cell.rate)}, seed {cell.seed}"
