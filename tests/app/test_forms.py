import pytest

from app import forms
from app.takes import caveats, taken
from engine.registry import experiment, experiments
from engine.runtime.machine import Gpu, Machine, demand

TWO_CORES = Machine(2, (), "a CPU", 8.0)


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_the_defaults_of_every_experiment_break_no_rule(name: str) -> None:
    found = experiment(name)
    config, problems = forms.check(found, {field: info.default for field, info in found.config.model_fields.items()})
    assert config is not None
    assert problems == {}


def test_each_problem_stands_at_its_field() -> None:
    found = experiment("hogwild")
    values = found.configure("quick").model_dump()
    config, problems = forms.check(found, values | {"trainers": 0, "momentum": 1.5, "epochs": None})
    assert config is None
    assert set(problems) == {"trainers", "momentum", "epochs"}
    assert "trainers must be at least 1" in problems["trainers"]


def test_a_rule_between_fields_stands_at_the_field_it_names() -> None:
    found = experiment("hogwild")
    _, problems = forms.check(found, found.configure("quick").model_dump() | {"batch_size": 5_000})
    assert list(problems) == ["batch_size"]
    assert "1,437" in problems["batch_size"]


def test_a_fields_help_names_its_bounds() -> None:
    fields = experiment("hogwild").config.model_fields
    assert forms.help_of(fields["momentum"]).endswith("Allowed\\: at least 0 and below 1\\.")
    assert forms.label_of("batch_size", fields["batch_size"]) == "Batch size (samples)"


def test_too_many_ranks_for_the_cores_are_said() -> None:
    config = experiment("hogwild").configure("published")
    said = " ".join(caveats(config, demand(config, TWO_CORES), TWO_CORES))
    assert "4 ranks x 1 thread share 2 cores" in said
    assert "no GPU" in said


def test_ranks_that_fit_need_no_word_about_cores() -> None:
    config = experiment("hogwild").configure("quick")
    assert "share" not in " ".join(caveats(config, demand(config, TWO_CORES), TWO_CORES))


def test_what_a_run_takes_names_ranks_and_gpus() -> None:
    machine = Machine(16, (Gpu(0, "H200", 140_000),), "a CPU", 128.0)
    config = experiment("hogwild").configure("published")
    shown = dict(taken(config, demand(config, machine), machine))
    assert shown["Ranks"] == "4: trainer1, trainer2, trainer3, trainer4"
    assert shown["GPUs"] == "1 of 1"
    assert "4 ranks share 1 GPU" in " ".join(caveats(config, demand(config, machine), machine))
