"""The value that a run has for a name: a field, a metric's last, best or mean, one of its times."""

from typing import Any

import pytest

from engine.analysis.differences import MISSING, rows
from engine.analysis.run_values import (
    field_in_words,
    field_names,
    fields_in_words,
    kind_in_words,
    label,
    metric_names,
    most_telling_first,
    names,
    number,
    split,
    value,
)
from engine.config_values import field_title
from engine.registry import experiment
from engine.store.records import RunRow


def run(run_id: int = 1, **more: Any) -> RunRow:
    plain: dict[str, Any] = dict.fromkeys(
        ("preset", "started_at", "ended_at", "time_left_s", "startup_time_s", "sweep_id")
    )
    plain |= {
        "experiment": "hogwild",
        "name": "",
        "owner": "ada",
        "status": "finished",
        "cause": "",
        "created_at": "",
        "progress": 1.0,
    }
    plain |= {
        "execution_time_s": 12.5,
        "version": 1,
        "time_before_s": 0.0,
        "config": {"trainers": 2, "lock": True, "cut": [1, 2], "seed": run_id},
    }
    return RunRow(id=run_id, **plain | more)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("test/accuracy.best", ("test/accuracy", "best")),
        ("test/accuracy", None),
        ("trainers", None),
        ("trainers.last", None),
        ("a/b.c.mean", ("a/b.c", "mean")),
    ],
)
def test_a_name_is_a_metric_with_its_way_or_a_field(name: str, wanted: object) -> None:
    assert split(name) == wanted


def test_values_names_and_labels_are_those_of_metrics_ways_and_fields_in_their_order() -> None:
    one = run(last={"test/accuracy": 80.0}, best={"test/accuracy": 90.0}, mean={"test/accuracy": 70.0})
    assert [value(one, f"test/accuracy.{way}") for way in ("last", "best", "mean")] == [80.0, 90.0, 70.0]
    assert [value(one, name) for name in ("trainers", "lock", "cut", "experiment", "preset", "no_such")] == [
        2,
        True,
        "[1, 2]",
        "hogwild",
        None,
        None,
    ]
    assert (value(one, "perf/execution_time_s.last"), value(one, "perf/startup_time_s.last")) == (12.5, None)
    one = run(config={"a": float("nan"), "b": "text", "c": True, "d": 3})
    assert [number(one, name) for name in "abcd"] == [None, None, 1.0, 3.0]
    runs = [run(1), run(2, owner="grace")]
    assert field_names(runs, that_differ=True) == ["seed", "owner"]
    assert (field_names(runs)[0], field_names(runs)[-4:]) == ("experiment", ["preset", "owner", "target", "seeding"])
    assert most_telling_first(["threads_per_rank", "seed", "trainers"]) == ["trainers", "seed", "threads_per_rank"]
    assert [label(name) for name in ("test/accuracy.best", "perf/peak_memory.last", "trainers")] == [
        "Test accuracy, best (%)",
        "Peak memory (MB)",
        "Trainers",
    ]
    one = run(last={"train/entropy": 1.0, "test/accuracy": 2.0, "perf/peak_memory": 3.0, "train/loss": 4.0})
    assert metric_names([one]) == ["test/accuracy", "train/loss", "train/entropy", "perf/peak_memory"]
    found = names([one])
    assert found[:3] == ["test/accuracy.last", "test/accuracy.best", "test/accuracy.mean"]
    assert (
        "train/entropy.best" not in found and "perf/peak_memory.last" in found and "perf/peak_memory.mean" not in found
    )
    assert found.index("perf/execution_time_s.last") < found.index("trainers")
    assert "perf/startup_time_s.last" not in found


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("batch_size", 32, "batch size 32"),
        ("timeout_s", 60.0, "timeout 60 s"),
        ("gae_lambda", 0.95, "GAE lambda 0.95"),
        ("threads_per_rank", None, "threads per rank none"),
        ("lock", True, "lock true"),
        ("transport", "gloo", "gloo"),
        ("experiment", "async_sgd", "Asynchronous SGD"),
        ("experiment", "unknown", "unknown"),
    ],
)
def test_a_field_with_its_value_is_part_of_a_label(name: str, held: object, words: str) -> None:
    assert field_in_words(name, held) == words
    assert fields_in_words({"trainers": 2, name: held}) == f"trainers 2, {words}"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("batch_size", "Batch size"),
        ("slow_sleep_ms", "Slow sleep (ms)"),
        ("memory_gb", "Memory (GB)"),
        ("envs_per_observer", "Environments per observer"),
        ("cpu", "CPU"),
        ("packages.scikit-learn", "Packages: scikit-learn"),
    ],
)
def test_a_field_has_a_title(name: str, title: str) -> None:
    assert field_title(name) == title


def test_fields_differ_by_value_kind_order_and_being_there() -> None:
    found = rows([{"a": 1, "b": 2, "c": None}, {"a": 1.0, "b": 3, "d": "x"}])
    assert [(row.name, row.differs) for row in found] == [("a", False), ("b", True), ("c", True), ("d", True)]
    assert [row.values for row in found][2:] == [(None, MISSING), (MISSING, "x")]
    found = rows([{"a": True, "b": [1, 2], "c": "1"}, {"a": 1, "b": [2, 1], "c": 1}])
    assert all(row.differs for row in found)
    found = rows(
        [
            {"packages": {"torch": "2.15", "numpy": "2"}, "gpus": {}},
            {"packages": {"torch": "2.11", "numpy": "2"}, "gpus": {}},
        ]
    )
    assert [(row.name, row.differs) for row in found] == [
        ("packages.torch", True),
        ("packages.numpy", False),
        ("gpus", False),
    ]
    assert [row.differs for row in rows([{"a": 1, "b": None}])] == [False, False]
    assert rows([]) == []


def test_a_run_with_few_changes_is_titled_by_the_nearest_preset_and_its_changes() -> None:
    def kind(preset: str | None = None, **changed: object) -> str:
        return kind_in_words(
            "hogwild", preset, experiment("hogwild").configure("quick", changed).model_dump(mode="json")
        )

    assert kind("quick") == "Hogwild!, quick"
    assert kind(trainers=4) == "Hogwild!, quick, trainers 4" and kind(seed=3) == "Hogwild!, quick, seed 3"
    assert kind(trainers=4, seed=3, batch_size=8) == "Hogwild!" and kind_in_words("pets", None, {"lr": 1}) == "pets"
