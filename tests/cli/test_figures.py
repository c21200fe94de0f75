"""Published figures on the command line: listed with results, told in full, launched."""

import json

from engine.analysis.statistics.intervals import LIMIT
from engine.home import Home
from engine.published import FIGURES
from engine.store import Reader
from tests.cli.conftest import Parallab
from tests.labs import figures


def test_figures_are_listed_with_their_results(home: Home, parallab: Parallab) -> None:
    figures.pipeline(home, lambda splits: splits / 10)
    lines = parallab("figures").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [found.name for found in FIGURES]
    assert "4 not comparable" in lines[2] and "reduced" in lines[2]
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
    assert (told["result"], told["size"], told["missing"]) == ("2 not comparable", "reduced", [])
    accuracy, loss = told["values"]
    assert accuracy["published"] == {"metric": "test/accuracy", "x": 40, "value": 98.98, "spread": 0.0}
    assert (accuracy["result"], accuracy["mean"]) == ("not comparable", None), "8 of 40 passes"
    assert accuracy["reason"] == loss["reason"] == "the reduced version does different work from the source"
    in_full = parallab("figures", "hogwild").stdout
    assert "Sweep 1, reduced: 2 not comparable." in in_full and in_full.count(LIMIT) == 1


def test_a_full_sweep_is_told_with_mean_and_interval(home: Home, parallab: Parallab) -> None:
    _, runs = figures.figure_sweep(home, "hogwild", "full")
    for run, accuracy in zip(runs, (98.9, 99.0, 98.95, 98.98, 99.02), strict=True):
        figures.end(home, run, 3.0, points={4.0 * place: 98.0 for place in range(1, 10)} | {40.0: accuracy})
    accuracy, _ = json.loads(parallab("figures", "hogwild", "--json").stdout)["values"]
    assert accuracy["mean"]["low"] < 98.97 < accuracy["mean"]["high"] and accuracy["result"] == "inside"
    lines = parallab("figures", "hogwild").stdout.splitlines()
    row = next(line for line in lines if line.startswith("Test accuracy")).split()
    assert row[3:7] == ["40", "98.98", "inside", "98.97"] and row[9] == "5"
