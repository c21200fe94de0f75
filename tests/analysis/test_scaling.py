"""The lines that a pipeline's execution time is read against, held against the schedules themselves, played step by step."""

from itertools import product

import pytest

from engine.analysis.scaling import PIPELINE, Baseline, ideal_time_s, stage_shares, unequal_stages_time_s
from engine.experiments.pipeline.schedules import Schedule, actions
from engine.registry import EXPERIMENTS, experiment

T1 = 10.0


def played(schedule: Schedule, splits: int, shares: tuple[float, ...]) -> float:
    """Return the time that a schedule takes when each action starts as soon as its stage and its input are there; a backward takes twice a forward."""
    stages = len(shares)
    left = [actions(schedule, stage, stages, splits) for stage in range(stages)]
    free, done = [0.0] * stages, dict[tuple[int, str, int], float]()
    while any(left):
        for stage, todo in enumerate(left):
            while todo:
                what, micro_batch = todo[0]
                if what == "forward":
                    needs = (stage - 1, "forward", micro_batch) if stage else None
                else:
                    needs = (stage + 1, "backward", micro_batch) if stage + 1 < stages else (stage, "forward", micro_batch)
                if needs is not None and needs not in done:
                    break
                took = T1 * shares[stage] / splits * (2 / 3 if what == "backward" else 1 / 3)
                free[stage] = done[stage, what, micro_batch] = max(free[stage], done[needs] if needs else 0.0) + took
                todo.pop(0)
    return max(free)


@pytest.mark.parametrize(("schedule", "splits", "stages"), list(product(("gpipe", "1f1b"), (1, 2, 3, 8), (2, 3, 4))))
def test_equal_stages_take_the_ideal_time(schedule: Schedule, splits: int, stages: int) -> None:
    assert played(schedule, splits, (1 / stages,) * stages) == pytest.approx(ideal_time_s(T1, splits, stages))


UNEQUAL = [(0.6, 0.4), (0.1, 0.9), (0.5, 0.3, 0.2), (0.2, 0.6, 0.2), (0.1, 0.2, 0.3, 0.4)]


@pytest.mark.parametrize(("splits", "shares"), list(product((1, 2, 5, 16), UNEQUAL)))
def test_gpipe_over_unequal_stages_takes_the_bound(splits: int, shares: tuple[float, ...]) -> None:
    assert played("gpipe", splits, shares) == pytest.approx(unequal_stages_time_s(T1, splits, max(shares)))


@pytest.mark.parametrize(("splits", "shares"), list(product((2, 5, 16), UNEQUAL)))
def test_1f1b_hides_at_most_the_wait_and_never_the_slowest_stages_own_work(splits: int, shares: tuple[float, ...]) -> None:
    assert T1 * max(shares) - 1e-9 <= played("1f1b", splits, shares) <= unequal_stages_time_s(T1, splits, max(shares)) + 1e-9


def test_with_one_split_both_are_what_was_measured() -> None:
    assert ideal_time_s(T1, 1, 4) == unequal_stages_time_s(T1, 1, 0.7) == T1


def test_a_stages_share_is_its_compute_and_update_over_all_stages() -> None:
    phases = {"master": {"compute": 99.0}, "stage1": {"compute": 5.0, "update": 1.0, "wait": 9.0}, "stage2": {"compute": 2.0}}
    assert stage_shares(phases) == {"stage1": 0.75, "stage2": 0.25}
    assert stage_shares({"stage1": {"wait": 3.0}}) == {}


def test_the_lines_start_from_what_was_measured_and_are_dashed_apart() -> None:
    ideal, bound = PIPELINE.references(Baseline({"stages": 2}, T1, {"stage1": {"compute": 3.0}, "stage2": {"compute": 1.0}}), [1, 2, 4])
    assert ideal.times_s == pytest.approx((10.0, 7.5, 6.25))
    assert bound.times_s == pytest.approx((10.0, 8.75, 8.125))
    assert ideal.dash != bound.dash
    assert [line.label for line in PIPELINE.references(Baseline({"stages": 2}, T1, {}), [1])] == ["ideal"]


def test_an_experiment_without_lines_of_its_own_has_none() -> None:
    assert {name for name in EXPERIMENTS if experiment(name).scaling} == {"pipeline"}
    assert experiment("pipeline").scaling is PIPELINE
    assert PIPELINE.field in experiment("pipeline").config.model_fields
