"""The x-axis Updates: at the end of a run it stands at the number of updates that its optimizers made, also with
unequal parts.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from app.charts.curve_points import UPDATES, clocks
from engine.analysis.update_clock import updates_at
from engine.data.nets import FlatAdam, FlatSgd
from engine.home import Home
from engine.registry import experiment, experiments, method
from engine.store import Launch, RankBatch, RankRow, Reader, Store
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.doubles import LocalRanks
from tests.experiments.test_schedules import DPPO, SERVER, SYNC
from tests.stand_in import worker

HOGWILD = {"dataset": "digits", "trainers": 2, "epochs": 1, "batch_size": 359}
RUNS: list[tuple[str, dict[str, Any], float]] = [
    ("sync_sgd", SYNC | {"sync": "gradients"}, 6),
    ("sync_sgd", SYNC | {"sync": "weights"}, 5),
    ("parameter_server", SERVER | {"batch_update_size": 2}, 6),
    ("parameter_server", SERVER | {"batch_update_size": 1}, 10),
    ("async_sgd", SERVER, 10),
    ("hogwild", HOGWILD, 10),
    ("dppo", DPPO | {"mode": "bounded_queue"}, 16),
]
"""An experiment, its settings, and the updates that its model gets; of copies the mean."""


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "changes", "updates"), RUNS)
def test_the_axis_ends_with_the_updates_that_were_made(
    home: Home, name: str, changes: dict[str, Any], updates: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[object] = Counter()
    for kind in (FlatSgd, FlatAdam):

        def step(optimizer: Any, plain: Any = kind.step) -> None:
            made[optimizer] += 1
            plain(optimizer)

        monkeypatch.setattr(kind, "step", step)
    config = experiment(name).config.check(changes)
    ranks = LocalRanks(config.roles)
    method(name)(config, ranks)
    if name != "hogwild":  # whose optimizer is its own
        assert sum(made.values()) / len(made) == updates
    with Store.open(home) as store:
        run_id = store.runs.add(Launch(name, config.model_dump(mode="json"), "Ada", demand=demand(config, machine())))
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), {})
        rows = [RankRow(index, role, None, "cpu", "running", 9, now(), None) for index, role in enumerate(config.roles)]
        store.worker.add_ranks(run_id, rows)
        for index, role in enumerate(config.roles):
            store.worker.write(run_id, [RankBatch(index, ranks.recorders[role].points)])
    with Reader.open(home) as reader:
        run = reader.runs.entry(run_id)
        assert updates_at(np.array([1e9]), clocks(reader, run, UPDATES)).tolist() == [pytest.approx(updates)]


def test_each_experiment_with_an_update_clock_is_checked_or_counts_in_one_rank() -> None:
    one_rank = {"reference", "batched_reinforce", "pipeline", "tensor_parallel"}
    of_processes = {"fsdp"}  # its ranks can't be threads; each logs every step, of which the most are counted
    counted = {run[0] for run in RUNS} | one_rank | of_processes
    assert {each.name for each in experiments() if each.update_clock} == counted
