"""Speed-up, efficiency, and what stands against comparing runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from engine.analysis.hardware import crowded, unlike
from engine.analysis.speedup import ratio_of_means, sizes, why_no_fit
from engine.analysis.study import Timing, axis_of, differing, study
from engine.store import Surroundings
from engine.store.records import RunRow
from tests.analysis.timings import WORK, made, of_time

AROUND = Surroundings("lab", "Xeon", 4, (), "abc", 1, (("trainer1", "cpu"), ("trainer2", "cpu")), 1000, "samples")


def run(
    number: int, status: str = "finished", experiment: str = "hogwild", time_s: float | None = 10.0, best: Any = None, last: Any = None, **config: Any
) -> RunRow:
    same: Mapping[str, Any] = {"preset": None, "name": "", "owner": "ada", "cause": "", "created_at": "", "started_at": None, "ended_at": None}
    rest: Mapping[str, Any] = {"progress": 1.0, "time_left_s": None, "startup_time_s": 1.0, "version": 1, "time_before_s": 0.0, "sweep_id": 1}
    return RunRow(
        id=number, experiment=experiment, status=status, execution_time_s=time_s, config={"seed": 0, **config}, best=best or {}, last=last or {}, **same, **rest
    )  # type: ignore[arg-type]


def test_speed_up_of_the_same_work_is_the_ratio_of_times() -> None:
    found = sizes(of_time([(1, 10.0), (2, 5.5), (4, 4.0)]))
    assert [size.speed_up.mean for size in found if size.speed_up] == pytest.approx([1.0, 10 / 5.5, 2.5])
    assert [size.efficiency.mean for size in found if size.efficiency] == pytest.approx([1.0, 10 / 11, 0.625])
    assert [size.time_s.mean for size in found] == [10.0, 5.5, 4.0]


def test_speed_up_of_work_that_grows_is_the_ratio_of_work_a_second() -> None:
    found = sizes(of_time([(1, 10.0), (4, 20.0)], work=lambda count: WORK * count))
    assert found[1].speed_up is not None
    assert found[1].speed_up.mean == pytest.approx(2.0), "four times the work in twice the time"


def test_a_pipelines_efficiency_is_of_its_stages() -> None:
    found = sizes(of_time([(1, 10.0), (8, 6.25)]), workers=2)
    assert found[1].efficiency is not None
    assert found[1].efficiency.mean == pytest.approx(0.8)


def test_intervals_pair_seeds_and_one_seed_has_none() -> None:
    paired = sizes(made(lambda count: count, (1, 2), noise=0.0))[1].speed_up
    assert paired is not None
    assert (paired.low, paired.mean, paired.high) == pytest.approx((2.0, 2.0, 2.0))
    single = sizes(of_time([(1, 10.0), (2, 5.0)]))[1].speed_up
    assert single is not None
    assert not single.is_known


@pytest.mark.parametrize(("below", "above"), [(3, 3), (3, 5), (3, 20), (5, 10)])
def test_a_speed_up_against_a_reference_of_fewer_seeds_carries_its_error(below: int, above: int) -> None:
    rng, covered = np.random.default_rng(below * above), 0
    draws = 600
    for _ in range(draws):
        slow, fast = rng.normal(1.0, 0.1, below), rng.normal(3.0, 0.3, above)
        found = ratio_of_means(fast.tolist(), slow.tolist())
        covered += not found.is_known or found.low <= 3.0 <= found.high
    assert covered / draws >= 0.93


def test_a_reference_of_too_few_seeds_gives_no_interval() -> None:
    points = enumerate([(1, 0), (2, 0), (2, 1), (2, 2)])
    timings = [Timing(place, (), count, seed, 10.0 / count * (1 + 0.01 * seed), WORK, "") for place, (count, seed) in points]
    found = sizes(timings)[1].speed_up
    assert found is not None and not found.is_known
    assert (found.low, found.high) == pytest.approx((2 / 1.02, 2.0))
    more = [*timings, *(Timing(place, (), 1, place, 10.0 + place / 100, WORK, "") for place in (7, 8))]
    assert [size.speed_up.method for size in sizes(more) if size.speed_up] == ["range", "fieller"], "the speed-up at 1 is 1, whatever the seed"


def test_a_reference_that_may_be_0_gives_no_interval() -> None:
    assert not ratio_of_means([3.0, 3.1, 2.9], [0.1, 2.0, 0.2]).is_known


def test_no_interval_of_a_time_or_a_speed_up_reaches_below_0() -> None:
    timings = [Timing(place, (), count, place % 2, time_s, WORK, "") for place, (count, time_s) in enumerate([(1, 10.0), (1, 14.0), (4, 3.0), (4, 9.0)])]
    for size in sizes(timings):
        for each in (size.time_s, size.per_second, size.speed_up, size.efficiency):
            assert each is not None and 0 <= each.low <= each.mean <= each.high


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2, 4, 8), "There is no reference point: no run with trainers 1 has finished"),
        ((1, 2), "A law needs at least 3 sizes, and there are 2 of trainers."),
        ((1,), "there is 1 of trainers"),
        ((1, 2, 4), ""),
    ],
)
def test_a_fit_is_refused_with_the_reason(counts: tuple[int, ...], words: str) -> None:
    found = why_no_fit(made(lambda count: count, counts), "trainers")
    assert words in found and bool(words) == bool(found)


def test_without_a_reference_point_there_is_time_but_no_speed_up() -> None:
    found = sizes(of_time([(2, 10.0), (4, 5.0)]))
    assert [(size.time_s.mean, size.speed_up, size.efficiency) for size in found] == [(10.0, None, None), (5.0, None, None)]


def test_a_study_is_of_finished_runs_with_their_work() -> None:
    runs = [run(1, trainers=1, lock=True), run(2, trainers=2, lock=False), run(3, "failed", trainers=4, lock=True), run(4, trainers=2, lock=True, time_s=None)]
    found = study(runs, {1: AROUND, 2: AROUND}, "trainers", ["lock"])
    assert [(timing.run_id, timing.line, timing.count, timing.work) for timing in found.timings] == [(1, (True,), 1, 1000.0), (2, (False,), 2, 1000.0)]
    assert (found.unit, found.obstacles, found.line_keys()) == ("samples", (), [(True,), (False,)])


def test_work_that_was_not_counted_everywhere_counts_nowhere() -> None:
    found = study([run(1, trainers=1), run(2, trainers=2)], {1: AROUND}, "trainers")
    assert ([timing.work for timing in found.timings], found.unit) == ([1.0, 1.0], "")


@pytest.mark.parametrize(
    ("runs", "around", "words"),
    [
        ([run(1, trainers=1), run(2, trainers=2, experiment="sync_sgd")], {1: AROUND, 2: AROUND}, "of 2 experiments (hogwild, sync_sgd)"),
        ([run(1, trainers=1, epochs=1), run(2, trainers=2, epochs=5)], {1: AROUND, 2: AROUND}, "differ in more than that: epochs 1, 5."),
        (
            [run(1, trainers=1), run(2, trainers=2)],
            {1: AROUND, 2: Surroundings("lab", "Xeon", 8, ("H1",), "", 1, (), 1000, "samples")},
            "unlike machines: lab (4 cores of Xeon) and lab (8 cores of Xeon, 1 x H1)",
        ),
    ],
)
def test_unlike_runs_stand_against_a_fit(runs: list[RunRow], around: dict[int, Surroundings], words: str) -> None:
    (obstacle,) = study(runs, around, "trainers").obstacles
    assert words in obstacle


def test_the_axis_is_the_count_that_varies() -> None:
    assert axis_of(["mode", "observers"]) == "observers"
    assert axis_of(["learning_rate"]) is None
    assert differing([run(1, trainers=1, lock=True), run(2, trainers=2, lock=False)]) == ["trainers", "lock"]


def test_ranks_are_crowded_where_threads_outnumber_cores_or_share_a_gpu() -> None:
    trainers = tuple((f"trainer{number}", "cpu") for number in range(1, 5))
    on = {"host": "lab", "cpu": "Xeon", "gpus": (), "commit": "", "work": 1, "unit": ""}
    assert crowded(Surroundings(cores=2, threads_per_rank=1, devices=trainers, **on)) == "4 threads on 2 cores"  # type: ignore[arg-type]
    assert crowded(Surroundings(cores=4, threads_per_rank=1, devices=trainers, **on)) == ""  # type: ignore[arg-type]
    assert crowded(Surroundings(cores=8, threads_per_rank=2, devices=(("ps", "cpu"), *trainers), **on)) == "9 threads on 8 cores"  # type: ignore[arg-type]
    shared = (("agent", "cpu"), ("stage1", "cuda:0"), ("stage2", "cuda:0"))
    assert crowded(Surroundings(cores=8, threads_per_rank=1, devices=shared, **on)) == "2 ranks share 1 GPU"  # type: ignore[arg-type]


def test_machines_that_never_said_what_they_are_make_no_difference() -> None:
    assert unlike([AROUND, Surroundings("", "", 0, (), "", 1, (), 0, "")]) == ""
