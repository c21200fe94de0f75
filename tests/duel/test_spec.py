"""What makes a duel, what is refused with a sentence, and how its runs come to be."""

from dataclasses import replace
from typing import Any

import pytest

from engine.duel.evidence import DuelEvidence, tuned
from engine.duel.launch import (
    DuelLaunch,
    cancel_duel,
    config_of,
    facts,
    judging_cells,
    launch_duel,
    pace_of,
    retry_missing,
    tuning_cells,
    untimely,
)
from engine.duel.outcome import outcome
from engine.duel.spec import Budget, Duel, Strategy, contender, from_json, pace, read_shared, read_strategy, ready
from engine.errors import ConfigError
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from tests.app.test_disturbance import disturb
from tests.labs import duel as labs
from tests.labs.duel import duel_of

ALL = ("reference", "parameter_server", "async_sgd", "sync_sgd", "sync_gradients", "hogwild")


def sentence(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        duel_of("hogwild", "sync_sgd", **changes).checked()
    return str(error.value)


def test_a_duel_comes_back_as_it_was_and_tells_what_is_unlike() -> None:
    duel = duel_of(*ready(), kind="updates", amount=500, target=95.0, tie=0.5)
    assert from_json(duel.as_json()) == duel
    told = {each.name: each for each in facts(duel_of(*ALL))}
    assert (told["Parameter server"].processes, told["Parameter server"].samples) == (3, 64)
    assert (told["Hogwild!"].tested_every, told["Hogwild!"].momentum) == (2, "one per trainer")
    assert told["Synchronous SGD, gradients"].samples == 64 and told["Reference"].processes == 1
    assert untimely(duel_of("hogwild", "sync_sgd", amount=8)) == []
    (said,) = untimely(duel_of("hogwild", "sync_sgd", amount=9))
    assert "Hogwild! at 8 (every 2)." in said and said.endswith("Use 8 passes to test all at the budget's end.")


def test_what_breaks_a_rule_is_a_sentence() -> None:
    assert "must be above 0 passes; got 0" in sentence(amount=0)
    assert "must be ascending and unique; got 0.1, 0.03" in sentence(rates=(0.1, 0.03))
    assert "tuning_seeds must be from 1 to 50; got 0" in sentence(tuning_seeds=0)
    assert "at most 500 runs; got 920" in sentence(
        rates=tuple(n / 100 for n in range(1, 10)), tuning_seeds=50, seeds=10
    )
    assert "metric must be test/accuracy or test/loss; got 'train/loss'" in sentence(metric="train/loss")
    for strategies, said in (
        ([ready()["hogwild"]], "needs 2 to 6 strategies; got 1"),
        ([ready()["hogwild"], ready()["hogwild"]], "Strategy names must be unique; got 'Hogwild!' twice"),
        ([ready()["hogwild"], Strategy("Twin", "hogwild")], "'Twin' has the same experiment and settings"),
        ([ready()["hogwild"], Strategy("P", "pipeline")], "Unknown duel method 'pipeline'"),
        (
            [ready()["hogwild"], Strategy("S", "sync_sgd", {"rounds": 3})],
            "S: rounds can't be set per strategy: the budget sets the length.",
        ),
    ):
        with pytest.raises(ConfigError) as error:
            Duel(tuple(strategies), Budget("passes", 1)).checked()
        assert said in str(error.value)


def test_strategies_are_written_with_settings_and_names() -> None:
    assert read_strategy("hogwild") == ready()["hogwild"]
    assert read_strategy("async_sgd:staleness_bound=4") == Strategy(
        "Asynchronous SGD, staleness_bound=4", "async_sgd", {"staleness_bound": 4}
    )
    assert read_strategy("Locked=hogwild: lock=true; trainers=3") == Strategy(
        "Locked", "hogwild", {"lock": True, "trainers": 3}
    )
    for text, said in (
        ("hogwyld", "Did you mean 'hogwild'?"),
        ("hogwild:epochs=3", "epochs can't be set per strategy"),
        ("hogwild:lock=maybe", "lock must be true or false"),
        ("hogwild:lok=true", "Unknown setting 'lok'"),
    ):
        with pytest.raises(ConfigError) as error:
            read_strategy(text)
        assert said in str(error.value)
    with pytest.raises(ConfigError, match="Unknown shared setting 'epochs'"):
        read_shared({"epochs": 3})


def test_all_share_settings_seeds_and_a_length_that_reaches_the_budget() -> None:
    duel = duel_of(*ALL, amount=7)
    configs = {one.name: config_of(duel, one, 0.03, 100) for one in duel.strategies}
    for one, config in zip(duel.strategies, configs.values(), strict=True):
        found, values = pace(one.experiment, config), config.model_dump()
        shared = {
            "learning_rate": 0.03,
            "seed": 100,
            "dataset": "digits",
            "batch_size": 32,
            "momentum": 0.5,
            "evaluate_every": 1,
        }
        assert {name: values[name] for name in shared} == shared
        assert values.get("schedule", "constant") == "constant" and values.get("checkpoint_every_s", 0) == 0
        length = values[contender(one.experiment).length] * found.passes
        assert 7 <= length < 7 + found.passes, "no longer than it must be"
    assert configs["Parameter server"].model_dump()["batch_update_size"] == 2, "of all trainers"
    assert config_of(duel, read_strategy("parameter_server:trainers=4"), 0.1, 0).model_dump()["batch_update_size"] == 4


def test_updates_and_bytes_are_reckoned_from_the_methods() -> None:
    duel = duel_of(*ALL)
    found = {one.name: pace_of(duel, one) for one in duel.strategies}
    # 1,437 digits in mini-batches of 32: 45 of the whole set; parts of 718 and 719 give 23 each.
    assert {name: each.updates for name, each in found.items()} == {
        "Reference": 45,
        "Parameter server": 23,
        "Asynchronous SGD": 46,
        "Synchronous SGD, weights": 23,
        "Synchronous SGD, gradients": 23,
        "Hogwild!": 45,
    }
    vector = 2 * 21_840 * 4
    assert found["Parameter server"].bytes == 46 * vector == found["Synchronous SGD, gradients"].bytes
    assert found["Synchronous SGD, weights"].bytes == 2 * vector, "each trainer once a round"
    assert found["Hogwild!"].bytes is None
    assert found["Hogwild!"].spent("passes", 90, 3.0, 3.9) == 4.0, (
        "two trainers' second epoch, though one of them was not there yet"
    )
    assert found["Hogwild!"].spent("updates", 90, 3.0, 3.9) == 180
    assert found["Parameter server"].spent("passes", 23, 3.0, 1.02) == 1.02
    with pytest.raises(ConfigError, match="Hogwild!: budget must be in passes, updates or seconds"):
        config_of(duel_of("hogwild", "sync_sgd", kind="bytes"), ready()["hogwild"], 0.1, 0)
    assert (
        config_of(
            duel_of("async_sgd", "sync_sgd", kind="bytes", amount=3 * vector * 46), ready()["async_sgd"], 0.1, 0
        ).model_dump()["epochs"]
        == 3
    )
    with pytest.raises(ConfigError, match=r"epochs must be at most 1,000; 5,000 passes needs 2,500"):
        config_of(duel_of("hogwild", "sync_sgd", amount=5000), ready()["hogwild"], 0.1, 0)


def test_tuning_and_judging_share_no_seed_and_strategies_take_turns() -> None:
    duel = duel_of(*ALL, tuning_seeds=3, seeds=4)
    drawn = {cell.seed + rank for cell in tuning_cells(duel) for rank in range(len(cell.config.roles))}
    judged = [{cell.seed + rank for rank in range(65)} for cell in judging_cells(duel, [0.1] * 6) if cell.strategy == 0]
    assert not drawn & set.union(*judged)
    assert sum(map(len, judged)) == len(set.union(*judged)) == 4 * 65
    duel = duel_of("hogwild", "sync_sgd", "async_sgd", seeds=6)
    cells = judging_cells(duel, [0.1, 0.03, 0.01])
    assert [cell.strategy for cell in cells[:9]] == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    assert sorted(cells[at].strategy for at in range(0, 18, 3)) == [0, 0, 1, 1, 2, 2]
    assert {cell.strategy: cell.rate for cell in cells} == {0: 0.1, 1: 0.03, 2: 0.01}


def test_the_first_stage_leads_to_the_second_once(home: Home) -> None:
    duel_id = labs.launched(home)
    assert not labs.continued(home, duel_id), "runs that tune are left"
    found = labs.drive(home, duel_id, "tuning")
    assert tuned(found).rates == (0.1, 0.03)
    assert [labs.continued(home, duel_id) for _ in range(3)] == [True, False, False]
    judged = labs.gathered(home, duel_id).of("judging")
    assert [(each.strategy, each.rate, each.seed) for each in judged] == [
        *((0, 0.1, 100 * n) for n in range(5)),
        *((1, 0.03, 100 * n) for n in range(5)),
    ]
    queue = sorted((each.run.id, each.strategy) for each in judged if each.run)
    assert [place for _, place in queue] == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1], "in turns"
    with Reader.open(home) as reader:
        assert {run.exclusive for run in reader.queue.waiting()} == {True}
        assert {reader.runs.one(run_id).terms.max_retries for run_id, _ in queue} == {2}, (
            "on the terms of the runs that tuned"
        )


def test_values_are_cut_at_the_budget_and_early_tests_told(home: Home) -> None:
    found = labs.whole(home, "hogwild", "parameter_server", amount=4)
    first = found.of("judging", 0)[0]
    assert [test.spent for test in first.tests] == [2, 4], "1.2 budgets end before a third"
    own = found.of("judging", 1)[0]
    assert own.at and (own.at.spent, own.value) == (4, labs.usual("Parameter server", 0.03, 0, 1.0))
    told = outcome(found)
    assert told.verdict.startswith("Hogwild! is ahead of Parameter server by 2.9") and " points (" in told.verdict
    assert told.target == 89.0 and [len(each.spent) for each in told.reached] == [5, 5]
    assert any("Best learning rate of Hogwild! is the largest of the grid (0.1)" in each for each in told.cautions)
    assert not any("work" in each for each in told.cautions), "each recorded the same"
    with Store.open(home) as store:
        for each in found.of("judging", 0):
            assert each.run
            store.worker.write(each.run.id, [], progress=(2_874, 2_874, "samples"))
    unequal = outcome(labs.gathered(home, found.stored.id)).cautions[0]
    assert unequal.startswith("Unequal total work: Hogwild!: 2 passes; Parameter server: 0.006959 passes.")
    told = outcome(labs.whole(home, "hogwild", "parameter_server", amount=3))
    assert any("Hogwild! is evaluated at 2 passes of 3 passes" in each for each in told.cautions)


def test_a_run_that_was_ended_past_a_budget_of_seconds_is_whole_and_one_before_is_not(home: Home) -> None:
    duel_id = labs.launched(home, "hogwild", "parameter_server", kind="seconds", amount=8.0)
    found = labs.gathered(home, duel_id)
    for place, each in enumerate(found.of("tuning")):
        labs.end(home, found, each, status="cancelled", beyond=0.5 if place == 0 else 1.2)
    found = labs.gathered(home, duel_id)
    assert not any(each.complete for each in found.of("tuning")), "all broke off at half of it"
    assert "6 of 6 tuning runs have no result (cancelled)" in tuned(found).obstacles[0]
    with Store.open(home) as store:
        for each in found.of("tuning"):
            assert each.run
            store.worker.write(each.run.id, [RankBatch(0, [Point("train/loss", 99, 0.1, 8.2, 9.0)])])
    found = labs.gathered(home, duel_id)
    assert all(each.complete for each in found.of("tuning")) and tuned(found).rates == (0.1, 0.03)


def test_a_rate_that_failed_is_out_and_a_strategy_without_one_stops_the_duel(home: Home) -> None:
    duel_id = labs.launched(home)
    own = [each.run.id for each in labs.gathered(home, duel_id).of("tuning", 0) if each.run]
    found = labs.drive(home, duel_id, "tuning", ends={own[2]: "failed"})
    assert tuned(found).rates == (0.03, 0.03)
    assert "Hogwild! failed at learning rate 0.1 in tuning; it is excluded." in outcome(found).cautions
    other = labs.launched(home)
    ids = [each.run.id for each in labs.gathered(home, other).of("tuning", 0) if each.run]
    found = labs.drive(home, other, "tuning", ends=dict.fromkeys(ids, "failed"))
    assert not labs.continued(home, other)
    (said,) = tuned(found).obstacles
    assert said == (
        f"No learning rate of Hogwild! qualifies: 3 of 3 runs failed (run {ids[0]}: It failed.). "
        "Launch another duel with smaller rates."
    )


def test_a_rate_that_was_not_tested_in_time_is_out_and_said_to_be(home: Home) -> None:
    duel_id = labs.launched(home, "hogwild", "reference", amount=1.5)
    found = labs.drive(home, duel_id, "tuning", lambda name, rate, seed, share: 90 + rate, beyond=2.0)
    assert [each.at is None for each in found.of("tuning")] == [True] * 3 + [False] * 3, (
        "Hogwild! is tested every 2 passes"
    )
    assert not labs.continued(home, duel_id)
    told = outcome(found)
    assert "Hogwild! has no test within the budget at learning rate 0.01, 0.03, 0.1 in tuning" in " ".join(
        told.cautions
    )
    assert told.tuned.obstacles[0].endswith(
        "no run has a test within the budget. Launch another duel with a larger budget."
    )


def test_a_lost_run_halts_the_duel_until_it_was_tried_again(home: Home) -> None:
    duel_id = labs.launched(home)
    ids = [each.run.id for each in labs.gathered(home, duel_id).of("tuning") if each.run]
    found = labs.drive(home, duel_id, "tuning", ends={ids[1]: "lost", ids[4]: "cancelled"})
    assert not labs.continued(home, duel_id)
    assert "2 of 6 tuning runs have no result (cancelled, lost)" in tuned(found).obstacles[0]
    assert len(retry_missing(home, duel_id, owner="Ada")) == 2
    labs.drive(home, duel_id, "tuning")
    assert labs.continued(home, duel_id)


def test_deleted_runs_are_gone_and_a_duel_of_none_is_told(home: Home) -> None:
    duel_id = labs.launched(home)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM runs")
        connection.execute("DELETE FROM sweeps")
    found = labs.gathered(home, duel_id)
    assert [each.run for each in found.of("tuning")] == [None] * 6
    assert not labs.continued(home, duel_id)
    assert outcome(found).tuned.obstacles == (
        "All tuning runs were deleted, so no learning rate can be selected. Launch the duel again.",
    )


def test_a_cancelled_duel_goes_no_further(home: Home) -> None:
    duel_id = labs.launched(home)
    assert len(cancel_duel(home, duel_id, owner="Grace")) == 6
    assert not labs.continued(home, duel_id)
    assert cancel_duel(home, duel_id, owner="Grace") == []


def test_a_launch_that_breaks_a_rule_queues_nothing(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"must be in passes, updates or seconds; got bytes\."):
        launch_duel(home, DuelLaunch(labs.duel_of("hogwild", "sync_sgd", kind="bytes"), owner="Ada"))
    with Reader.open(home) as reader:
        assert reader.duels.recent() == [] and reader.runs.count() == 0


def test_a_judged_run_that_failed_never_speaks_for_its_strategy(home: Home) -> None:
    told = outcome(_with_a_failed_seed(home, strategy=1))
    assert [len(each.by_seed) for each in told.found] == [5]
    assert told.verdict.startswith("Hogwild! is ahead of Parameter server"), "the other one may still be ahead"
    assert any("Parameter server failed with 1 of 6 seeds" in each for each in told.cautions)
    flattered = outcome(_with_a_failed_seed(home, strategy=0))
    assert [each.outcome for each in flattered.found] == ["failed runs"]
    assert "Hogwild! is ahead" not in flattered.verdict
    assert "Undecided because of failed runs: Hogwild! and Parameter server." in flattered.verdict
    assert [(each.name, len(each.spent), each.runs) for each in flattered.reached] == [
        ("Hogwild!", 5, 6),
        ("Parameter server", 6, 6),
    ]


def test_a_disturbed_run_counts_unless_seconds_are_the_budget(home: Home) -> None:
    for kind, seeds in (("passes", 4), ("seconds", 3)):
        duel_id = labs.launched(home, seeds=4, kind=kind)
        labs.drive(home, duel_id, "tuning")
        labs.continued(home, duel_id)
        found = labs.drive(home, duel_id, "judging")
        one = found.of("judging", 0)[1]
        assert one.run
        disturb(home, one.run.id, 30.0)
        told = outcome(labs.gathered(home, duel_id))
        assert [len(of_strategy) for of_strategy in told.values.values()] == [seeds, 4], kind
        assert any(f"Run {one.run.id} was disturbed" in each for each in told.cautions) == (kind == "seconds")


def _with_a_failed_seed(home: Home, strategy: int) -> DuelEvidence:
    """Return a duel that Hogwild! would win, all done, in which a strategy failed with one of 6 judged seeds."""
    duel_id = labs.launched(home, seeds=6)
    labs.drive(home, duel_id, "tuning")
    labs.continued(home, duel_id)
    one = labs.gathered(home, duel_id).of("judging", strategy)[2]
    assert one.run
    return labs.drive(home, duel_id, "judging", ends={one.run.id: "failed"})


def test_no_target_is_taken_that_a_strategy_reaches_without_learning(home: Home) -> None:
    def lost(name: str, rate: float, seed: int, share: float) -> float:
        return 12.5 if name == "Parameter server" else labs.usual(name, rate, seed, share)

    found = labs.whole(home, "hogwild", "parameter_server", amount=4, reaches=lost)
    assert outcome(found).target is None
    assert outcome(replace(found, duel=replace(found.duel, target=12.5))).target == 12.5
