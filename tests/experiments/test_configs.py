"""The rules between settings, as sentences beside the right field."""

from typing import Any

import pytest

from engine.data.catalogue import DATA_SETS
from engine.errors import ConfigError
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.reference.config import ReferenceConfig
from engine.registry import experiment


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({"dataset": "digits", "batch_size": 1438}, "batch_size", "batch_size must be at most the 1,437 training samples of digits, got 1438."),
        ({"device": "mps"}, "device", "device must be auto, cpu or cuda for hogwild, got 'mps'"),
        ({"variant": "tutorial"}, "start_method", "start_method must be spawn for variant tutorial"),
        ({"variant": "tutorial", "start_method": "spawn", "device": "cuda"}, "device", "device must be auto or cpu for variant tutorial"),
        ({"trainers": 65}, "trainers", "trainers must be at most 64 (allowed: 1 to 64), got 65."),
        ({"momentum": 1}, "momentum", "momentum must be less than 1"),
        ({"learning_rate": 0}, "learning_rate", "learning_rate must be greater than 0"),
        ({"epochs": 1.5}, "epochs", "epochs must be a whole number (allowed: 1 to 1000), got 1.5."),
        ({"dataset": "cifar"}, "dataset", "dataset must be one of 'mnist', 'fashion_mnist', 'digits' or 'synthetic', got 'cifar'."),
    ],
)
def test_a_broken_rule_is_told_beside_its_field(values: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HogwildConfig.check(values)
    assert [problem.field for problem in caught.value.problems] == [field]
    assert caught.value.problems[0].sentence.startswith(sentence)


def test_the_reference_fits_its_batch_to_the_data_too() -> None:
    with pytest.raises(ConfigError, match="at most the 1,437 training samples of digits, got 2000"):
        ReferenceConfig.check({"dataset": "digits", "batch_size": 2000})
    assert ReferenceConfig.check({"dataset": "digits", "batch_size": 1437}).batch_size == 1437


def test_trainers_are_the_only_roles() -> None:
    assert HogwildConfig.check({"trainers": 3}).roles == ("trainer1", "trainer2", "trainer3")
    assert ReferenceConfig.check({}).roles == ("trainer1",)


def test_hogwild_takes_one_gpu_at_most_and_the_tutorial_none() -> None:
    assert HogwildConfig.check({"trainers": 8}).max_gpus == 1
    assert experiment("hogwild").configure("tutorial").max_gpus == 0


def test_the_published_preset_is_what_was_published() -> None:
    config = experiment("hogwild").configure("published")
    assert isinstance(config, HogwildConfig)
    assert (config.dataset, config.trainers, config.epochs, config.batch_size) == ("mnist", 4, 10, 64)
    assert (config.learning_rate, config.momentum, config.variant, config.lock) == (0.01, 0.5, "engine", False)


def test_quick_needs_no_download_and_promises_an_accuracy() -> None:
    for name in ("hogwild", "reference"):
        preset = experiment(name).preset("quick")
        assert not DATA_SETS[preset.settings["dataset"]].files
        assert preset.expects["test/accuracy"] >= 95


@pytest.mark.parametrize(("every", "epochs", "expected"), [(0, 4, []), (1, 4, [1, 2, 3]), (2, 4, [2]), (2, 5, [2, 4]), (9, 4, [])])
def test_tests_on_the_way_leave_the_last_epoch_to_the_test_at_the_end(every: int, epochs: int, expected: list[int]) -> None:
    config = HogwildConfig.check({"evaluate_every": every, "epochs": epochs})
    assert [epoch for epoch in range(1, epochs + 1) if config.tests_after(epoch)] == expected
