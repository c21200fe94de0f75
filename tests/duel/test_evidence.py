"""What runs in a real store make of a duel: which count, what is cut, when it goes on and when it can't."""

import pytest

from engine.duel.evidence import Evidence
from engine.duel.launching import cancel_duel, launch_duel, retry_missing
from engine.duel.outcome import outcome
from engine.duel.tuned import tuned
from engine.errors import ConfigError
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from tests.app import duel_labs as labs


def test_the_first_stage_leads_to_the_second_once(home: Home) -> None:
    duel_id = labs.launched(home)
    assert not labs.continued(home, duel_id), "runs that tune are left"
    found = labs.drive(home, duel_id, "tuning")
    assert tuned(found).rates == (0.1, 0.03)
    assert [labs.continued(home, duel_id) for _ in range(3)] == [True, False, False]
    judged = labs.gathered(home, duel_id).of("judging")
    assert [(each.strategy, each.rate, each.seed) for each in judged] == [*((0, 0.1, 100 * n) for n in range(5)), *((1, 0.03, 100 * n) for n in range(5))]
    queue = sorted((each.run.id, each.strategy) for each in judged if each.run)
    assert [place for _, place in queue] == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1], "in turns"
    with Reader.open(home) as reader:
        assert {run.exclusive for run in reader.queue()} == {True}
        assert {reader.run(run_id).terms.max_retries for run_id, _ in queue} == {2}, "on the terms of the runs that tuned"


def test_values_are_cut_at_the_budget(home: Home) -> None:
    found = labs.whole(home, "hogwild", "parameter_server", amount=4)
    first = found.of("judging", 0)[0]
    assert [test.spent for test in first.tests] == [2, 4], "1.2 budgets end before a third"
    own = found.of("judging", 1)[0]
    assert own.at and (own.at.spent, own.value) == (4, labs.usual("Parameter server", 0.03, 0, 1.0))
    told = outcome(found)
    assert told.verdict.startswith("Hogwild! is ahead of Parameter server by 2.9")
    assert told.target == 89.0 and [len(each.spent) for each in told.reached] == [5, 5]
    assert any("Hogwild! won with the largest learning rate of the grid (0.1)" in each for each in told.cautions)


def test_a_run_that_was_ended_past_a_budget_of_seconds_is_whole_and_one_before_is_not(home: Home) -> None:
    duel_id = labs.launched(home, "hogwild", "parameter_server", kind="seconds", amount=8.0)
    found = labs.gathered(home, duel_id)
    for place, each in enumerate(found.of("tuning")):
        labs.end(home, found, each, status="cancelled", beyond=0.5 if place == 0 else 1.2)
    found = labs.gathered(home, duel_id)
    assert not any(each.complete for each in found.of("tuning")), "all broke off at half of it"
    assert "6 of 6 runs that tune said nothing (cancelled)" in tuned(found).obstacles[0]
    with Store.open(home) as store:
        for each in found.of("tuning"):
            assert each.run
            store.write(each.run.id, [RankBatch(0, [Point("train/loss", 99, 0.1, 8.2, 9.0)])])
    found = labs.gathered(home, duel_id)
    assert all(each.complete for each in found.of("tuning")) and tuned(found).rates == (0.1, 0.03)


def test_a_rate_that_failed_is_out_and_a_strategy_without_one_stops_the_duel(home: Home) -> None:
    duel_id = labs.launched(home)
    own = [each.run.id for each in labs.gathered(home, duel_id).of("tuning", 0) if each.run]
    found = labs.drive(home, duel_id, "tuning", ends={own[2]: "failed"})
    assert tuned(found).rates == (0.03, 0.03)
    assert "Hogwild! failed at learning rate 0.1 while tuning, which is out of the running." in outcome(found).cautions
    other = labs.launched(home)
    ids = [each.run.id for each in labs.gathered(home, other).of("tuning", 0) if each.run]
    found = labs.drive(home, other, "tuning", ends=dict.fromkeys(ids, "failed"))
    assert not labs.continued(home, other)
    (said,) = tuned(found).obstacles
    assert said == f"No learning rate of Hogwild! is in the running: 3 of 3 runs failed (run {ids[0]}: It failed.). Launch another duel with smaller rates."


def test_a_rate_that_was_not_tested_in_time_is_out_and_said_to_be(home: Home) -> None:
    duel_id = labs.launched(home, "hogwild", "reference", amount=1.5)
    found = labs.drive(home, duel_id, "tuning", lambda name, rate, seed, share: 90 + rate, beyond=2.0)
    assert [each.at is None for each in found.of("tuning")] == [True] * 3 + [False] * 3, "Hogwild! is tested every 2 passes"
    assert not labs.continued(home, duel_id)
    told = outcome(found)
    assert "Hogwild! was not tested within the budget at learning rate 0.01, 0.03, 0.1 while tuning" in " ".join(told.cautions)
    assert told.tuned.obstacles[0].endswith("no run was tested within the budget. Launch another duel with a larger budget.")


def test_a_lost_run_halts_the_duel_until_it_was_tried_again(home: Home) -> None:
    duel_id = labs.launched(home)
    ids = [each.run.id for each in labs.gathered(home, duel_id).of("tuning") if each.run]
    found = labs.drive(home, duel_id, "tuning", ends={ids[1]: "lost", ids[4]: "cancelled"})
    assert not labs.continued(home, duel_id)
    assert "2 of 6 runs that tune said nothing (cancelled, lost)" in tuned(found).obstacles[0]
    assert len(retry_missing(home, duel_id, owner="Ada")) == 2
    labs.drive(home, duel_id, "tuning")
    assert labs.continued(home, duel_id)


def test_deleted_runs_are_gone_and_a_duel_of_none_is_told(home: Home) -> None:
    duel_id = labs.launched(home)
    with Store.open(home) as store, store.change() as connection:
        connection.execute("DELETE FROM runs")
        connection.execute("DELETE FROM sweeps")
    found = labs.gathered(home, duel_id)
    assert [each.run for each in found.of("tuning")] == [None] * 6
    assert not labs.continued(home, duel_id)
    assert outcome(found).tuned.obstacles == ("All runs that tune were deleted, so no learning rate is chosen. Launch the duel again.",)


def test_a_cancelled_duel_goes_no_further(home: Home) -> None:
    duel_id = labs.launched(home)
    assert len(cancel_duel(home, duel_id, owner="Grace")) == 6
    assert not labs.continued(home, duel_id)
    assert cancel_duel(home, duel_id, owner="Grace") == []


def test_a_judged_run_that_failed_never_speaks_for_its_strategy(home: Home) -> None:
    told = outcome(_with_a_failed_seed(home, strategy=1))
    assert [len(each.by_seed) for each in told.found] == [5]
    assert told.verdict.startswith("Hogwild! is ahead of Parameter server"), "the other one may still be ahead"
    assert any("Parameter server failed with 1 of 6 seeds" in each for each in told.cautions)
    flattered = outcome(_with_a_failed_seed(home, strategy=0))
    assert [each.outcome for each in flattered.found] == ["failed runs"]
    assert "Hogwild! is ahead" not in flattered.verdict
    assert "Not decided: Hogwild! and Parameter server; runs of one that would be ahead or level failed." in flattered.verdict
    assert [(each.name, len(each.spent), each.runs) for each in flattered.reached] == [("Hogwild!", 5, 6), ("Parameter server", 6, 6)]


def _with_a_failed_seed(home: Home, strategy: int) -> Evidence:
    """Return a duel that Hogwild! would win, all done, in which a strategy failed with one of 6 judged seeds."""
    duel_id = labs.launched(home, seeds=6)
    labs.drive(home, duel_id, "tuning")
    labs.continued(home, duel_id)
    one = labs.gathered(home, duel_id).of("judging", strategy)[2]
    assert one.run
    return labs.drive(home, duel_id, "judging", ends={one.run.id: "failed"})


def test_tests_that_stand_far_before_the_budget_are_told(home: Home) -> None:
    told = outcome(labs.whole(home, "hogwild", "parameter_server", amount=3))
    assert any("Hogwild! is judged by tests that stand at 2 passes of 3 passes" in each for each in told.cautions)


def test_a_launch_that_breaks_a_rule_queues_nothing(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"Choose passes, updates or seconds\."):
        launch_duel(home, labs.duel_of("hogwild", "sync_sgd", kind="bytes"), owner="Ada")
    with Reader.open(home) as reader:
        assert reader.duels() == [] and reader.count() == 0
