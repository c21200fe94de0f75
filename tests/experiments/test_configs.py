"""The settings of every experiment, and the rules between them as sentences beside the right field."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from engine.data.catalogue import DATA_SETS
from engine.errors import ConfigError
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.home import ROOT
from engine.registry import EXPERIMENTS, UNLISTED, experiment, experiments

DOCS = ROOT / "docs"

SAID = Path(__file__).parent / "configs.jsonl"
"""A line for each experiment, each of its fields in the form's order, and each bad config with its problems.

`PARALLAB_WRITE_DOCS=1 pytest tests/experiments/test_configs.py` rewrites it. Add a bad config with an empty list.
"""


def problems_of(name: str, values: dict[str, Any]) -> list[list[str]]:
    with pytest.raises(ConfigError) as caught:
        experiment(name).config.check(values)
    return [[problem.field, problem.sentence] for problem in caught.value.problems]


def said_by(name: str, known: list[list[Any]]) -> list[list[Any]]:
    """Return the lines of an experiment; the bad configs are those of the known lines."""
    schema = experiment(name).config.model_json_schema()
    fields = [[name, field, said] for field, said in schema.pop("properties").items()]
    bad = [line[1] for line in known if line[0] == name and isinstance(line[1], dict)]
    return [[name, "", schema], *fields, *([name, values, problems_of(name, values)] for values in bad)]


def test_a_config_accepts_what_it_says_and_says_what_it_refuses() -> None:
    known = [json.loads(line) for line in SAID.read_text().splitlines()]
    said = [line for name in (*EXPERIMENTS, *UNLISTED) for line in said_by(name, known)]
    if os.environ.get("PARALLAB_WRITE_DOCS"):
        SAID.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in said))
    assert said == known


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


@pytest.mark.parametrize("name", ["pipeline", "batched_reinforce", "parameter_server", "async_sgd"])
def test_a_quick_preset_of_what_is_published_by_remote_calls_says_what_it_uses_and_how_to_choose_them(
    name: str,
) -> None:
    found = experiment(name)
    published, quick = (found.configure(preset, {}).model_dump() for preset in ("published", "quick"))
    apart = [each for each in ("mode", "transport") if published.get(each) == "rpc" != quick[each]]
    for each in apart:
        said = found.presets["quick"].sentence.lower()
        assert str(quick[each]).replace("_", " ") in said and f"set {each} to rpc." in said
    assert bool(apart) == (name in ("pipeline", "batched_reinforce"))


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


def test_pages_state_the_least_accuracy_of_a_preset_as_the_preset_does() -> None:
    found = [
        (one.name, preset, float(least))
        for one in experiments()
        for preset, least in re.findall(
            r"^\| `(\w+)`[^|]*\|[^|]*at least ([\d.]+) %", (DOCS / "experiments" / f"{one.name}.md").read_text(), re.M
        )
    ]
    (first,) = re.findall(r"the test accuracy, at least ([\d.]+) %", (DOCS / "first-hour.md").read_text())
    assert found
    for name, preset, least in [*found, ("hogwild", "quick", float(first))]:
        assert experiment(name).preset(preset).expects == {"test/accuracy": least}, (name, preset)
