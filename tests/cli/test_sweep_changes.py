"""Sweeps changed from the command line: paused, resumed, tried again, extended; drawn at random."""

import json

import pytest

from engine.home import Home
from engine.runtime.processes import me
from engine.store import Reader, Store
from tests.cli.conftest import Parallab

QUICK = ("sweep", "hogwild", "--preset", "quick", "--no-runner")


def test_a_drawn_sweep_is_paused_resumed_tried_again_and_extended(parallab: Parallab, home: Home) -> None:
    launched = parallab(*QUICK, "--draw", "2", "--over", "learning_rate=log:0.001..0.1", "--exclusive", "--stop-after", "3", "--json")
    assert json.loads(launched.stdout) == {"id": 1, "runs": [1, 2]}, launched.stderr
    assert "Sweep 1 is paused: its 2 queued runs wait until `sweep resume 1`." in parallab("sweep", "pause", "1").stdout
    with Store.open(home) as store:
        assert store.next_queued() is None
        assert json.loads(parallab("sweep", "resume", "1", "--no-runner", "--json").stdout) == {"id": 1, "paused": False, "runs": [1, 2]}
        assert store.claim(1, me(), [])
        store.end(1, "failed", "It failed.")
        store.request_cancel(2, by="ada")
    again = parallab("sweep", "retry", "1", "--no-runner", "--also-cancelled")
    assert again.stdout.startswith("Sweep 1: 2 runs are queued.\n  run 3: learning_rate ")
    assert json.loads(parallab("sweep", "extend", "1", "--draw", "1", "--seeds", "1", "--no-runner", "--json").stdout) == {"id": 1, "runs": [5, 6, 7, 8]}
    with Reader.open(home) as reader:
        sweep = reader.sweep(1)
    assert (sweep.draw, sweep.exclusive, sweep.stop_after, len(sweep.seeds)) == (
        {"count": 3, "seed": 0, "over": {"learning_rate": "log:0.001..0.1"}},
        *(True, 3, 2),
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sweep", "pause", "7"), "No sweep has the id 7"),
        (("sweep", "extend", "7", "--seeds", "1"), "No sweep has the id 7"),
        ((*QUICK, "--draw", "2", "--over", "learning_rate=log:1..0.1"), "learning_rate: a range counts up"),
        ((*QUICK, "--draw", "2"), "A random draw is over 1 to 6 fields, got none."),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], sentence: str, parallab: Parallab) -> None:
    told = parallab(*words)
    assert (told.returncode, told.stdout, len(told.stderr.splitlines())) == (2, "", 1)
    assert sentence in told.stderr
