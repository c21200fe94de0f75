"""Duels on the command line: launched, listed, told."""

import json

from engine.analysis.statistics.intervals import LIMIT
from engine.home import Home
from tests.cli.conftest import Parallab
from tests.labs import duel as labs


def test_a_duel_is_launched_listed_and_told(home: Home, parallab: Parallab) -> None:
    words = (
        "launch",
        "hogwild",
        "Mine=parameter_server: late=drop",
        "--budget",
        "passes=4",
        "--set",
        "dataset=digits",
        "--set",
        "trainers=2",
    )
    launched = parallab("duel", *words, "--tuning-seeds", "1", "--no-runner", "--json")
    assert json.loads(launched.stdout) == {"id": 1, "runs": 6}, launched.stderr
    few = parallab("duel", *words, "--seeds", "1", "--no-runner")
    assert "Caution: 1 evaluation seed gives no verdict: a single difference always has a sign. Use at" in few.stderr
    labs.whole(home, amount=4)
    lines = parallab("duel", "list").stdout.splitlines()
    assert "4 passes" in lines[2] and "Hogwild!, Mine" in lines[2] and "tuning" in lines[2]
    told = parallab("duel", "show", "3").stdout
    assert (
        "Hogwild! is ahead of Parameter server by 2.9" in told
        and "Tuning: 6 of 6 runs ended. Judging: 10 of 10." in told
        and f"95 % confidence interval of the mean over paired seeds. {LIMIT}" in told
    )
    found = json.loads(parallab("duel", "show", "3", "--json").stdout)
    assert found["learning_rates"] == {"Hogwild!": 0.1, "Parameter server": 0.03}
    assert [each["outcome"] for each in found["differences"]] == ["ahead"]
    assert "0 runs queued again" in parallab("duel", "retry", "3").stdout
