"""Who is ahead on which task, and with how many seeds; what every experiment calls its result."""

import pytest

from engine.metrics import METRICS
from engine.registry import EXPERIMENTS, experiment
from engine.results import ACCURACY, Result
from engine.store import Reader, Store
from tests.store.ends import finish


def test_the_best_run_is_by_its_last_value_on_its_task_with_the_seeds_of_its_config(store: Store, reader: Reader) -> None:
    digits, mnist = {"dataset": "digits", "trainers": 2}, {"dataset": "mnist", "trainers": 2}
    ids = [finish(store, digits | {"seed": seed}, value, owner=owner) for seed, value, owner in ((0, 90.0, "ada"), (1, 97.0, "bea"), (2, 95.0, "ada"))]
    finish(store, digits | {"seed": 0, "trainers": 4}, 96.0)
    other = finish(store, mnist | {"seed": 0}, 80.0)
    finish(store, digits | {"seed": 0}, 99.0, experiment="sync_sgd")
    finish(store, {"dataset": "synthetic", "seed": 0}, 99.9)
    sparse = finish(store, {"dataset": "mnist", "model": "sparse_logistic", "seed": 0}, 85.0)
    finish(store, mnist | {"seed": 3}, None)
    found = {best.task: best for best in reader.bests("hogwild", experiment("hogwild").result)}
    assert {task: best.run_id for task, best in found.items()} == {("digits",): ids[1], ("mnist",): other, ("sparse_logistic",): sparse}
    best = found[("digits",)]
    assert (best.value, best.owner, best.preset, best.seeds, best.mean) == (97.0, "bea", "quick", 3, pytest.approx(94.0))
    assert found[("mnist",)].seeds == 1
    store.archive([ids[1]], by="ada")
    assert [best.run_id for best in reader.bests("hogwild", ACCURACY) if best.task == ("digits",)] == [4]


def test_where_less_is_better_the_least_is_the_best_and_of_equals_the_oldest(store: Store, reader: Reader) -> None:
    ids = [finish(store, {"seed": seed}, value, name="test/loss") for seed, value in ((0, 3.0), (1, 2.0), (2, 2.0))]
    assert [best.run_id for best in reader.bests("hogwild", Result("test/loss"))] == [ids[1]]


def test_every_experiment_has_a_result_that_its_config_and_our_metrics_know() -> None:
    for name in EXPERIMENTS:
        found = experiment(name)
        assert METRICS[found.result.metric].better in ("max", "min")
        assert {*found.result.task, *(field for field, _ in found.result.own_tasks)} <= set(found.config.model_fields)
