"""Staleness: the mean that accounts demand, a price found as often as its interval promises, and what can't be told
said.
"""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engine.analysis.scaling.staleness import (
    NoPrice,
    Price,
    Stale,
    cautions,
    expected,
    mean_in_words,
    price,
    price_in_words,
    rounded,
    sizes,
    stale_runs,
)
from engine.analysis.statistics.groups import mean, percentile, together
from engine.analysis.update_clock import growing, updates_at
from engine.registry import experiments
from engine.store.records import RunRow
from tests import scipy_stats as stats


def run(number: int, trainers: int, result: float | None = None, **config: object) -> RunRow:
    settings = {"trainers": trainers, "seed": number} | config
    last = {} if result is None else {"test/accuracy": result}
    times = (None, None, None)
    return RunRow(
        number,
        "async_sgd",
        None,
        "",
        "Ada",
        "finished",
        "",
        "2026-11-21",
        *times[:2],
        1.0,
        None,
        1.0,
        1.0,
        1,
        0.0,
        None,
        settings,
        last,
    )


def served(speeds: list[float], batch: int, pushes: int, number: int = 0) -> list[Counter[int]]:
    """Simulate a server that updates once for `batch` gradients of trainers who take times round 1 / speed for each;
    return their staleness.
    """
    draw = random.Random(number)
    ready = [(draw.expovariate(speed), trainer) for trainer, speed in enumerate(speeds)]
    fetched, version, waiting = [0] * len(speeds), 0, []
    found = [Counter[int]() for _ in speeds]
    for _ in range(pushes):
        now, trainer = min(ready)
        ready.remove((now, trainer))
        found[trainer][version - fetched[trainer]] += 1
        waiting.append(trainer)
        if len(waiting) == batch:
            version += 1
            for each in waiting:
                fetched[each] = version
                ready.append((now + draw.expovariate(speeds[each]), each))
            waiting = []
    return found


@pytest.mark.parametrize(
    ("speeds", "batch"),
    [
        ([1.0] * 4, 1),
        ([1.0, 1.0, 1.0, 9.0], 1),
        ([1.0, 5.0], 1),
        ([1.0] * 6, 2),
        ([1.0, 1.0, 2.0, 4.0, 8.0], 3),
        ([1.0] * 3, 3),
    ],
)
def test_the_mean_is_n_over_k_less_1_whoever_is_fast_or_slow(speeds: list[float], batch: int) -> None:
    every = together(served(speeds, batch, 20_000))
    wanted = expected({"trainers": len(speeds), "batch_update_size": batch})
    assert wanted == len(speeds) / batch - 1
    assert mean(every) == pytest.approx(wanted, abs=0.01)
    assert sum(every.values()) == 20_000


def test_unlike_settings_experiments_rules_and_missing_staleness_are_said() -> None:
    rows = [run(1, 2, 98.0), run(2, 4, 97.0), run(3, 8, 96.0)]
    found = stale_runs(
        rows, {1: {"trainer1": {0: 5, 2: 5}, "trainer2": {1: 10}}, 2: {"trainer1": {3: 4}}}, "test/accuracy"
    )
    assert [(each.run_id, each.expected, each.mean, each.result) for each in found] == [
        (1, 1.0, 1.0, 98.0),
        (2, 3.0, 3.0, 97.0),
    ]
    assert found[0].counts == {0: 5, 1: 10, 2: 5}
    said = " ".join(cautions(rows, found, ()))
    assert "No staleness recorded: run 3." in said and "every size is one run" in said
    assert "all runs have the same size" in " ".join(cautions(rows[:1], found[:1], ()))
    rows = [run(1, 2, 98.0, momentum=0.5), run(2, 4, 97.0, momentum=0.9)]
    found = [made(1, 2, 1.0, 98.0), made(2, 4, 3.0, 97.0)]
    assert "The runs also differ in momentum" in " ".join(cautions(rows, found, ()))
    assert "momentum" not in " ".join(cautions(rows, found, ("momentum",)))
    rows[1] = replace(rows[1], experiment="hogwild")
    assert "belong to 2 experiments (Asynchronous SGD, Hogwild!)" in " ".join(cautions(rows, found, ()))
    rows = [run(1, 2, 95.0), replace(run(2, 2, 95.0), seeding=1)]
    found = [made(each.id, 2, 1.0, 95.0) for each in rows]
    assert "different seeding rules (seeding 1: run 2; seeding 2: run 1)" in " ".join(cautions(rows, found, ()))
    assert "seeding" not in " ".join(cautions(rows[:1], found[:1], ()))


def made(number: int, trainers: int, staleness: float, result: float | None, line: tuple[object, ...] = ()) -> Stale:
    share = round(1000 * (staleness % 1))
    return Stale(
        number, line, trainers, trainers - 1.0, {int(staleness): 1000 - share, int(staleness) + 1: share}, result
    )


def test_sizes_and_the_price_are_scipys_with_their_intervals() -> None:
    one, four = sizes([made(1, 4, 2.9, 97.0), made(2, 4, 3.1, 96.0), made(4, 4, 3.0, 96.5), made(3, 1, 0.0, 98.5)])
    assert (one.trainers, one.runs, one.mean.mean, one.p99) == (1, 1, 0.0, 0)
    low, high = stats.t.interval(0.95, 2, loc=3.0, scale=stats.sem([2.9, 3.1, 3.0]))
    assert (four.mean.mean, four.mean.low, four.mean.high) == pytest.approx((3.0, low, high))
    assert four.result is not None and four.result.mean == 96.5
    points = [(0.0, 98.4), (0.1, 98.6), (1.0, 98.1), (1.1, 97.7), (3.0, 96.9), (2.9, 97.3), (7.2, 95.1)]
    found = price([made(place, 2, x, y) for place, (x, y) in enumerate(points)])
    assert isinstance(found, Price)
    fit = stats.linregress(*zip(*points, strict=True))
    half = stats.t.ppf(0.975, len(points) - 2) * fit.stderr
    assert (found.change.mean, found.change.low, found.change.high, found.at_none) == pytest.approx(
        (fit.slope, fit.slope - half, fit.slope + half, fit.intercept)
    )
    assert found.direction == -1
    said = (
        "Test accuracy is 0.47 points lower per update of staleness (95 % interval 0.39 to 0.55, 7 runs), by a line "
        "through all runs; the best and the worst value alone may still overlap."
    )
    alike = [made(place, 2, x, y) for place, (x, y) in enumerate(points)]
    same_work = [replace(run, counts={0: 100}) for run in alike]
    assert price_in_words(found, "test/accuracy", same_work) == said
    confounded = [replace(run, trainers=1 + place, counts={0: 50 + 50 * place}) for place, run in enumerate(alike)]
    assert price_in_words(found, "test/accuracy", confounded) == (
        f"{said} An association: the runs also differ in the number of trainers (1 to 7) and in the number of "
        "gradients (50 to 350), which may explain it."
    )


def test_a_price_that_is_not_there_is_claimed_in_five_of_a_hundred_cases() -> None:
    random_numbers = np.random.default_rng(7)
    claims = 0
    for _ in range(400):
        found = price([made(place, 2, place % 4, 98 + random_numbers.normal()) for place in range(12)])
        assert isinstance(found, Price)
        claims += found.direction != 0
    assert 0.02 < claims / 400 < 0.08
    nothing = price([made(place, 2, place % 4, 98.0 + (place % 3) / 10) for place in range(12)])
    assert isinstance(nothing, Price)
    assert "No significant association of test accuracy with staleness in 12 runs" in price_in_words(
        nothing, "test/accuracy", []
    )


def test_words_say_means_prices_and_too_few_runs() -> None:
    assert price([made(1, 2, 1.0, 98.0), made(2, 4, 3.0, None)]) == NoPrice(
        "At least 3 runs with a result are needed; got 1.", "Add seeds or sizes."
    )
    assert price([made(place, 2, 0.9 + place / 10, 98.0) for place in range(3)]) == NoPrice(
        "The mean staleness of runs differs by at most 0.20 updates.", "Add runs with other numbers of trainers."
    )
    paired = [replace(made(place, 2, float(place // 3), 98.0), block=place // 3) for place in range(6)]
    assert "of runs of the same seed differs by at most 0.00 updates" in str(price(paired))
    assert "At least 4 runs with a result are needed for 2 seeds; got 3." in str(price(paired[1:4]))
    assert mean_in_words(4, 3.0, 2.94, []) == "With 4 trainers, mean staleness is 2.94 updates (at most N - 1 = 3)."
    assert mean_in_words(6, 2.0, 1.99, []) == "With 6 trainers, mean staleness is 1.99 updates (at most N / 2 - 1 = 2)."
    assert mean_in_words(1, 0.0, 0.0, []) == "With 1 trainer, mean staleness is 0.00 updates (at most N - 1 = 0)."
    assert expected({"observers": 4}) is None
    assert expected({"trainers": 1}) == 0
    assert percentile({0: 99, 7: 1}, 99) == 0


@pytest.mark.parametrize(
    ("experiment", "config", "why"),
    [
        ("async_sgd", {"staleness_bound": None}, "trainers end earlier than others."),
        (
            "async_sgd",
            {"staleness_bound": 4},
            "trainers end earlier than others and the staleness bound makes trainers wait.",
        ),
        ("parameter_server", {"late": "next_batch"}, "trainers end earlier than others."),
        ("parameter_server", {"late": "drop"}, "trainers end earlier than others and late gradients are dropped."),
        (
            "hogwild",
            {},
            "trainers end earlier than others and trainers hold weights only while they compute and write.",
        ),
    ],
)
def test_a_lower_mean_is_explained_by_what_the_runs_have(experiment: str, config: dict[str, object], why: str) -> None:
    said = mean_in_words(4, 3.0, 1.5, [replace(run(1, 4, **config), experiment=experiment)])
    assert said.endswith(f"(at most N - 1 = 3): lower, because {why}")


def test_a_price_is_that_within_seeds_where_they_repeat() -> None:
    """An incomplete seed counts where it has two runs; no effect is made of seeds that lie apart."""
    sizes_of = {0: (0.0, 1.0, 3.0), 1: (0.0, 1.0, 3.0), 2: (1.0, 3.0), 3: (3.0,)}
    hurt = [
        replace(made(0, 2, x, 98 - 5 * seed - 0.5 * x + 0.02 * (-1) ** int(x + seed)), block=seed)
        for seed, of_seed in sizes_of.items()
        for x in of_seed
    ]
    found, alone = price(hurt), price([replace(each, block=None) for each in hurt])
    assert isinstance(found, Price) and isinstance(alone, Price)
    assert (found.direction, alone.direction, found.change.mean) == (-1, 0, pytest.approx(-0.5, abs=0.05))
    assert "9 runs, compared seed by seed)" in price_in_words(found, "test/accuracy", hurt)
    random_numbers, claims = np.random.default_rng(5), 0
    for _ in range(400):
        nothing = price([replace(each, result=98 - 5 * each.block + random_numbers.normal()) for each in hurt])  # type: ignore[operator]
        assert isinstance(nothing, Price)
        claims += nothing.direction != 0
    assert 0.03 < claims / 400 < 0.07
    singles = price([replace(each, block=place) for place, each in enumerate(hurt)])
    assert singles == alone, "runs of one seed each are not paired"


def test_clocks_add_up_stand_still_and_go_on() -> None:
    assert all(each.update_clock for each in experiments())
    one = (np.array([1.0, 2.0]), np.array([10.0, 20.0]))
    other = (np.array([4.0]), np.array([4.0]))
    assert updates_at(np.array([0.0, 0.5, 1.5, 4.0, 9.0]), [one, other]).tolist() == [0.0, 5.5, 16.5, 24.0, 24.0]
    assert np.isinf(updates_at(np.array([1.0]), [])).all()
    assert np.isinf(updates_at(np.array([1.0]), [(np.empty(0), np.empty(0))])).all()
    assert growing(np.array([1.0, 4.0, 0.5, 2.0, 1.0])).tolist() == [1.0, 4.0, 4.5, 6.0, 7.0]
    assert growing(np.array([3.0])).tolist() == [3.0]
    assert growing(np.empty(0)).size == 0


def test_the_ends_of_an_interval_have_one_number_of_decimals() -> None:
    assert [rounded(value, 1.24) for value in (-1.0, -0.38, 0.24)] == ["-1.0", "-0.4", "+0.2"]
    assert [rounded(value, 12.4) for value in (-10.0, 2.4)] == ["-10", "+2"]
