"""Published figures on the command line: listed with verdicts, told in full, launched."""

import json

from engine.home import Home
from engine.published import FIGURES
from engine.published.rules import LEVEL_EXPLAINED
from engine.store import Reader
from tests.cli.conftest import Parallab
from tests.labs import figures


def test_figures_are_listed_with_their_verdicts(home: Home, parallab: Parallab) -> None:
    figures.pipeline(home, lambda splits: splits / 10)
    lines = parallab("figures").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [found.name for found in FIGURES]
    assert "trend only" in lines[2] and "reduced" in lines[2]
    assert all("not measured yet" in line for place, line in enumerate(lines) if place != 2)


def test_a_figure_is_launched_and_told_in_full(home: Home, parallab: Parallab) -> None:
    assert "Not launched yet" in parallab("figures", "hogwild").stdout
    assert "--launch needs the name of a figure" in parallab("figures", "--launch", "full").stderr
    launched = json.loads(parallab("figures", "hogwild", "--launch", "reduced", "--no-runner", "--json").stdout)
    assert launched == {"sweep": 1, "figure": "hogwild", "size": "reduced"}
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
    assert (sweep.figure, sweep.owner) == ("hogwild/reduced", "ada")
    for run, accuracy in zip(runs, (98.0, 98.1, 98.2, 98.05, 98.15), strict=True):
        figures.end(home, run, 3.0, points={4.0: 96.0, 8.0: accuracy})
    told = json.loads(parallab("figures", "hogwild", "--json").stdout)
    assert (told["verdict"], told["size"], told["missing"]) == ("trend only", "reduced", [])
    assert {check["outcome"] for check in told["checks"]} == {"holds", "not judged"}
    in_full = parallab("figures", "hogwild").stdout
    assert "Sweep 1, reduced: trend only." in in_full and in_full.count(LEVEL_EXPLAINED) == 1
