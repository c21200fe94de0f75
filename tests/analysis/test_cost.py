"""What runs will take, from like runs: worked examples."""

from typing import Any

from engine.analysis.cost import Wanted, cost
from engine.store import RunRow
from engine.store.records import Demand


def finished(run_id: int, execution_time_s: float | None, **config: Any) -> RunRow:
    return RunRow(
        run_id, "hogwild", None, "", "ada", "finished", "", "", None, None, 1.0, None, execution_time_s, 1.0, run_id, 0.0, None, {"epochs": 3} | config
    )


def wanted(cores: int, *, gpus: int = 0, epochs: int = 3, **config: Any) -> Wanted:
    return Wanted({"epochs": epochs} | config, Demand(cores, gpus, cores, 1))


LIKE = [finished(1, 9.0, trainers=1, seed=0), finished(2, 19.0, trainers=2, seed=0), finished(3, 29.0, trainers=2, seed=5)]


def test_a_run_takes_the_mean_of_those_with_its_values_whatever_their_seed() -> None:
    found = cost([wanted(1, trainers=1, seed=7), wanted(2, trainers=2, seed=7)], ["trainers"], LIKE, cores=2, gpus=0)
    assert found is not None
    assert (found.runs, found.like_runs, found.core_hours) == (2, 3, (10 + 2 * 25) / 3600)
    assert found.time_s == 10 + 25, "the second needs both cores, so it waits for the first"


def test_a_value_that_was_never_run_takes_the_mean_of_all_like_runs() -> None:
    found = cost([wanted(4, trainers=4, seed=0)], ["trainers"], LIKE, cores=8, gpus=0)
    assert found is not None
    assert found.time_s == 20.0


def test_runs_that_fit_go_side_by_side_unless_each_is_to_be_alone() -> None:
    many = [wanted(1, trainers=1, seed=seed) for seed in range(4)]
    side_by_side, alone = (cost(many, ["trainers"], LIKE, cores=2, gpus=0, one_at_a_time=alone) for alone in (False, True))
    assert side_by_side is not None and alone is not None
    assert (side_by_side.time_s, alone.time_s) == (20.0, 40.0)


def test_gpus_are_counted_and_waited_for() -> None:
    found = cost([wanted(1, gpus=1, trainers=1, seed=seed) for seed in range(3)], ["trainers"], LIKE, cores=8, gpus=2)
    assert found is not None
    assert (found.time_s, found.gpu_hours) == (20.0, 30 / 3600)


def test_runs_with_other_settings_tell_nothing() -> None:
    assert cost([wanted(1, trainers=1, seed=0, epochs=100)], ["trainers"], LIKE, cores=2, gpus=0) is None
    assert cost([wanted(1, trainers=1, seed=0)], ["trainers"], [finished(1, None, trainers=1, seed=0)], cores=2, gpus=0) is None
    assert cost([], ["trainers"], LIKE, cores=2, gpus=0) is None
