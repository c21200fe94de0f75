"""Where time went: bars by count and rank, shares, and the count from which a rank costs what it saves; and time to a
target.
"""

from dataclasses import replace

import pytest

from engine.analysis.scaling.scaling_data import PhaseBar, TimedRun, bars, break_even, kind_of, steps
from engine.analysis.scaling.targets import choices, split_in_words, to_target, usual_target
from tests.analysis.test_speedup import run
from tests.analysis.timings import WORK, made, of_time

Phases = dict[int, dict[str, dict[str, float]]]


def spent(counts: dict[int, tuple[float, float]]) -> tuple[list[TimedRun], Phases]:
    """Return a run for each count whose trainers each spend so long on work and on communication."""
    timings = of_time([(count, sum(each)) for count, each in counts.items()])
    phases: Phases = {}
    for timing in timings:
        work, talk = counts[timing.count]
        phases[timing.run_id] = {
            f"trainer{number + 1}": {"compute": work, "communicate": talk} for number in range(timing.count)
        }
        phases[timing.run_id]["ps"] = {"wait": work, "serve": 3.0}
    return timings, phases


def test_bars_are_means_of_ranks_and_shares_of_the_driving_threads_time() -> None:
    timings, phases = spent({1: (8.0, 0.0), 2: (4.0, 1.0)})
    phases[timings[1].run_id]["trainer2"]["compute"] = 6.0
    found = {(bar.count, bar.rank): bar for bar in bars(timings, phases, each_rank=False)}
    assert list(found) == [(1, "trainer"), (1, "ps"), (2, "trainer"), (2, "ps")]
    assert found[2, "trainer"].seconds == {"compute": 5.0, "communicate": 1.0}
    assert [bar.rank for bar in bars(timings, phases, each_rank=True)] == [
        "trainer1",
        "ps",
        "trainer1",
        "trainer2",
        "ps",
    ]
    assert kind_of("stage12") == "stage" and kind_of("agent") == "agent"
    bar = PhaseBar((), 2, "ps", {"communicate": 1.0, "wait": 3.0, "serve": 9.0})
    assert (bar.whole_s, bar.share("communicate"), bar.share("wait", "lock")) == (4.0, 0.25, 0.75)
    assert PhaseBar((), 2, "ps", {}).share("wait") == 0.0


def test_break_even_lies_where_a_rank_more_costs_what_it_saves() -> None:
    timings, phases = spent({1: (12.0, 0.0), 2: (6.0, 1.0), 4: (3.0, 2.0), 8: (1.5, 5.5)})
    found = steps(timings, phases)
    assert [(step.first, step.second, step.saved_s, step.cost_s) for step in found] == [
        (1, 2, 6.0, 1.0),
        (2, 4, 3.0, 1.0),
        (4, 8, 1.5, 3.5),
    ]
    assert break_even(found) == pytest.approx(3 + 3 * 1.0 / 1.5), "a gain of 1 s at 3, of -0.5 s at 6"
    timings = of_time([(1, 10.0), (2, 10.0)], work=lambda count: WORK * count)
    phases: Phases = {
        timing.run_id: {f"trainer{number}": {"compute": 10.0} for number in range(timing.count)} for timing in timings
    }
    (step,) = steps(timings, phases)
    assert (step.saved_s, step.cost_s) == (5.0, 0.0)
    assert break_even(steps(*spent({1: (12.0, 0.0), 2: (6.0, 0.1), 4: (3.0, 0.2)}))) is None
    assert break_even(steps(*spent({1: (12.0, 0.0), 2: (11.0, 4.0), 4: (10.0, 9.0)}))) == 1.0
    assert break_even([]) is None
    assert steps(of_time([(1, 10.0), (2, 5.0)]), {}) == []


def test_time_to_a_target_is_steps_times_seconds_never_below_0() -> None:
    timings = made(lambda count: count, (1, 2), seeds=2)
    one, two = ([timing.run_id for timing in timings if timing.count == count] for count in (1, 2))
    found = to_target(timings, {one[0]: (100, 20.0), one[1]: (120, 30.0), two[0]: (150, 15.0)})
    assert [(each.count, each.runs, each.reached) for each in found] == [(1, 2, 2), (2, 2, 1)]
    assert found[0].updates and found[0].update_s and found[0].time_s
    assert (found[0].updates.mean, found[0].update_s.mean, found[0].time_s.mean) == pytest.approx(
        (110, (0.2 + 0.25) / 2, 25.0)
    )
    assert to_target(timings, {})[0].updates is None
    timings = made(lambda count: count, (1,), seeds=3)
    (found,) = to_target(
        timings, {timings[0].run_id: (100, 20.0), timings[1].run_id: (900, 300.0), timings[2].run_id: (500, 160.0)}
    )
    assert found.updates and found.update_s and found.time_s
    assert (found.updates.low, found.time_s.low) == (0, 0) and found.update_s.low > 0
    assert found.time_s.high > found.time_s.mean == 160.0
    timings = of_time([(1, 40.0), (1, 40.0), (4, 30.0), (4, 30.0)])
    one, other, four, _ = (timing.run_id for timing in timings)
    found = to_target(timings, {one: (100.0, 20.0), other: (100.0, 20.0), four: (250.0, 10.0)})
    assert split_in_words(found, "trainers", "update") == (
        "4 trainers take 0.5 times the time to target of 1: 2.5 times the updates, 0.2 times the time per update. "
        "Only runs that reached it count: 4 (1 of 2)."
    )
    assert split_in_words(found[:1], "trainers", "update") == ""


@pytest.mark.parametrize(
    ("values", "name", "wanted"),
    [
        ((98.27, 98.9), "test/accuracy", 98.2),
        ((98.2, 98.9), "test/accuracy", 98.2),
        ((98.19999999999999, 98.9), "test/accuracy", 98.1),
        ((-1400.3, -200.0), "test/episodic_return", -1410.0),
        ((0.0008602, 0.0002), "test/loss", 0.000861),
        ((0.00086, 0.0002), "test/loss", 0.00086),
        ((0.01234, 0.0111), "test/loss", 0.0124),
        ((0.0, 0.0), "test/loss", 0.0),
        ((99.96, 99.99), "test/loss", 100.0),
    ],
)
def test_the_target_offered_is_one_that_every_run_reached(values: tuple[float, ...], name: str, wanted: float) -> None:
    runs = [run(number, best={name: value}, last={name: value}) for number, value in enumerate(values)]
    assert usual_target(runs, name) == wanted
    assert choices(runs) == [name]


def test_no_target_is_offered_that_a_run_reaches_without_learning() -> None:
    name = "test/accuracy"
    lost, learned = (
        replace(run(number, best={name: value}, last={name: value}), config={"dataset": "digits"})
        for number, value in enumerate((12.5, 93.75))
    )
    assert usual_target([lost, learned], name) == 93.7
    assert usual_target([lost], name) is None


def test_a_loss_is_reached_from_above() -> None:
    runs = [
        run(1, best={"test/loss": 0.0851}, last={"test/loss": 0.09}),
        run(2, best={"test/loss": 0.07}, last={"test/loss": 0.07}),
    ]
    found = usual_target(runs, "test/loss")
    assert found is not None and found >= 0.0851
