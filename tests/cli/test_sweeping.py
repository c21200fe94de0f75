"""Sweeps from the command line: launched, listed, cancelled."""

import json
from collections.abc import Callable

import pytest

from engine.home import Home
from engine.store import Reader
from tests.cli.conftest import Parallab

QUICK = ("sweep", "hogwild", "--preset", "quick", "--no-runner")


def test_a_sweep_is_queued_listed_and_cancelled(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    alone = queued()
    told = parallab(*QUICK, "--over", "trainers=1,2", "--seeds", "2", "--set", "epochs=3", "--name", "speed", "--json")
    assert json.loads(told.stdout) == {"id": 1, "runs": [2, 3, 4, 5]}
    assert not home.runner_lock.exists()
    rows = json.loads(parallab("list", "--sweep", "1", "--json").stdout)
    assert [(row["id"], row["sweep_id"], row["owner"], row["config"]["trainers"], row["config"]["seed"]) for row in rows] == [
        *((5, 1, "ada", 2, 1), (4, 1, "ada", 1, 1)),
        *((3, 1, "ada", 2, 0), (2, 1, "ada", 1, 0)),
    ]
    assert {row["config"]["epochs"] for row in rows} == {3}
    assert json.loads(parallab("show", "2", "--json").stdout)["sweep_id"] == 1
    assert "list --sweep 1" in parallab("show", "2").stdout
    assert "SWEEP" in parallab("list").stdout
    ended = parallab("cancel", "--sweep", "1", "--owner", "bea", "--json")
    assert json.loads(ended.stdout) == {"id": 1, "runs": dict.fromkeys("2345", "cancelled")}
    with Reader.open(home) as reader:
        assert reader.run(3).cause == "Cancelled by bea."
        assert reader.run(alone).status == "queued"
    again = parallab("cancel", "--sweep", "1")
    assert (again.returncode, "all its 4 runs have ended already" in again.stderr) == (2, True)


def test_a_person_reads_which_run_has_which_values(parallab: Parallab) -> None:
    told = parallab(*QUICK, "--over", "trainers=1..2", "--over", "lock=false,true")
    assert told.stdout.splitlines() == [
        "Sweep 1: 4 runs are queued.",
        "  run 1: trainers 1, lock false, seed 0",
        "  run 2: trainers 1, lock true, seed 0",
        "  run 3: trainers 2, lock false, seed 0",
        "  run 4: trainers 2, lock true, seed 0",
        "Follow it: python -m engine list --sweep 1",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*QUICK, "--over", "trainers=1,99"), "trainers must be at most 64 (allowed: 1 to 64), got '99'."),
        ((*QUICK, "--over", "trainer=1"), "Did you mean 'trainers'?"),
        ((*QUICK, "--over", "trainers"), "What varies is written name=values, such as trainers=1,2,4, got 'trainers'."),
        ((*QUICK, "--over", "trainers=1", "--over", "trainers=2"), "trainers is varied twice."),
        ((*QUICK, "--over", "batch_size=32,5000"), "With batch_size 5000: batch_size must be at most the 1,437 training samples of digits, got 5000."),
        ((*QUICK, "--over", "trainers=1", "--set", "epoch=2"), "Did you mean 'epochs'?"),
        (QUICK, "A sweep varies 1 or 2 fields, got none."),
        (("list", "--sweep", "7"), "No sweep has the id 7"),
        (("cancel", "--sweep", "7"), "No sweep has the id 7"),
        (("cancel",), "cancel takes the number of one run, or --sweep"),
        (("cancel", "1", "--sweep", "1"), "cancel takes the number of one run, or --sweep"),
    ],
)
def test_bad_input_is_one_sentence_and_queues_nothing(words: tuple[str, ...], sentence: str, parallab: Parallab, home: Home) -> None:
    told = parallab(*words)
    assert (told.returncode, told.stdout, len(told.stderr.splitlines())) == (2, "", 1)
    assert sentence in told.stderr
    with Reader.open(home) as reader:
        assert (reader.count(), reader.count_sweeps()) == (0, 0)
