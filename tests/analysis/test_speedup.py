"""Speed-up, efficiency, and what stands against comparing runs."""

import re
from collections.abc import Callable, Mapping
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

from engine.analysis.comparability import crowded, unlike
from engine.analysis.scaling import speedup
from engine.analysis.scaling.laws import AMDAHL, GUSTAFSON, LAWS, SCALABILITY, Fit, Law, best_count, fit, in_words
from engine.analysis.scaling.scaling_data import TimedRun, axis_of, differing, study
from engine.analysis.scaling.speedup import ratio_of_means, ratio_of_rates, sizes, why_no_fit
from engine.analysis.scaling.targets import to_target
from engine.registry import experiment
from engine.store import Surroundings
from engine.store.records import RunRow
from tests import scipy_stats as stats
from tests.analysis.timings import WORK, made, of_time

AROUND = Surroundings("lab", "Xeon", 4, (), "abc", 1, (("trainer1", "cpu"), ("trainer2", "cpu")), 1000, "samples")


def run(
    number: int,
    status: str = "finished",
    experiment: str = "hogwild",
    time_s: float | None = 10.0,
    best: Any = None,
    last: Any = None,
    **config: Any,
) -> RunRow:
    same: Mapping[str, Any] = {
        "preset": None,
        "name": "",
        "owner": "ada",
        "cause": "",
        "created_at": "",
        "started_at": None,
        "ended_at": None,
    }
    rest: Mapping[str, Any] = {
        "progress": 1.0,
        "time_left_s": None,
        "startup_time_s": 1.0,
        "version": 1,
        "time_before_s": 0.0,
        "sweep_id": 1,
    }
    return RunRow(
        id=number,
        experiment=experiment,
        status=status,
        execution_time_s=time_s,
        config={"seed": 0, **config},
        best=best or {},
        last=last or {},
        **same,
        **rest,
    )  # type: ignore[arg-type]


def test_speed_up_and_efficiency_are_ratios_to_the_reference_point() -> None:
    found = sizes(of_time([(1, 10.0), (2, 5.5), (4, 4.0)]))
    assert [size.speed_up.mean for size in found if size.speed_up] == pytest.approx([1.0, 10 / 5.5, 2.5])
    assert [size.efficiency.mean for size in found if size.efficiency] == pytest.approx([1.0, 10 / 11, 0.625])
    assert [size.time_s.mean for size in found] == [10.0, 5.5, 4.0]
    found = sizes(of_time([(1, 10.0), (4, 20.0)], work=lambda count: WORK * count))
    assert found[1].speed_up is not None
    assert found[1].speed_up.mean == pytest.approx(2.0), "four times the work in twice the time"
    found = sizes(of_time([(1, 10.0), (8, 6.25)]), workers=2)
    assert found[1].efficiency is not None
    assert found[1].efficiency.mean == pytest.approx(0.8)
    slowed = sizes(of_time([(1, 10.0), (2, 40.0)]))[1].speed_up
    assert slowed is not None and (slowed.low, slowed.high) == (0.25, 0.25), "more can be slower"
    found = sizes(of_time([(2, 10.0), (4, 5.0)]))
    assert [(size.time_s.mean, size.speed_up, size.efficiency) for size in found] == [
        (10.0, None, None),
        (5.0, None, None),
    ]


def test_a_sweep_for_timing_is_judged_by_medians() -> None:
    times = [10.0, 10.2, 10.1, 10.3, 10.4, 90.0]
    timings = [
        TimedRun(place, (), count, seed, time_s / count, WORK, "")
        for place, (count, (seed, time_s)) in enumerate((count, each) for count in (1, 2) for each in enumerate(times))
    ]
    one, two = sizes(timings, statistic="median")
    assert (one.time_s.mean, two.time_s.mean, one.time_s.method) == (10.25, 5.125, "order")
    assert (one.time_s.low, one.time_s.high) == (10.0, 90.0), "the interval of 6 values spans them all"
    assert two.speed_up and two.speed_up.mean == pytest.approx(2.0)
    _, alone = sizes([*timings[:3], TimedRun(20, (), 2, 9, 5.0, WORK, "")], statistic="median")
    assert alone.speed_up and (alone.speed_up.mean, alone.speed_up.method) == (pytest.approx(10.1 / 5.0), "range")
    (first, second) = to_target(
        timings, {timing.run_id: (7.0, timing.execution_time_s) for timing in timings}, "median"
    )
    assert first.time_s and second.time_s and (first.time_s.mean, second.time_s.mean) == (10.25, 5.125)


def test_intervals_pair_seeds_and_too_few_give_none() -> None:
    paired = sizes(made(lambda count: count, (1, 2), noise=0.0))[1].speed_up
    assert paired is not None
    assert (paired.low, paired.mean, paired.high) == pytest.approx((2.0, 2.0, 2.0))
    single = sizes(of_time([(1, 10.0), (2, 5.0)]))[1].speed_up
    assert single is not None
    assert not single.is_known
    points = enumerate([(1, 0), (2, 0), (2, 1), (2, 2)])
    timings = [
        TimedRun(place, (), count, seed, 10.0 / count * (1 + 0.01 * seed), WORK, "") for place, (count, seed) in points
    ]
    found = sizes(timings)[1].speed_up
    assert found is not None and not found.is_known
    assert (found.low, found.high) == pytest.approx((2 / 1.02, 2.0))
    more = [*timings, *(TimedRun(place, (), 1, place, 10.0 + place / 100, WORK, "") for place in (7, 8))]
    assert [size.speed_up.method for size in sizes(more) if size.speed_up] == ["range", "fieller"], (
        "the speed-up at 1 is 1, whatever the seed"
    )
    assert not ratio_of_means([3.0, 3.1, 2.9], [0.1, 2.0, 0.2]).is_known


def test_a_seed_without_a_reference_does_not_unpair_the_others() -> None:
    reference = {0: 10.0, 1: 20.0, 2: 40.0, 9: 1.0}
    own = [(0, 20.0), (1, 41.0), (2, 79.0), (3, 5_000.0)]
    found = ratio_of_rates(own, reference, "mean")
    assert (found.count, found.method) == (3, "student") and 1.9 < found.low < 2 < found.high < 2.11
    unpaired = ratio_of_means([rate for _, rate in own], [*reference.values()])
    assert unpaired.low < 1 < unpaired.high
    assert ratio_of_rates(own, {0: 10.0, 1: 20.0}, "mean").count == 4, "two common seeds have no interval"


def test_the_interval_of_a_ratio_is_fieller_s() -> None:
    """Its bounds are where the difference between one mean and so many times the other is as large as Student's t
    allows.
    """
    above, below = [3.0, 3.1, 2.9, 3.3], [2.0, 2.1, 1.9, 2.4, 2.2]
    reach = stats.t.ppf(0.975, 3)
    errors = [np.var(each, ddof=1) / len(each) for each in (above, below)]
    means = [np.mean(each) for each in (above, below)]
    roots = np.roots(
        [means[1] ** 2 - reach**2 * errors[1], -2 * means[0] * means[1], means[0] ** 2 - reach**2 * errors[0]]
    )
    found = ratio_of_means(above, below)
    assert (found.low, found.mean, found.high) == pytest.approx((min(roots), means[0] / means[1], max(roots)))
    timings = [
        TimedRun(place, (), count, place % 2, time_s, WORK, "")
        for place, (count, time_s) in enumerate([(1, 10.0), (1, 14.0), (4, 3.0), (4, 9.0)])
    ]
    for size in sizes(timings):
        for each in (size.time_s, size.per_second, size.speed_up, size.efficiency):
            assert each is not None and 0 <= each.low <= each.mean <= each.high


@pytest.mark.parametrize(("below", "above"), [(3, 3), (3, 5), (3, 20), (5, 10)])
def test_a_speed_up_against_a_reference_of_fewer_seeds_carries_its_error(below: int, above: int) -> None:
    rng, covered = np.random.default_rng(below * above), 0
    draws = 600
    for _ in range(draws):
        slow, fast = rng.normal(1.0, 0.1, below), rng.normal(3.0, 0.3, above)
        found = ratio_of_means(fast.tolist(), slow.tolist())
        covered += not found.is_known or found.low <= 3.0 <= found.high
    assert covered / draws >= 0.93


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2, 4, 8), "No reference point: speed-up needs a finished run with trainers 1."),
        ((1, 2), "A fit needs at least 3 sizes of trainers; got 2."),
        ((1,), "got 1."),
        ((1, 2, 4), ""),
    ],
)
def test_a_fit_is_refused_with_the_reason(counts: tuple[int, ...], words: str) -> None:
    found = why_no_fit(made(lambda count: count, counts), "trainers")
    assert words in found and bool(words) == bool(found)


def test_a_study_is_of_finished_runs_along_the_count_that_varies() -> None:
    runs = [
        run(1, trainers=1, lock=True),
        run(2, trainers=2, lock=False),
        run(3, "failed", trainers=4, lock=True),
        run(4, trainers=2, lock=True, time_s=None),
    ]
    found = study(runs, {1: AROUND, 2: AROUND}, "trainers", ["lock"])
    assert [(timing.run_id, timing.line, timing.count, timing.work) for timing in found.timings] == [
        (1, (True,), 1, 1000.0),
        (2, (False,), 2, 1000.0),
    ]
    assert (found.unit, found.obstacles, found.line_keys()) == ("samples", (), [(True,), (False,)])
    found = study([run(1, trainers=1), run(2, trainers=2)], {1: AROUND}, "trainers")
    assert ([timing.work for timing in found.timings], found.unit) == ([1.0, 1.0], "")
    assert axis_of(["mode", "observers"]) == "observers"
    assert axis_of(["learning_rate"]) is None
    assert differing([run(1, trainers=1, lock=True), run(2, trainers=2, lock=False)]) == ["trainers", "lock"]
    whole = experiment("hogwild").configure("quick").model_dump(mode="json")
    one, two, more = (run(1, **whole | {"trainers": n, "epochs": epochs}) for n, epochs in ((1, 12), (2, 6), (2, 7)))
    assert (differing([one, two]), differing([one, more])) == (["trainers"], ["trainers", "epochs"])
    assert unlike([AROUND, Surroundings("", "", 0, (), "", 1, (), 0, "")]) == ""
    many = [Surroundings(host, "Xeon", 4, (), "abc", 1, (), 0, "") for host in "abcde"]
    assert unlike(many).endswith("c (4 cores of Xeon) and 2 more") and unlike(many[:3]).endswith("c (4 cores of Xeon)")


def test_disturbed_runs_are_apart_and_named_unless_they_are_asked_for() -> None:
    last = [{"perf/disturbance": percent} for percent in (4.9, 12.5)]
    runs = [run(1, trainers=1), run(2, trainers=2, last=last[0]), run(3, trainers=2, last=last[1])]
    found = study(runs, {}, "trainers")
    assert [timing.run_id for timing in found.timings] == [1, 2]
    assert [(timing.run_id, timing.disturbance) for timing in found.disturbed] == [(3, 0.125)]
    assert found.left_out.startswith("Run 3 was disturbed: other programs or the host took more than 5 %")
    whole = study(runs, {}, "trainers", with_disturbed=True)
    assert ([timing.run_id for timing in whole.timings], whole.disturbed, whole.left_out) == ([1, 2, 3], (), "")


@pytest.mark.parametrize(
    ("runs", "around", "words"),
    [
        (
            [run(1, trainers=1), run(2, trainers=2, experiment="sync_sgd")],
            {1: AROUND, 2: AROUND},
            "belong to 2 experiments (Hogwild!, Synchronous parallel SGD)",
        ),
        (
            [run(1, trainers=1, epochs=1), run(2, trainers=2, epochs=5)],
            {1: AROUND, 2: AROUND},
            "also differ in epochs 1, 5.",
        ),
        (
            [run(1, trainers=1), run(2, trainers=2)],
            {1: AROUND, 2: Surroundings("lab", "Xeon", 8, ("H1",), "", 1, (), 1000, "samples")},
            "used different machines: lab (4 cores of Xeon) and lab (8 cores of Xeon, 1 × H1)",
        ),
    ],
)
def test_unlike_runs_stand_against_a_fit(runs: list[RunRow], around: dict[int, Surroundings], words: str) -> None:
    (obstacle,) = study(runs, around, "trainers").obstacles
    assert words in obstacle


def test_ranks_are_crowded_where_threads_outnumber_cores_or_share_a_gpu() -> None:
    trainers = tuple((f"trainer{number}", "cpu") for number in range(1, 5))
    on = {"host": "lab", "cpu": "Xeon", "gpus": (), "commit": "", "work": 1, "unit": ""}
    assert crowded(Surroundings(cores=2, threads_per_rank=1, devices=trainers, **on)) == "4 threads on 2 cores"  # type: ignore[arg-type]
    assert crowded(Surroundings(cores=4, threads_per_rank=1, devices=trainers, **on)) == ""  # type: ignore[arg-type]
    assert (
        crowded(Surroundings(cores=8, threads_per_rank=2, devices=(("ps", "cpu"), *trainers), **on))
        == "9 threads on 8 cores"
    )  # type: ignore[arg-type]
    shared = (("agent", "cpu"), ("stage1", "cuda:0"), ("stage2", "cuda:0"))
    assert crowded(Surroundings(cores=8, threads_per_rank=1, devices=shared, **on)) == "2 ranks share 1 GPU"  # type: ignore[arg-type]


COUNTS = (1, 2, 3, 4, 6, 8, 10)
KNOWN = [
    (AMDAHL, (0.05,)),
    (AMDAHL, (0.3,)),
    (GUSTAFSON, (0.1,)),
    (GUSTAFSON, (0.4,)),
    (SCALABILITY, (0.05, 0.02)),
    (SCALABILITY, (0.2, 0.005)),
]


def fitted(law: Law, parameters: tuple[float, ...], **options: float) -> Fit:
    found = fit(law, made(lambda count: law.speed_up(count, *parameters), COUNTS, **options))  # type: ignore[arg-type]
    assert isinstance(found, Fit)
    return found


@pytest.mark.parametrize(("law", "parameters"), KNOWN)
def test_a_law_finds_its_parameters_in_intervals_that_hold_as_promised(law: Law, parameters: tuple[float, ...]) -> None:
    found = fitted(law, parameters)
    assert [parameter.value for parameter in found.parameters] == pytest.approx(parameters, rel=1e-4)
    assert found.per_second == pytest.approx(50.0)
    assert found.error < 1e-6
    hits = [0] * len(parameters)
    for number in range(200):
        found = fitted(law, parameters, noise=0.03, number=number)
        hits = [
            hit + (each.low <= known <= each.high)
            for hit, each, known in zip(hits, found.parameters, parameters, strict=True)
        ]
    assert all(180 <= hit < 200 for hit in hits), (
        "95 % intervals, at 200 trials within three deviations; all of them would be too wide"
    )


def test_the_best_count_and_the_error_are_those_of_the_law() -> None:
    contention, coherency = 0.05, 0.02
    peak = sqrt((1 - contention) / coherency)
    assert abs(best_count(fitted(SCALABILITY, (contention, coherency), noise=0.01)) - peak) <= 1
    found = fit(SCALABILITY, made(lambda count: AMDAHL.speed_up(count, 0.1), COUNTS, noise=0.02))
    assert isinstance(found, Fit)
    assert best_count(found) == inf
    found = fitted(SCALABILITY, (0.05, 0.03), noise=0.3)
    assert found.error > 0.15
    assert "Rough estimate: the fit error is" in in_words(found, 10, "observers", "observer")
    errors = [fitted(AMDAHL, (0.1,), noise=0.03, number=number).error for number in range(40)]
    assert sum(errors) / len(errors) == pytest.approx(0.03, rel=0.15)


TIMES = "times the work per second of 1 trainer"


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        ({1: 1.0, 2: 2.0, 4: 3.0}, "4 trainers do 3 times the work per second of 1 trainer."),
        (
            {1: 1.0, 2: 1.94, 4: 1.95},
            "No gain beyond 2 trainers (1.9 times the work per second of 1 trainer); 4 do 1.9 times.",
        ),
        (
            {1: 1.0, 2: 2.5, 4: 1.5},
            "Fastest at 2 trainers (2.5 times the work per second of 1 trainer); 4 do 1.5 times.",
        ),
        (
            {1: 1.0, 2: 2.4, 4: 2.5, 8: 1.5},
            "Fastest at 4 trainers (2.5 times the work per second of 1 trainer), 2 within 5 % of it; 8 do 1.5 times.",
        ),
        ({1: 1.0, 2: 1.02, 4: 0.7}, "No clear speed-up: 4 trainers do 0.7 times the work per second of 1 trainer."),
        ({1: 1.0, 2: 1.02, 4: 1.01}, "No clear difference in work per second from 1 to 4 trainers: all within 5 %."),
        ({1: 1.0, 2: 2.5, 4: 1.04}, f"Fastest at 2 trainers (2.5 {TIMES}); 4 trainers: about as fast as 1 trainer."),
        ({1: 1.0, 2: 0.7, 4: 1.04}, "No clear speed-up: 4 trainers are about as fast as 1 trainer."),
        ({2: 1.0, 4: 2.0}, ""),
        ({1: 1.0}, ""),
    ],
)
def test_the_verdict_of_the_measured_sizes_needs_no_law(rates: dict[int, float], sentence: str) -> None:
    found = sizes(of_time([(count, WORK / rate) for count, rate in rates.items()]))
    assert speedup.in_words(found, "trainers", "trainer") == sentence
    assert speedup.is_flat(found) == (sentence[:2] in ("No", "") and "beyond" not in sentence)


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (
            {1: (10.7, 8.99), 2: (6.88, 15.6), 4: (6.78, 17.5)},
            "No clear difference in work per second from 1 to 4 trainers: the range of each speed-up includes 1.",
        ),
        (
            {1: (10.0, 10.0), 2: (5.0, 5.0), 4: (6.0, 20.0)},
            f"Fastest at 2 trainers (2 {TIMES}); 4 trainers: no clear difference from 1 trainer.",
        ),
        (
            {1: (10.0, 10.0), 2: (20.0, 20.0), 4: (6.0, 20.0)},
            "No clear speed-up: 4 trainers show no clear difference from 1 trainer.",
        ),
        (
            {1: (10.0, 10.0), 2: (4.0, 5.0), 4: (4.5, 7.0)},
            f"2 trainers do 2.2 {TIMES}, without a clear difference from 4 (1.8 times).",
        ),
        (
            {1: (10.0, 10.1, 9.9), 2: (5.0, 9.0, 14.0)},
            "No clear difference in work per second from 1 to 2 trainers: the interval of the speed-up includes 1.",
        ),
    ],
)
def test_a_speed_up_whose_interval_or_range_includes_1_is_no_clear_difference(
    times: Mapping[int, tuple[float, ...]], sentence: str
) -> None:
    assert speedup.in_words(sizes(of_seeds(times)), "trainers", "trainer") == sentence


def of_seeds(times: Mapping[int, tuple[float, ...]]) -> list[TimedRun]:
    """Return runs of equal work with these times by count, one for each seed."""
    return [
        TimedRun(10 * count + seed, (), count, seed, time_s, WORK, "")
        for count, own in times.items()
        for seed, time_s in enumerate(own)
    ]


def test_times_and_speed_up_that_rank_sizes_differently_are_explained() -> None:
    found = sizes(of_seeds({1: (10.7, 8.99), 2: (6.88, 15.6), 4: (6.78, 17.5)}))
    assert speedup.opposite_in_words(found, "trainers", "trainer").startswith(
        "Mean times and speed-up rank 2, 4 trainers differently from 1 trainer: speed-up counts work per second"
    )
    assert speedup.opposite_in_words(sizes(of_seeds({1: (10.0, 10.0), 2: (5.0, 6.0)})), "trainers", "trainer") == ""


@pytest.mark.parametrize(
    ("parameters", "noise", "sentence"),
    [
        (
            (0.05, 0.03),
            0.005,
            "Fastest at 6 observers (2.8 times as fast as 1 observer); slower beyond.",
        ),
        (
            (0.02, 0.004),
            0.002,
            "Still speeding up at 10 observers; the fit predicts a peak near 16.",
        ),
        ((0.02, 0.0004), 0.0002, "No slow-down up to 10 observers: 8.2 times as fast as 1 observer."),
        ((0.1, 0.0), 0.02, "No slow-down up to 10 observers: 5.3 times as fast as 1 observer."),
        (
            (1.0, 0.004),
            0.02,
            ("More observers don't pay off: 10 are 0.97 times as fast as 1 observer, and the fit shows no peak."),
        ),
        ((0.5, 0.8), 0.005, "Slower beyond 1 observer."),
    ],
)
def test_the_sentence_says_what_the_fit_says(parameters: tuple[float, ...], noise: float, sentence: str) -> None:
    assert in_words(fitted(SCALABILITY, parameters, noise=noise), 10, "observers", "observer") == sentence


def test_a_law_that_the_runs_do_not_follow_is_no_fit() -> None:
    found = fit(AMDAHL, made(lambda count: AMDAHL.speed_up(count, 0.1) * (4.0 if count % 2 else 0.25), COUNTS))
    assert isinstance(found, str) and re.search(r"^No fit: the runs differ from this law by \d+%\.$", found), found


@pytest.mark.parametrize("law", LAWS)
def test_a_law_needs_one_run_more_than_it_has_numbers(law: Law) -> None:
    enough = len(law.parameters) + 2
    timings = made(
        lambda count: law.speed_up(count, *(0.1, 0.01)[: enough - 2]), range(1, enough + 1), seeds=1, noise=0.002
    )
    assert isinstance(fit(law, timings), Fit)
    assert fit(law, timings[:-1]) == (
        f"At least {enough} runs are needed for this fit; got {enough - 1}. Add seeds or sizes."
    )


BOUNDED = [
    (SCALABILITY, lambda n: AMDAHL.speed_up(n, 0.02)),
    (SCALABILITY, lambda n: 0.9),
    (AMDAHL, lambda n: float(n)),
    (AMDAHL, lambda n: 1.0),
    (GUSTAFSON, lambda n: float(n)),
    (GUSTAFSON, lambda n: 1.0),
]


@pytest.mark.parametrize(("law", "speed_up"), BOUNDED)
def test_parameters_and_their_intervals_stay_within_what_is_possible(
    law: Law, speed_up: Callable[[float], float]
) -> None:
    fitted_ones = 0
    for number in range(25):
        found = fit(law, made(speed_up, (1, 2, 4), seeds=2, noise=0.05, number=number))
        if isinstance(found, str):
            continue
        fitted_ones += 1
        for each, (least, most) in zip(found.parameters, law.bounds, strict=True):
            assert least <= each.low <= each.value <= each.high <= most
        assert all(found.speed_up(count) > 0 for count in (1, 2, 3, 4))
    assert fitted_ones > 5


def test_shares_stay_between_0_and_1_and_what_can_be_anything_is_not_stated() -> None:
    timings = made(lambda count: 1 / count, (1, 2, 4), seeds=2, noise=0.02)
    for law, share in ((AMDAHL, "serial share"), (GUSTAFSON, "serial share"), (SCALABILITY, "contention")):
        found = fit(
            law, timings if law is not SCALABILITY else made(lambda count: 1 / (1.2 - 0.2 / count), COUNTS, noise=0.02)
        )
        assert isinstance(found, str)
        assert found == f"{share.capitalize()} would be above 1: the runs slow down more than this law allows."
    found = fit(AMDAHL, made(lambda count: count**1.4, COUNTS, noise=0.01))
    assert isinstance(found, str)
    assert "Serial share would be below 0" in found
    found = fit(AMDAHL, made(lambda count: AMDAHL.speed_up(count, 0.5), (1, 2, 3), seeds=2, noise=0.15, number=3))
    assert isinstance(found, str)
    assert (
        "of the serial share is too wide (0 to 1, more than half of the possible range)" in found
        and "Add seeds or sizes." in found
    )
    found = fit(SCALABILITY, made(lambda count: 1.0, (1, 2), seeds=4, noise=0.01))
    assert found == "These sizes can't identify the parameters. Add sizes."
