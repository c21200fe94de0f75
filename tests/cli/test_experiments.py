"""What can be launched, told from the same fields that forms are made of."""

import json

from engine.registry import EXPERIMENTS
from tests.cli.conftest import Parallab


def test_every_experiment_is_listed_with_its_sentence(parallab: Parallab) -> None:
    lines = parallab("experiments").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(EXPERIMENTS)


def test_json_tells_presets_and_the_bounds_of_settings(parallab: Parallab) -> None:
    told = json.loads(parallab("experiments", "--json").stdout)
    hogwild = next(found for found in told if found["name"] == "hogwild")
    assert hogwild["presets"]["published"]["settings"]["trainers"] == 4
    assert (hogwild["settings"]["trainers"]["least"], hogwild["settings"]["trainers"]["most"]) == (1, 64)
    assert hogwild["settings"]["dataset"]["choices"] == ["mnist", "fashion_mnist", "digits", "synthetic"]


def test_one_experiment_is_told_in_full(parallab: Parallab) -> None:
    told = parallab("experiments", "hogwild").stdout
    assert "above 0 to 10" in told
    assert "true | false" in told
    assert json.loads(parallab("experiments", "hogwild", "--json").stdout)["name"] == "hogwild"


def test_an_environment_is_added_listed_and_taken_away(parallab: Parallab) -> None:
    assert (
        parallab("catalogue", "add-environment", "CliffWalking-v1").stdout
        == "Added CliffWalking-v1: 48 numbers per observation, 4 actions.\n"
    )
    assert parallab("catalogue").stdout.endswith(", CliffWalking-v1\n")
    told = json.loads(parallab("catalogue", "--json").stdout)
    assert told["environments"][-1] == "CliffWalking-v1"
    names = ["mnist", "fashion_mnist", "digits", "synthetic", "stdlib", "stdlib_large"]
    assert [each["name"] for each in told["datasets"]] == names
    refused = parallab("catalogue", "add-environment", "Nothing-v0", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "must be a gymnasium id" in refused.stderr
    assert parallab("catalogue", "remove", "CliffWalking-v1").returncode == 0
    assert "CliffWalking-v1" not in parallab("catalogue").stdout
