"""The least cost at the same quality: the winner, its factor and its difference, or why neither can be said."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from engine.analysis.scaling.scaling_data import NoAnswer
from engine.analysis.scaling.trade_off import weigh
from engine.experiment import ReadySweep, TradeOff
from engine.metrics import METRICS
from engine.registry import experiments
from engine.store.records import RunRow

EVERY = ("average_every",)
ASKED = TradeOff("perf/exchanged.last", "test/accuracy.last", 0.5, baseline={"average_every": 1})
LOSS = TradeOff("perf/exchanged.last", "test/loss.last", 2, is_relative=True, baseline={"average_every": 1})
READY = [ready for one in experiments() for ready in one.ready_sweeps if isinstance(ready.answer, TradeOff)]


def run(every: int, seed: int, **last: float) -> RunRow:
    values = {name.replace("_", "/", 1): value for name, value in last.items()}
    config = {"average_every": every, "seed": seed}
    return RunRow(
        *(100 * every + seed, "sync_sgd", None, "", "Ada", "finished", "", "2026-11-28", None, None, 1.0, None),
        *(1.0, 1.0, 1, 0.0, None, config, values),
    )


def runs(of: Mapping[int, tuple[float, Sequence[float]]], quality: str = "test_accuracy") -> list[RunRow]:
    """Return runs by steps between averages: the MB exchanged, and the quality of each seed."""
    return [
        run(every, seed, perf_exchanged=cost, **{quality: value})
        for every, (cost, values) in of.items()
        for seed, value in enumerate(values)
    ]


def test_the_cheapest_within_the_tolerance_is_named_with_its_factor_and_its_difference_seed_by_seed() -> None:
    of = {1: (40.0, [95.0, 96.0, 97.0]), 10: (4.0, [95.1, 96.0, 97.1]), 50: (0.8, [93.0, 94.1, 95.0])}
    assert weigh(ASKED, EVERY, runs(of)) == (
        "Average every 10: data exchanged 4 MB instead of 40 MB of average every 1 (0.1 times), test accuracy +0.07 "
        "points (95 % interval -0.08 to +0.21, 3 seeds), at most 0.5 points worse. Cheaper, but worse: average every "
        "50: data exchanged 0.8 MB instead of 40 MB of average every 1 (0.02 times), test accuracy -1.97 points (95 % "
        "interval -2.11 to -1.82, 3 seeds)."
    )


def test_the_direction_of_the_quality_and_a_tolerance_in_percent_count() -> None:
    of = {1: (40.0, [2.0, 2.1, 2.2]), 10: (4.0, [2.02, 2.121, 2.22]), 50: (0.8, [2.12, 2.226, 2.332])}
    said = weigh(LOSS, EVERY, runs(of, "test_loss"))
    assert said.startswith("Average every 10: data exchanged 4 MB instead of 40 MB of average every 1 (0.1 times), ")
    assert (
        "test loss +0.97 % (95 % interval " in said
        and "at most 2 % worse. Cheaper, but worse: average every 50" in said
        and "+6.000 % (the same, 3 seeds)" in said
    )
    lower = {1: (40.0, [2.0, 2.1, 2.2]), 50: (0.8, [1.0, 1.05, 1.1])}
    assert weigh(LOSS, EVERY, runs(lower, "test_loss")).startswith("Average every 50: ")


@pytest.mark.parametrize(
    ("of_50", "said"),
    [
        (
            [94.0, 96.5, 97.5],
            "test accuracy +0.0 points (95 % interval -2.2 to +2.2, 3 seeds). A verdict needs more seeds.",
        ),
        (
            [95.0, 96.0],
            "test accuracy +0.000 points (the same, 2 seeds). A verdict on a tolerance of 0.5 points needs 3 seeds of",
        ),
        ([93.0], "test accuracy -2.000 points. A verdict on a tolerance of 0.5 points needs 3 seeds of each value."),
    ],
)
def test_a_difference_that_few_seeds_do_not_tell_gets_numbers_without_a_verdict(
    of_50: Sequence[float], said: str
) -> None:
    found = weigh(ASKED, EVERY, runs({1: (40.0, [95.0, 96.0, 97.0]), 50: (0.8, of_50)}))
    is_short = len(of_50) < 3
    less = (
        "Less data exchanged: average every 50: data exchanged 0.8 MB instead of 40 MB of average every 1 (0.02 times"
    )
    assert found.startswith(
        less if is_short else "No verdict on a tolerance of 0.5 points. Cheaper, and not clear whether "
    )
    assert said in found and found.count("0.8 MB") == 1


def test_a_cost_in_time_is_not_known_from_one_run_of_each_value() -> None:
    asked = TradeOff("perf/execution_time_s.last", "test/accuracy.last", 0.5, baseline={"average_every": 1})
    some = [replace(run(every, 0, test_accuracy=95.0), execution_time_s=cost) for every, cost in ((1, 40.0), (50, 0.8))]
    assert weigh(asked, EVERY, some).startswith("No verdict on a tolerance of 0.5 points. Cheaper, and not clear")


def test_a_value_of_which_seeds_are_missing_does_not_win() -> None:
    of = {1: (40.0, [95.0, 96.0, 97.0, 98.0]), 10: (4.0, [95.0, 96.0, 97.0])}  # the fourth one diverged
    assert weigh(ASKED, EVERY, runs(of)).startswith("No verdict ")


def test_the_baseline_is_named_where_nothing_cheaper_is_as_good_or_nothing_is_cheaper() -> None:
    good = [95.0, 96.0, 97.0]
    worse = weigh(ASKED, EVERY, runs({1: (40.0, good), 50: (0.8, [90.0, 91.1, 92.0])}))
    assert worse.startswith(
        "Average every 1 (data exchanged 40 MB): each cheaper value is more than 0.5 points worse. Cheaper, but worse: "
    )
    assert weigh(ASKED, EVERY, runs({1: (40.0, good), 50: (41.0, good)})) == (
        "Average every 1: no other value has less data exchanged than its 40 MB."
    )


def test_without_a_declared_baseline_it_is_the_best_quality() -> None:
    of = {1: (40.0, [95.0, 96.0, 97.0]), 10: (4.0, [94.9, 96.0, 96.9]), 50: (0.8, [90.0, 91.1, 92.0])}
    found = weigh(TradeOff(ASKED.cost, ASKED.quality, 0.5), EVERY, runs(of))
    assert found.startswith("Average every 10: data exchanged 4 MB instead of 40 MB of average every 1 (0.1 times)")


@pytest.mark.parametrize(
    ("some", "why"),
    [
        ([run(10, 0, perf_exchanged=4.0, test_accuracy=95.0)], "no run of the baseline, average every 1, is complete"),
        (
            [run(1, 0, test_accuracy=95.0), run(10, 0, perf_exchanged=4.0, test_accuracy=95.0)],
            "no complete run of the baseline has recorded both data exchanged and test accuracy",
        ),
    ],
)
def test_what_is_missing_is_said(some: Sequence[RunRow], why: str) -> None:
    with pytest.raises(NoAnswer, match=re.escape(why)):
        weigh(ASKED, EVERY, some)


@pytest.mark.parametrize("ready", READY, ids=lambda ready: ready.question)
def test_what_ready_made_sweeps_weigh_are_metrics_of_ours_with_a_direction(ready: ReadySweep) -> None:
    assert isinstance(ready.answer, TradeOff)
    cost, quality = (METRICS[name.rpartition(".")[0]] for name in (ready.answer.cost, ready.answer.quality))
    assert cost.better != "max" and quality.better
    assert set(ready.answer.baseline) <= set(ready.over)
    with pytest.raises(ValueError, match=re.escape("such as test/loss.last; got test/loss.")):
        TradeOff(ready.answer.cost, "test/loss", 1)
