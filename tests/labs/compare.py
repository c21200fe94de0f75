"""Labs whose runs are worth comparing, written through the real store."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Launch, RankBatch, RankRow, Store
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.stand_in import worker

LOSS, ACCURACY = "train/loss", "test/accuracy"


def add(
    store: Store,
    name: str = "hogwild",
    *,
    steps: int = 120,
    level: float = 1.0,
    owner: str = "Ada",
    ranks: int = 1,
    nan_at: int | None = None,
    ended: bool = True,
    every: int = 1,
    environment: dict[str, Any] | None = None,
    **settings: Any,
) -> int:
    """Add a run whose loss falls from about `level`, recorded at each `every`-th step of each rank, 5 tests by the
    first; return its id.
    """
    config = experiment(name).configure("quick", settings)
    run_id = store.runs.add(
        Launch(name, config.model_dump(mode="json"), owner, "quick", demand=demand(config, machine()))
    )
    store.claims.claim(run_id, worker(), [])
    store.worker.begin(
        run_id,
        worker(),
        environment or {"python": "3.11", "packages": {"torch": "2.15", "numpy": "2.4"}, "host": "lab"},
    )
    store.worker.add_ranks(
        run_id,
        [
            RankRow(rank, role, 6000 + rank, "cpu", "running", steps, now(), None, 480.0, 97.0)
            for rank, role in enumerate(config.roles)
        ],
    )
    store.worker.mark_running(run_id, 1.25)
    noise = np.random.default_rng(run_id).normal(0, 0.1 * level, (ranks, steps))
    for rank in range(ranks):
        store.worker.write(
            run_id, [RankBatch(rank, _points(noise[rank].tolist(), level, steps, every, nan_at, tests=rank == 0))]
        )
    if ended:
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=10.0 * level)
    return run_id


def _points(
    noise: Sequence[float], level: float, steps: int, every: int, nan_at: int | None, *, tests: bool
) -> list[Point]:
    losses = [level * math.exp(-3 * step / steps) + noise[step] for step in range(steps)]
    points = [
        Point(LOSS, step, math.nan if step == nan_at else losses[step], step / 20, step / 50)
        for step in range(0, steps, every)
    ]
    tested = range(steps // 5, steps + 1, steps // 5) if tests and steps >= 5 else ()
    return points + [
        Point(ACCURACY, step, 100 * (1 - math.exp(-4 * step / steps)) - level, step / 20, step / 50) for step in tested
    ]


def fill(home: Home) -> list[int]:
    """Add 2 trainers with three seeds and 4 trainers with two, by two people, and a reference; return their ids."""
    with Store.open(home) as store:
        ids = [add(store, trainers=2, seed=seed, level=1 + seed / 10) for seed in range(3)]
        ids += [
            add(store, trainers=4, seed=seed, level=0.8 + seed / 10, owner="Grace <b>H</b>", ranks=2)
            for seed in range(2)
        ]
        return [*ids, add(store, "reference", level=1.4)]


def staggered(store: Store, *, last: Sequence[float] = (60, 60, 60), **changes: Any) -> list[int]:
    """Add runs tested every 5 passes from 5.00, 5.03 and 5.05 on, whose accuracies lie 10 points apart: a mean over
    all is 50 + passes / 2, wherever it is drawn.
    """
    ids = [add(store, trainers=2, seed=seed, steps=0, **changes) for seed in range(len(last))]
    for seed, run_id in enumerate(ids):
        passes = [5 * test + (0, 0.03, 0.05)[seed] for test in range(1, 13) if 5 * test <= last[seed]]
        points = [Point(ACCURACY, round(100 * at), 40 + 10 * seed + at / 2, 2 * at, at) for at in passes]
        store.worker.write(run_id, [RankBatch(0, points)])
    return ids
