"""Sweeps drafted in the launch form: what varies, how many runs that makes, what is wrong with it, and the launch."""

import pytest

from engine.home import Home
from engine.store import Reader
from tests.app.test_pages import opened
from tests.app.test_sweeps import form, words


def test_the_form_is_for_one_run_until_the_fold_is_opened(home: Home) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    assert test.button(key="launch").label == "Launch"
    assert not [each for each in test.text_input if "Values" in each.label]


def test_the_fold_offers_the_axis_and_says_how_many_runs_it_makes(home: Home) -> None:
    test = form()
    assert (test.selectbox(key="sweep.first.hogwild").value, test.text_input(key="sweep.values.hogwild.trainers").value) == ("trainers", "1, 2, 4, 8")
    assert test.button(key="launch").label == "Launch 4 runs"
    test.selectbox(key="sweep.second.hogwild").set_value("lock").run()
    test.number_input(key="sweep.seeds.hogwild").set_value(3).run()
    assert test.button(key="launch").label == "Launch 24 runs"
    assert "24 runs: trainers 1, 2, 4, 8 x lock false, true x 3 seeds, in place of the form's own trainers and lock." in words(test)
    assert "The largest of the runs:" in words(test)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1, 99", "trainers must be at most 64 (allowed: 1 to 64), got '99'."),
        ("", "trainers needs at least one value to vary over"),
        ("1..64", "A sweep may have at most 500 runs, got 64 x 20 = 1,280."),
    ],
)
def test_a_problem_stands_in_the_fold_and_bars_the_launch(home: Home, text: str, sentence: str) -> None:
    test = form()
    test.number_input(key="sweep.seeds.hogwild").set_value(20).run()
    test.text_input(key="sweep.values.hogwild.trainers").set_value(text).run()
    assert not test.exception
    assert sentence in words(test)
    assert test.button(key="launch").disabled


def test_a_combination_that_breaks_a_rule_is_named(home: Home) -> None:
    test = form("pipeline")
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 65").run()
    assert "With splits 65: splits must be at most batch_size (64), got 65" in words(test)
    assert test.button(key="launch").disabled


def test_a_device_that_is_not_here_bars_the_launch(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    test = form("reference")
    test.selectbox(key="sweep.first.reference").set_value("device").run()
    test.text_input(key="sweep.values.reference.device").set_value("cpu, mps").run()
    assert "which only Apple machines have" in " ".join(error.value for error in test.error)
    assert test.button(key="launch").disabled


def test_a_launch_queues_the_sweep_under_the_persons_name(home: Home) -> None:
    test = form()
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 2").run()
    test.number_input(key="sweep.seeds.hogwild").set_value(2).run()
    test.text_input(key="launch.title").set_value("speed").run()
    test.button(key="launch").click().run()
    with Reader.open(home) as reader:
        sweep, runs = reader.sweep(1), reader.sweep_runs(1)
    assert (sweep.owner, sweep.name, sweep.grid) == ("Ada", "speed", {"trainers": (1, 2), "seed": (0, 1)})
    assert [(run.config["trainers"], run.config["seed"], run.preset, run.config["dataset"]) for run in runs] == [
        *((1, 0, "quick", "digits"), (2, 0, "quick", "digits")),
        *((1, 1, "quick", "digits"), (2, 1, "quick", "digits")),
    ]


def test_a_changed_preset_is_no_longer_what_the_runs_began_as(home: Home) -> None:
    test = form()
    test.number_input(key="form.hogwild.epochs").set_value(2).run()
    test.button(key="launch").click().run()
    with Reader.open(home) as reader:
        assert {(run.preset, run.config["epochs"]) for run in reader.sweep_runs(1)} == {(None, 2)}


def test_without_a_name_a_sweep_asks_for_it_and_queues_nothing(home: Home) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.toggle(key="sweep.on.hogwild").set_value(True).run()
    test.button(key="launch").click().run()
    assert not test.exception
    with Reader.open(home) as reader:
        assert (reader.count(), reader.count_sweeps()) == (0, 0)
