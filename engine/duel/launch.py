"""A duel's runs: their plan, estimated cost, uncontrolled differences, and launch."""

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, lcm
from typing import Any

from engine.cluster.targets import machine_for
from engine.config import Config, bound_of
from engine.config_values import value_in_words
from engine.duel.evidence import gather, tuned
from engine.duel.spec import SHARED, Duel, Strategy, contender, from_json, pace
from engine.errors import ConfigError, Problem, WrongStatus
from engine.experiment import Pace
from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S, owner_of, retry
from engine.launch_options import USUAL, LaunchOptions
from engine.queue.estimates import History
from engine.store import Launch, Reader, Store, StrategyLaunch
from engine.store.records import ENDED
from engine.store.runs.commands import checked_name
from engine.store.sweeps.duels import Stage
from engine.system.machine import Machine, demand

# ---- Plan the runs of a duel: configs long enough for the budget, with strategies in alternating order -------------
# Torch-free.

MOST_PASSES = 1_000
"""Length of runs with a budget of seconds; the runner ends them once it is spent."""
_ALIKE: Mapping[str, Any] = {
    "schedule": "constant",
    "checkpoint_every_s": 0.0,
    "evaluate_every": 1,
}
"""Settings fixed for every method that has them."""


@dataclass(frozen=True)
class DuelCell:
    """One run of a duel."""

    strategy: int
    """Index of the strategy."""
    stage: Stage
    rate: float
    seed: int
    config: Config


def config_of(duel: Duel, one: Strategy, rate: float, seed: int) -> Config:
    """Return the config of one run; raises ConfigError, with the strategy's name, for an invalid setting."""
    known = one.definition.config
    fields = known.model_fields
    shared = {name: duel.shared[name] for name in SHARED if name in duel.shared and name in fields}
    alike = {name: value for name, value in _ALIKE.items() if name in fields}
    usual = {name: info.default for name, info in fields.items()}
    alike |= contender(one).given({**usual, **shared, **alike, **one.settings})
    values = {**shared, **alike, **one.settings, "learning_rate": rate, "seed": seed}
    try:
        first = known.check(values)
        field = contender(one).length
        return known.check({**values, field: _length(duel, pace(one, first), field, known)})
    except ConfigError as error:
        raise ConfigError(
            Problem(problem.field, f"{one.name}: {problem.sentence}") for problem in error.problems
        ) from None


def pace_of(duel: Duel, one: Strategy) -> Pace:
    """Return the pace of a strategy; raises the same as `config_of`."""
    return pace(one, config_of(duel, one, duel.rates[0], duel.first_seed))


def tuning_cells(duel: Duel) -> list[DuelCell]:
    """Return the tuning runs: every strategy with every learning rate, seed by seed."""
    return list(_cells(duel, "tuning", dict.fromkeys(range(len(duel.strategies)), duel.rates), duel.tuning))


def judging_cells(duel: Duel, rates: Sequence[float]) -> list[DuelCell]:
    """Return the evaluation runs; `rates` has one learning rate per strategy."""
    return list(_cells(duel, "judging", {place: (rate,) for place, rate in enumerate(rates)}, duel.judging))


def _cells(duel: Duel, stage: Stage, rates: Mapping[int, Sequence[float]], seeds: Sequence[int]) -> Iterator[DuelCell]:
    """Yield cells, seeds outermost and strategies innermost; the first strategy rotates, so that order favours none."""
    turn = 0
    for seed in seeds:
        for number in range(len(rates[0])):
            order = [(place + turn) % len(rates) for place in range(len(rates))]
            for place in order:
                rate = rates[place][number]
                yield DuelCell(place, stage, rate, seed, config_of(duel, duel.strategies[place], rate, seed))
            turn += 1


def _length(duel: Duel, found: Pace, field: str, known: type[Config]) -> int:
    """Return the value of the length `field`; raises ConfigError where the budget can't be met."""
    kind, amount = duel.budget.kind, duel.budget.amount
    if kind == "bytes" and found.bytes is None:
        raise ConfigError.of(
            "budget",
            "budget must be in passes, updates or seconds; got bytes. The method exchanges no data between processes, "
            "or compresses it.",
        )
    length = found.units("passes", MOST_PASSES) if kind == "seconds" else found.units(kind, amount)
    most = bound_of(known.model_fields[field], "le")
    assert length is not None
    if most is not None and length > most:
        needs = f"{amount:,.12g} {kind} needs {length:,}"
        raise ConfigError.of("budget", f"{field} must be at most {most:,.12g}; {needs}. Use a smaller budget.")
    return length


# ---- Queue a duel, and its evaluation stage once tuning has ended --------------------------------------------------
# Torch-free.

AGAIN = LaunchOptions(max_retries=2)
"""A lost run says nothing about its strategy, so it is retried automatically."""


@dataclass(frozen=True)
class DuelLaunch:
    """A duel to launch."""

    duel: Duel
    owner: str = ""
    name: str = ""
    terms: LaunchOptions = AGAIN


def launch_duel(home: Home, asked: DuelLaunch, *, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue the tuning runs, all or none, and return the duel's id; the runner queues the evaluation runs later.

    Raises ConfigError for an invalid setting of either stage, DeviceError where this machine can't run it, StoreBusy.
    """
    duel = replace(asked.duel.checked(), strategies=tuple(each.pinned() for each in asked.duel.strategies))
    owner, terms = owner_of(asked.owner), asked.terms.checked()
    runs = new_runs(duel, tuning_cells(duel), machine_for(home, terms), owner, terms)
    judging_cells(duel, [duel.rates[0]] * len(duel.strategies))  # report errors of that stage now
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.duels.add(
            duel.as_json(), runs, owner=owner, name=checked_name(asked.name), exclusive=duel.exclusive
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


def new_runs(
    duel: Duel, cells: Iterable[DuelCell], here: Machine, owner: str = "", terms: LaunchOptions = AGAIN
) -> list[StrategyLaunch]:
    """Return the launches of cells; raises DeviceError for one that a machine can't run."""
    found: list[StrategyLaunch] = []
    for cell in cells:
        one, config = duel.strategies[cell.strategy], cell.config.model_dump(mode="json")
        name = f"{one.name}, learning rate {value_in_words(cell.rate)}, seed {cell.seed}"
        run = Launch(one.experiment, config, owner, name=name, terms=terms, demand=demand(cell.config, here))
        found.append(StrategyLaunch(cell.strategy, one.name, run))
    return found


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


# ------------------------------------------------------------------------------------------------------------------
# Cost of a duel before launch: its number of runs and their total run time, from comparable runs on this machine.
# Torch-free.

START_S = 4.0
"""Start-up and shutdown time of a run, in addition to a budget of seconds."""


@dataclass(frozen=True)
class DuelOutlay:
    """Estimated cost of a duel."""

    tuning: int
    judging: int
    seconds: float | None
    """Total run time in seconds; None where some strategy has no comparable run."""
    unknown: tuple[str, ...]
    """Strategies without comparable runs."""
    cut: tuple[str, ...] = ()
    """Strategies whose runs are expected to reach their time limit before they spend the budget."""


def outlay(store: Reader, duel: Duel, terms: LaunchOptions = USUAL) -> DuelOutlay:
    """Return the estimated cost; raises ConfigError for an invalid config, DeviceError if no run of it can start there.

    The runs of a cluster have no estimate: comparable ones ran on this machine.
    """
    tune, judge = tuning_cells(duel), judging_cells(duel, [duel.rates[0]] * len(duel.strategies))
    firsts = [next(cell for cell in tune if cell.strategy == place) for place in range(len(duel.strategies))]
    each = _seconds(store, duel, firsts, machine_for(store.db.home, terms))
    limit_s = terms.max_run_time_s or inf
    unknown = tuple(one.name for one, known in zip(duel.strategies, each, strict=True) if known is None)
    whole = None if unknown else sum(min(each[cell.strategy] or 0.0, limit_s) for cell in (*tune, *judge))
    cut = tuple(
        one.name for one, known in zip(duel.strategies, each, strict=True) if known is not None and known > limit_s
    )
    return DuelOutlay(len(tune), len(judge), whole, unknown, cut)


def _seconds(store: Reader, duel: Duel, firsts: Sequence[DuelCell], here: Machine) -> list[float | None]:
    """Return the estimated seconds of one run per strategy, None where unknown."""
    history = History(store, socket.gethostname())
    found: list[float | None] = []
    for cell in firsts:
        if duel.budget.kind == "seconds":
            found.append(duel.budget.amount + START_S)
            continue
        config, experiment = cell.config.model_dump(mode="json"), duel.strategies[cell.strategy].experiment
        like = history.estimate(Launch(experiment, config, demand=demand(cell.config, here)))
        found.append(like.median if like else None)
    return found


# ---- Uncontrolled differences between the methods of a duel, which the budget cannot equalise ----------------------
# Torch-free and pure.


@dataclass(frozen=True)
class StrategyFacts:
    """Uncontrolled properties of one strategy."""

    name: str
    processes: int
    data: str
    momentum: str
    samples: int
    """Samples per update."""
    updates: float
    """Model updates per pass."""
    bytes: float | None
    """Bytes exchanged between processes per pass; None for methods that exchange none."""
    length: str
    """Length of its runs."""
    tested_every: float
    """Passes between two tests."""
    tests: str


def facts(duel: Duel) -> list[StrategyFacts]:
    """Return the facts of each strategy; raises ConfigError for an invalid config."""
    return [_facts(one, config_of(duel, one, duel.rates[0], duel.first_seed)) for one in duel.strategies]


def untimely(duel: Duel) -> list[str]:
    """Return a warning where a budget of passes doesn't end at a test of every strategy, with a budget that does."""
    if duel.budget.kind != "passes":
        return []
    paces = {one.name: pace_of(duel, one).passes for one in duel.strategies}
    late = {
        name: every
        for name, every in paces.items()
        if abs(duel.budget.amount / every - round(duel.budget.amount / every)) > 1e-6
    }
    if not late:
        return []
    listed = "; ".join(
        f"{name} at {every * (duel.budget.amount // every):.4g} (every {every:.4g})" for name, every in late.items()
    )
    whole = [round(every) for every in paces.values()]
    cure = ""
    if all(abs(every - one) < 1e-6 for every, one in zip(paces.values(), whole, strict=True)):
        together = lcm(*whole)
        cure = f" Use {together * max(1, round(duel.budget.amount / together))} passes to test all at the budget's end."
    return [
        (
            f"Some strategies have no test at {duel.budget.amount:,.12g} passes. Last test: {listed}. The last test "
            f"within the budget counts.{cure}"
        )
    ]


def _facts(one: Strategy, config: Config) -> StrategyFacts:
    known, length = contender(one), contender(one).length
    found, values = known.pace(config), config.model_dump()
    return StrategyFacts(
        one.name,
        len(config.roles),
        known.data,
        known.momentum(config),
        values["batch_size"] * known.gradients(config),
        found.updates,
        found.bytes,
        f"{values[length]:,} {length}",
        found.passes,
        known.tests,
    )
