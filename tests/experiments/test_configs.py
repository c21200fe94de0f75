"""The rules between settings, as sentences beside the right field."""

from typing import Any

import pytest

from engine.data.catalogue import DATA_SETS
from engine.errors import ConfigError
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.registry import experiment

TUTORIAL = {"variant": "tutorial", "start_method": "spawn"}
DIGITS = {"dataset": "digits", "batch_size": 1438}
TOO_LARGE = "batch_size must be at most the 1,437 training samples of digits, got 1438."
SPARSE = {"model": "sparse_logistic", "momentum": 0.0}
RULES: list[tuple[str, dict[str, Any], str, str]] = [
    ("hogwild", DIGITS, "batch_size", TOO_LARGE),
    ("reference", DIGITS, "batch_size", TOO_LARGE),
    ("hogwild", {"device": "mps"}, "device", "device must be auto, cpu or cuda for hogwild, got 'mps'"),
    ("hogwild", {"variant": "tutorial"}, "start_method", "start_method must be spawn for variant tutorial"),
    ("hogwild", TUTORIAL | {"device": "cuda"}, "device", "device must be auto or cpu for variant tutorial"),
    ("hogwild", {"trainers": 65}, "trainers", "trainers must be at most 64 (allowed: 1 to 64), got 65."),
    ("hogwild", {"momentum": 1}, "momentum", "momentum must be less than 1"),
    (
        "hogwild",
        {"trainers": "9" * 5_000},
        "trainers",
        "trainers can't be '999… Unable to parse input string as an integer, exceeded maximum size.",
    ),
    ("hogwild", {"learning_rate": 0}, "learning_rate", "learning_rate must be greater than 0"),
    ("hogwild", {"epochs": 1.5}, "epochs", "epochs must be a whole number (allowed: 1 to 1000), got 1.5."),
    (
        "hogwild",
        {"dataset": "cifar"},
        "dataset",
        "dataset must be one of 'mnist', 'fashion_mnist', 'digits' or 'synthetic', got 'cifar'.",
    ),
    ("hogwild", SPARSE | {"momentum": 0.5}, "momentum", "momentum must be 0 for model sparse_logistic"),
    ("hogwild", SPARSE | {"device": "cuda"}, "device", "device must be auto or cpu for model sparse_logistic"),
    ("hogwild", SPARSE | TUTORIAL, "variant", "variant must be engine for model sparse_logistic"),
    (
        *("hogwild", SPARSE | {"sparse_features": 10, "sparse_nonzeros": 11}, "sparse_nonzeros"),
        "sparse_nonzeros must be at most sparse_features (10), got 11.",
    ),
    (
        *("hogwild", SPARSE | {"sparse_samples": 50_000, "sparse_nonzeros": 81}, "sparse_samples"),
        "sparse_samples x sparse_nonzeros must be at most 4,000,000",
    ),
    (
        *("hogwild", SPARSE | {"sparse_samples": 100, "batch_size": 101}, "batch_size"),
        "batch_size must be at most the 100 training samples of sparse_logistic, got 101.",
    ),
    ("hogwild", SPARSE | {"sparse_samples": 99}, "sparse_samples", "sparse_samples must be at least 100"),
    (
        "parameter_server",
        {"batch_update_size": 5},
        "batch_update_size",
        "batch_update_size must be at most trainers (4), got 5",
    ),
    (
        "parameter_server",
        TUTORIAL | {"transport": "shared_memory"},
        "transport",
        "transport must be rpc for variant tutorial, got 'shared_memory'",
    ),
    ("parameter_server", {"variant": "tutorial"}, "start_method", "start_method must be spawn for variant tutorial"),
    ("parameter_server", {"slow_trainer": 5}, "slow_trainer", "slow_trainer must be at most trainers (4), got 5."),
    ("parameter_server", DIGITS, "batch_size", TOO_LARGE),
    (
        *("sync_sgd", {"sync": "ddp", "transport": "rpc"}, "transport"),
        "transport must be gloo for sync ddp, which uses its own communication, got 'rpc'.",
    ),
    ("sync_sgd", TUTORIAL | {"sync": "elastic"}, "sync", "sync must be weights for variant tutorial"),
    ("sync_sgd", TUTORIAL | {"average_every": 3}, "average_every", "average_every must be 0 for variant tutorial"),
    (
        "sync_sgd",
        TUTORIAL | {"keep_optimizer": True},
        "keep_optimizer",
        "keep_optimizer must be off for variant tutorial",
    ),
    ("sync_sgd", {"variant": "tutorial"}, "start_method", "start_method must be spawn for variant tutorial"),
    ("sync_sgd", DIGITS, "batch_size", TOO_LARGE),
    ("sync_sgd", {"elastic_rate": 1.5}, "elastic_rate", "elastic_rate must be at most 1"),
    ("dppo", {"environment": "Pendulm-v1"}, "environment", "… Did you mean"),
    ("dppo", {"environment": "Blackjack-v1"}, "environment", "environment must be one of 'CartPole-v1'"),
    (
        "dppo",
        {"batch_steps": 16, "envs_per_collector": 2, "minibatches": 33},
        "minibatches",
        "… at most the 32 steps of a batch … got 33",
    ),
    ("dppo", {"device": "cuda"}, "device", "… too small to benefit from a GPU"),
    ("dppo", {"collectors": 0}, "collectors", "… at least 1"),
    ("batched_reinforce", {"environment": "Cartpole-v1"}, "environment", "… Did you mean 'CartPole-v1'?"),
    ("batched_reinforce", {"environment": "Pendulum-v1"}, "environment", "… Choose dppo"),
    ("batched_reinforce", {"observers": 17}, "observers", "observers must be at most 16 … got 17"),
    (
        "batched_reinforce",
        {"variant": "tutorial", "transport": "shared_memory"},
        "transport",
        "transport must be rpc for variant tutorial",
    ),
    (
        "batched_reinforce",
        TUTORIAL | {"envs_per_observer": 2},
        "envs_per_observer",
        "envs_per_observer must be 1 for variant tutorial",
    ),
]


@pytest.mark.parametrize(("name", "values", "field", "sentence"), RULES)
def test_a_broken_rule_is_told_beside_its_field(name: str, values: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(name).config.check(values)
    (problem,) = caught.value.problems
    assert problem.field == field
    start, *further = sentence.split("… ")
    assert problem.sentence.startswith(start.strip())
    assert all(part.strip() in str(caught.value) for part in further)


SERVED = ("ps", "trainer1", "trainer2", "trainer3", "trainer4", "trainer5")
FACTS: list[tuple[str, str | None, dict[str, Any], dict[str, Any]]] = [
    ("hogwild", None, {"trainers": 3}, {"roles": ("trainer1", "trainer2", "trainer3")}),
    ("reference", None, {}, {"roles": ("trainer1",)}),
    ("reference", None, {"dataset": "digits", "batch_size": 1437}, {"batch_size": 1437}),
    ("hogwild", None, {"trainers": 8}, {"max_gpus": 1}),
    (
        "hogwild",
        None,
        {"sparse_features": 10, "sparse_nonzeros": 11},
        {"max_gpus": 1},
    ),  # these bind nobody who trains the net
    ("hogwild", "tutorial", {}, {"max_gpus": 0}),
    ("hogwild", "sparse", {}, {"max_gpus": 0}),
    ("hogwild", "published", {}, {"dataset": "mnist", "trainers": 4, "epochs": 10, "batch_size": 64}),
    ("hogwild", "published", {}, {"learning_rate": 0.01, "momentum": 0.5, "variant": "engine", "lock": False}),
    ("parameter_server", "resnet50", {}, {"trainers": 5, "batch_update_size": 5, "iterations": 6, "batch_size": 20}),
    ("parameter_server", "resnet50", {}, {"learning_rate": 0.001, "momentum": 0.9, "needs_all": True, "roles": SERVED}),
    (
        "sync_sgd",
        "published",
        {},
        {"dataset": "mnist", "trainers": 4, "rounds": 12, "batch_size": 64, "average_every": 0},
    ),
    (
        "sync_sgd",
        "published",
        {},
        {"learning_rate": 0.01, "momentum": 0.5, "sync": "weights", "keep_optimizer": False, "partition": "contiguous"},
    ),
]


@pytest.mark.parametrize(("name", "preset", "changes", "expected"), FACTS)
def test_a_config_is_what_was_published_or_asked_for(
    name: str, preset: str | None, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    config = experiment(name).configure(preset, changes)
    assert {field: getattr(config, field) for field in expected} == expected


def test_what_else_is_counted_from_the_published_settings() -> None:
    server, sync = experiment("parameter_server").configure("resnet50"), experiment("sync_sgd").configure("published")
    assert server.threads(cores=10) == 2
    assert isinstance(sync, SyncSgdConfig)
    assert [number for number in range(1, 13) if sync.tests_after(number)] == [4, 8, 12]


@pytest.mark.parametrize("name", ["hogwild", "reference", "parameter_server", "async_sgd"])
def test_quick_needs_no_download(name: str) -> None:
    preset = experiment(name).preset("quick")
    assert not DATA_SETS[preset.settings["dataset"]].files
    assert preset.expects["test/accuracy"] >= 95 or name not in ("hogwild", "reference")


@pytest.mark.parametrize(
    ("every", "epochs", "expected"), [(0, 4, []), (1, 4, [1, 2, 3]), (2, 4, [2]), (2, 5, [2, 4]), (9, 4, [])]
)
def test_tests_on_the_way_leave_the_last_epoch_to_the_test_at_the_end(
    every: int, epochs: int, expected: list[int]
) -> None:
    config = HogwildConfig.check({"evaluate_every": every, "epochs": epochs})
    assert [epoch for epoch in range(1, epochs + 1) if config.tests_after(epoch)] == expected
