"""Duels as a lab's store would hold them: their runs driven to their ends with tests made up by strategy, learning rate
and seed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.config import Config
from engine.duel.evidence import DuelEvidence, Tried, gather
from engine.duel.launch import DuelLaunch, go_on, launch_duel, pace_of
from engine.duel.spec import Budget, Duel, ready
from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Demand, RankBatch, RankRow, Reader, Store
from engine.store.records import RunRow, Status
from engine.store.sweeps.duels import Stage
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.labs.figures import HERE
from tests.stand_in import worker

SHARED = {"dataset": "digits", "trainers": 2, "batch_size": 32, "momentum": 0.5}
BEST_RATE = {"Hogwild!": 0.1, "Parameter server": 0.03, "Synchronous SGD, weights": 0.03}
HEIGHT = {"Hogwild!": 94.0, "Parameter server": 91.0, "Synchronous SGD, weights": 93.5}
"""What each reaches in the end with its best rate; made up."""
Reaches = Callable[[str, float, int, float], float]


def duel_of(*names: str, kind: str = "passes", amount: float = 10, **changes: Any) -> Duel:
    """Return a small duel of ready strategies."""
    budget = Budget(kind, amount)  # type: ignore[arg-type]
    return Duel(
        tuple(ready()[name] for name in names),
        budget,
        SHARED,
        **{"rates": (0.01, 0.03, 0.1), "tuning_seeds": 1, **changes},
    )


def launched(home: Home, *names: str, **changes: Any) -> int:
    """Queue a small duel of ready strategies and return its id."""
    return launch_duel(
        home, DuelLaunch(duel_of(*(names or ("hogwild", "parameter_server")), **changes), owner="Ada", name="")
    )


def usual(name: str, rate: float, seed: int, share: float) -> float:
    """Return an accuracy after a share of the budget: rising, lower away from the best rate, a little else with each
    seed.
    """
    away = 3.0 * abs([0.01, 0.03, 0.1].index(rate) - [0.01, 0.03, 0.1].index(BEST_RATE[name]))
    return round(
        HEIGHT[name]
        - away
        - 40 * 0.05 ** min(share, 1.5)
        + (seed // 100 % 7) / 10
        + (seed // 100 % 3) * len(name) / 100,
        3,
    )


def gathered(home: Home, duel_id: int) -> DuelEvidence:
    """Return the duel as it stands."""
    with Reader.open(home) as reader:
        return gather(reader, duel_id)


def drive(
    home: Home,
    duel_id: int,
    stage: Stage,
    reaches: Reaches = usual,
    ends: Mapping[int, Status] | None = None,
    beyond: float = 1.2,
) -> DuelEvidence:
    """Take the queued runs of a stage to their ends, with tests up to `beyond` the budget; `ends` gives other ends by
    run id. Return what there is then.
    """
    found = gathered(home, duel_id)
    for each in found.of(stage):
        if each.run and each.run.status == "queued":
            end(home, found, each, reaches, (ends or {}).get(each.run.id, "finished"), beyond)
    return gathered(home, duel_id)


def end(
    home: Home,
    found: DuelEvidence,
    each: Tried,
    reaches: Reaches = usual,
    status: Status = "finished",
    beyond: float = 1.2,
) -> None:
    """Take one queued run to an end; one that does not finish breaks off halfway."""
    assert each.run
    duel, one = found.duel, found.duel.strategies[each.strategy]
    pace = pace_of(duel, one)
    last = beyond if status == "finished" else min(beyond, 0.5)
    points, losses = [], []
    for number in range(1, 60):
        passes = number * pace.passes if duel.budget.kind != "seconds" else number * duel.budget.amount / 8
        step = round(passes / pace.step_passes) if pace.step_passes else round(passes * pace.updates)
        share = passes / (pace.passes_of(duel.budget.kind, duel.budget.amount) or duel.budget.amount)
        if share > last + 1e-9:
            break
        points.append(
            Point(
                "test/accuracy",
                step,
                reaches(one.name, each.rate, each.seed, share),
                passes * 0.4 + len(one.name) / 50,
                passes,
            )
        )
        losses.append(
            Point("train/loss", step, 1.0 / number, passes * (0.4 if duel.budget.kind != "seconds" else 1.0), passes)
        )
    with Store.open(home) as store:
        store.claims.claim(each.run.id, worker(), [])
        store.worker.begin(each.run.id, worker(), dict(HERE))
        store.worker.add_ranks(each.run.id, [RankRow(0, "trainer1", None, "cpu", "running", 9, now(), None)])
        store.worker.mark_running(each.run.id, 1.0)
        store.worker.write(
            each.run.id, [RankBatch(0, [*points, *losses], {"compute": 3.0})], progress=(10, 10, "samples")
        )
        if status == "cancelled":
            store.runs.cancel(each.run.id, by="Grace")
        store.claims.end(each.run.id, status, f"It {status}.", execution_time_s=4.0)


def continued(home: Home, duel_id: int) -> bool:
    """Do what the runner does about one duel."""
    with Reader.open(home) as reader, Store.open(home) as store:
        return go_on(reader, store, duel_id)


def whole(home: Home, *names: str, reaches: Reaches = usual, **changes: Any) -> DuelEvidence:
    """Launch a duel and drive it to its end."""
    duel_id = launched(home, *names, **changes)
    drive(home, duel_id, "tuning", reaches)
    assert continued(home, duel_id)
    return drive(home, duel_id, "judging", reaches)


def demand_of(run: RunRow) -> Demand:
    """Return what a run asked for."""
    config: Config = experiment(run.experiment).config.check(run.config)
    return demand(config, machine())
