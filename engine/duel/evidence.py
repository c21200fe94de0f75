"""The planned runs of a duel with their tests, and whether each spent the whole budget. Torch-free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import nan
from typing import Any

from engine.analysis.duel import Spent, TunedRate, at_budget, choose
from engine.analysis.total_work import unequal_work_of
from engine.config import Config
from engine.duel.spec import Duel, Strategy, from_json, pace
from engine.experiment import Pace
from engine.metrics import metric
from engine.store import Reader, StoredDuel, Tested
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.duels import RATE, STAGES, Stage
from engine.store.sweeps.sweeps import SEED
from engine.transfer.tables import headed

AT_ONCE = 20
"""Runs whose tests are read per query; each has up to a few thousand."""
_NEVER = (0.0, 0.0)


@dataclass(frozen=True)
class Tried:
    """One planned run and its result."""

    strategy: int
    stage: Stage
    rate: float
    seed: int
    run: RunRow | None = None
    """The attempt that counts: the newest that spent the budget, else the newest; None where it was deleted."""
    tests: tuple[Spent, ...] = ()
    at: Spent | None = None
    """Its last test within the budget."""
    complete: bool = False
    """Whether it finished or spent the whole budget."""
    spent: float = 0.0
    """Budget spent so far, as recorded."""

    @property
    def value(self) -> float | None:
        """The metric's value within the budget; None where there is none."""
        return self.at.value if self.complete and self.at else None

    @property
    def failed(self) -> bool:
        """Whether it failed before it spent the budget."""
        return self.run is not None and self.run.status == "failed" and not self.complete

    @property
    def done(self) -> bool:
        """Whether it has ended or is complete."""
        return self.run is not None and not self.on

    @property
    def on(self) -> bool:
        """Whether it is queued or running."""
        return self.run is not None and self.run.status not in ENDED and not self.complete


@dataclass(frozen=True)
class DuelEvidence:
    """A duel with every planned run."""

    stored: StoredDuel
    duel: Duel
    cells: tuple[Tried, ...]
    token: int = 0
    runs: Mapping[int, Sequence[RunRow]] = field(default_factory=dict)
    """All runs of each sweep, including other attempts and runs added by hand."""
    unequal_work: str = ""
    """That the strategies did unequal work in their complete evaluation runs, as a sentence; empty if they didn't."""

    def of(self, stage: Stage, strategy: int | None = None) -> list[Tried]:
        """Return the planned runs of a stage, of one strategy or all."""
        return [each for each in self.cells if each.stage == stage and strategy in (None, each.strategy)]

    @property
    def active(self) -> bool:
        """Whether any of its runs can still change."""
        return any(run.status not in ENDED for runs in self.runs.values() for run in runs)


def gather(reader: Reader, duel_id: int) -> DuelEvidence:
    """Return a consistent snapshot of a duel; raises NoSuchDuel."""
    with reader.db.snapshot():
        stored, token, runs = reader.duels.one(duel_id), reader.duels.token(duel_id), reader.duels.runs(duel_id)
        duel = from_json(stored.plan)
        ids = [run.id for own in runs.values() for run in own if run.status != "queued"]
        tested: dict[int, list[Tested]] = {}
        for start in range(0, len(ids), AT_ONCE):
            for point in reader.studies.tested(ids[start : start + AT_ONCE], [duel.metric]):
                tested.setdefault(point.run_id, []).append(point)
        furthest = reader.duels.furthest(ids)
        sweeps = {(part.stage, part.strategy): part.sweep_id for part in stored.parts}
        cells = []
        for stage, place in product(STAGES[: 1 + (stored.stage == "judging")], range(len(duel.strategies))):
            one, own = duel.strategies[place], runs.get(sweeps.get((stage, place), 0), [])
            for seed in duel.tuning if stage == "tuning" else duel.judging:
                for rate in duel.rates if stage == "tuning" else (own[0].config[RATE] if own else nan,):
                    tries = [
                        _tried(duel, one, place, stage, run, tested.get(run.id, ()), furthest.get(run.id, _NEVER))
                        for run in own
                        if _is(run, rate, seed)
                    ]
                    newest = tries[-1] if tries else Tried(place, stage, rate, seed)
                    cells.append(next((each for each in reversed(tries) if each.complete), newest))
        found = DuelEvidence(stored, duel, tuple(cells), token, runs)
        return replace(found, unequal_work=unequal_work_of(by_strategy(found), reader))


def by_strategy(found: DuelEvidence) -> dict[str, list[RunRow]]:
    """Return the complete evaluation runs of each strategy by its name."""
    return {
        one.name: [each.run for each in found.of("judging", place) if each.run and each.complete]
        for place, one in enumerate(found.duel.strategies)
    }


def _is(run: RunRow, rate: float, seed: int) -> bool:
    return bool(run.config[RATE] == rate and run.config[SEED] == seed)


def _tried(
    duel: Duel,
    one: Strategy,
    place: int,
    stage: Stage,
    run: RunRow,
    tested: Sequence[Tested],
    furthest: tuple[float, float],
) -> Tried:
    kind, amount = duel.budget.kind, duel.budget.amount
    found = _pace_of(one, run)
    tests = tuple(
        Spent(found.spent(kind, test.step, test.time_s, test.passes), test.time_s, test.value) for test in tested
    )
    spent = _spent(found, duel, furthest, tests)
    complete = run.status == "finished" or spent >= amount * (1 - 1e-9)
    return Tried(
        place, stage, run.config[RATE], run.config[SEED], run, tests, at_budget(tests, amount), complete, spent
    )


def _pace_of(one: Strategy, run: RunRow) -> Pace:
    """Return the pace of a run's stored config; settings unknown to this version are ignored."""
    known: type[Config] = one.definition.config
    return pace(one, known.model_construct(**run.config))


def _spent(found: Pace, duel: Duel, furthest: tuple[float, float], tests: Sequence[Spent]) -> float:
    time_s, passes = furthest
    tested = max((test.spent for test in tests), default=0.0)
    if duel.budget.kind == "seconds":
        return max(tested, time_s)
    each = {"updates": found.updates, "bytes": found.bytes}.get(duel.budget.kind, 1.0) or 0.0
    return max(tested, passes * each)


def about_runs(found: DuelEvidence) -> dict[int, dict[str, Any]]:
    """Return for each run that counts its strategy and stage, and its result within the budget, as cells of a table."""
    known, budget = metric(found.duel.metric), found.duel.budget
    return {
        each.run.id: {
            "stage": each.stage,
            "strategy": found.duel.strategies[each.strategy].name,
            headed(f"{known.name} within budget", known.unit): each.value,
            headed("tested at", budget.kind): each.at and each.at.spent,
        }
        for each in found.cells
        if each.run
    }


# ---- The result of a duel's tuning stage: each strategy's learning rate, or the obstacles --------------------------
# Torch-free and pure.


@dataclass(frozen=True)
class Tuned:
    """The selected learning rates so far."""

    choices: tuple[TunedRate | None, ...]
    """In the order of the strategies; None where no rate qualifies or some runs have not ended."""
    on: int
    """Queued and running tuning runs."""
    obstacles: tuple[str, ...]
    """Why the duel is blocked with no run active, one sentence each."""

    @property
    def rates(self) -> tuple[float, ...] | None:
        """The learning rate of each strategy; None while tuning or blocked."""
        known = tuple(each.rate for each in self.choices if each)
        return known if len(known) == len(self.choices) and not self.on and not self.obstacles else None


def tuned(found: DuelEvidence) -> Tuned:
    """Return the result of the tuning runs.

    A failed run excludes its learning rate. A lost, cancelled or deleted run says nothing about its rate, so the duel
    waits for a retry.
    """
    cells = [found.of("tuning", place) for place in range(len(found.duel.strategies))]
    on = sum(each.on for own in cells for each in own)
    choices = tuple(_choice(found, own) for own in cells)
    waits = on or found.stored.stage != "tuning"
    return Tuned(choices, on, () if waits else tuple(_obstacles(found, cells, choices)))


def is_missing(each: Tried) -> bool:
    """Say whether a planned run ended without a result: lost, cancelled or deleted."""
    return not each.complete and (each.run is None or each.run.status in ("lost", "cancelled"))


def _choice(found: DuelEvidence, own: Sequence[Tried]) -> TunedRate | None:
    if any(each.on or is_missing(each) for each in own):
        return None
    values = {rate: [each.value for each in own if each.rate == rate] for rate in found.duel.rates}
    return choose(found.duel.rates, values, metric(found.duel.metric).better or "max")


def _obstacles(
    found: DuelEvidence, cells: Sequence[Sequence[Tried]], choices: Sequence[TunedRate | None]
) -> Iterator[str]:
    missing = [each for own in cells for each in own if is_missing(each)]
    if missing:
        yield _silent(missing, sum(map(len, cells)))
        return
    for one, own, choice in zip(found.duel.strategies, cells, choices, strict=True):
        if choice is None:
            failed = [each for each in own if each.failed]
            why = (
                f"{len(failed)} of {len(own)} runs failed (run {failed[0].run.id}: {failed[0].run.cause})"
                if failed and failed[0].run
                else "no run has a test within the budget"
            )
            cure = "Launch another duel with smaller rates." if failed else "Launch another duel with a larger budget."
            yield f"No learning rate of {one.name} qualifies: {why}. {cure}"


def _silent(missing: Sequence[Tried], planned: int) -> str:
    if len(missing) == planned and all(each.run is None for each in missing):
        return "All tuning runs were deleted, so no learning rate can be selected. Launch the duel again."
    ends = ", ".join(sorted({each.run.status if each.run else "deleted" for each in missing}))
    cure = (
        "Launch the duel again."
        if any(each.run is None for each in missing)
        else "Retry them; the duel then continues automatically."
    )
    return f"{len(missing)} of {planned} tuning runs have no result ({ends}), so no learning rate is selected. {cure}"
