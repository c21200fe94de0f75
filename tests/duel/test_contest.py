"""What makes a duel, what is refused with a sentence, and how its runs come to be."""

from typing import Any

import pytest

from engine.duel.catalogue import READY, read_shared, read_strategy
from engine.duel.contest import Budget, Duel, Strategy, from_json
from engine.duel.pace import pace
from engine.duel.planning import config_of, judging_cells, pace_of, tuning_cells
from engine.duel.unlike import facts, untimely
from engine.errors import ConfigError
from tests.app.duel_labs import duel_of

ALL = ("reference", "parameter_server", "async_sgd", "sync_sgd", "sync_gradients", "hogwild")


def sentence(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        duel_of("hogwild", "sync_sgd", **changes).checked()
    return str(error.value)


def test_a_duel_comes_back_from_the_store_as_it_was() -> None:
    duel = duel_of(*READY, kind="updates", amount=500, target=95.0, tie=0.5)
    assert from_json(duel.as_json()) == duel


def test_what_breaks_a_rule_is_a_sentence() -> None:
    assert "must be above 0 passes, got 0" in sentence(amount=0)
    assert "rise and each stands there once, got 0.1, 0.03" in sentence(rates=(0.1, 0.03))
    assert "tuning_seeds must be from 1 to 50, got 0" in sentence(tuning_seeds=0)
    assert "at most 500 runs, got 920" in sentence(rates=tuple(n / 100 for n in range(1, 10)), tuning_seeds=50, seeds=10)
    assert "judged by test/accuracy or test/loss, got 'train/loss'" in sentence(metric="train/loss")
    for strategies, said in (
        ([READY["hogwild"]], "has 2 to 6 strategies, got 1"),
        ([READY["hogwild"], READY["hogwild"]], "Two strategies are called 'Hogwild!'"),
        ([READY["hogwild"], Strategy("Twin", "hogwild")], "'Twin' has the same experiment and settings"),
        ([READY["hogwild"], Strategy("P", "pipeline")], "No method that can duel is named 'pipeline'"),
        ([READY["hogwild"], Strategy("S", "sync_sgd", {"rounds": 3})], "S: rounds can't be a strategy's own: the budget says how long a run is."),
    ):
        with pytest.raises(ConfigError) as error:
            Duel(tuple(strategies), Budget("passes", 1)).checked()
        assert said in str(error.value)


def test_strategies_are_written_with_settings_and_names() -> None:
    assert read_strategy("hogwild") == READY["hogwild"]
    assert read_strategy("async_sgd:staleness_bound=4") == Strategy("Asynchronous SGD, staleness_bound=4", "async_sgd", {"staleness_bound": 4})
    assert read_strategy("Locked=hogwild: lock=true; trainers=3") == Strategy("Locked", "hogwild", {"lock": True, "trainers": 3})
    for text, said in (
        ("hogwyld", "Did you mean 'hogwild'?"),
        ("hogwild:epochs=3", "epochs can't be a strategy's own"),
        ("hogwild:lock=maybe", "lock must be true or false"),
        ("hogwild:lok=true", "No setting is named 'lok'"),
    ):
        with pytest.raises(ConfigError) as error:
            read_strategy(text)
        assert said in str(error.value)
    with pytest.raises(ConfigError, match="No setting that strategies share is named 'epochs'"):
        read_shared({"epochs": 3})


def test_all_share_settings_seeds_and_a_length_that_reaches_the_budget() -> None:
    duel = duel_of(*ALL, amount=7)
    configs = {one.name: config_of(duel, one, 0.03, 100) for one in duel.strategies}
    for one, config in zip(duel.strategies, configs.values(), strict=True):
        found, values = pace(one.experiment, config), config.model_dump()
        shared = {"learning_rate": 0.03, "seed": 100, "dataset": "digits", "batch_size": 32, "momentum": 0.5, "evaluate_every": 1}
        assert {name: values[name] for name in shared} == shared
        assert values.get("schedule", "constant") == "constant" and values.get("checkpoint_every_s", 0) == 0
        length = values[found.field] * found.passes
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
    assert found["Hogwild!"].spent("passes", 90, 3.0, 3.9) == 4.0, "two trainers' second epoch, though one of them was not there yet"
    assert found["Hogwild!"].spent("updates", 90, 3.0, 3.9) == 180
    assert found["Parameter server"].spent("passes", 23, 3.0, 1.02) == 1.02
    with pytest.raises(ConfigError, match="Hogwild!: nothing travels between its processes"):
        config_of(duel_of("hogwild", "sync_sgd", kind="bytes"), READY["hogwild"], 0.1, 0)
    assert config_of(duel_of("async_sgd", "sync_sgd", kind="bytes", amount=3 * vector * 46), READY["async_sgd"], 0.1, 0).model_dump()["epochs"] == 3
    with pytest.raises(ConfigError, match=r"would take 2,500 epochs, and at most 1,000 are allowed"):
        config_of(duel_of("hogwild", "sync_sgd", amount=5000), READY["hogwild"], 0.1, 0)


def test_tuning_and_judging_share_no_seed_not_even_between_ranks() -> None:
    duel = duel_of(*ALL, tuning_seeds=3, seeds=4)
    drawn = {cell.seed + rank for cell in tuning_cells(duel) for rank in range(len(cell.config.roles))}
    judged = [{cell.seed + rank for rank in range(65)} for cell in judging_cells(duel, [0.1] * 6) if cell.strategy == 0]
    assert not drawn & set.union(*judged)
    assert sum(map(len, judged)) == len(set.union(*judged)) == 4 * 65


def test_strategies_take_turns_and_each_goes_first_as_often() -> None:
    duel = duel_of("hogwild", "sync_sgd", "async_sgd", seeds=6)
    cells = judging_cells(duel, [0.1, 0.03, 0.01])
    assert [cell.strategy for cell in cells[:9]] == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    assert sorted(cells[at].strategy for at in range(0, 18, 3)) == [0, 0, 1, 1, 2, 2]
    assert {cell.strategy: cell.rate for cell in cells} == {0: 0.1, 1: 0.03, 2: 0.01}


def test_what_is_unlike_is_told() -> None:
    told = {each.name: each for each in facts(duel_of(*ALL))}
    assert (told["Parameter server"].processes, told["Parameter server"].samples) == (3, 64)
    assert (told["Hogwild!"].tested_every, told["Hogwild!"].momentum) == (2, "one for each trainer")
    assert told["Synchronous SGD, gradients"].samples == 64 and told["Reference"].processes == 1
    assert untimely(duel_of("hogwild", "sync_sgd", amount=8)) == []
    (said,) = untimely(duel_of("hogwild", "sync_sgd", amount=9))
    assert "Hogwild! at 8, being tested every 2." in said and said.endswith("A budget of 8 passes meets all at a test.")
