"""The settings of a command: what forms and sweeps may change, and what its processes ask of the machine."""

from dataclasses import replace
from typing import Any

import pytest

from engine.errors import ConfigError, UnknownName
from engine.script.command import read_command
from engine.script.field import CommandField
from engine.script.settings import definition_of, for_sweep
from engine.system.machine import Gpu, Machine, demand

PASTED = (
    "torchrun --nproc-per-node 2 train.py --lr 1 --amp --betas 0.9 0.99 --norm none model.check=3 --json x --copy=5"
)
COMMAND = read_command(PASTED)
MACHINE = Machine(8, tuple(Gpu(index, "GPU", 0) for index in range(4)), "", 8.0)


def test_values_are_those_pasted_and_names_of_any_kind_may_be_set() -> None:
    config = definition_of(COMMAND).config
    assert COMMAND.rendered(config.check({}).model_dump()).argv == PASTED.split()
    changed = config.parse(
        ["lr=0.5", "betas=0.8 0.7", "model.check=4", "json=a b", "copy=6", "amp=false", "processes=3"]
    )
    values = changed.model_dump(exclude={"norm"})
    assert values == {
        "processes": 3,
        "lr": 0.5,
        "amp": False,
        "betas": [0.8, 0.7],
        "model.check": 4,
        "json": "a b",
        "copy": 6,
    }
    assert COMMAND.rendered(changed.model_dump()).argv[6:] == [
        *("--betas", "0.8", "0.7", "--norm", "none", "model.check=4", "--json", "a b", "--copy=6")
    ]


def test_none_is_a_word_of_the_script_unless_the_field_may_be_empty() -> None:
    fields = (*COMMAND.fields, CommandField("depth", "int", None, flag="--depth", certain=True))
    config = definition_of(replace(COMMAND, fields=fields)).config
    assert config.parse(["norm=None", "depth=3"]).model_dump()["norm"] == "None"
    assert config.parse(["depth=none"]).model_dump()["depth"] is None
    with pytest.raises(ConfigError, match="lr must be a number, got 'none'"):
        config.parse(["lr=none"])


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        (CommandField("epochs", "int", 3, certain=True), "0.5", "epochs must be a whole number, got '0.5'."),
        (CommandField("lr", "float", 0.1), "much", "lr must be a number, got 'much'."),
        (CommandField("amp", "bool", False), "perhaps", "amp must be true or false, got 'perhaps'."),
        (CommandField("opt", "str", "sgd", choices=("sgd", "adam")), "x", "opt must be one of sgd, adam, got 'x'."),
        (
            CommandField("sizes", "list", [1], element="int", certain=True),
            "1 b",
            "sizes must be a whole number, got 'b'.",
        ),
        (CommandField("sizes", "list", [1]), "'1", "sizes can't be split into words: No closing quotation"),
        (CommandField("name", "str", "x"), {"a": 1}, "name must be text, got {'a': 1}."),
    ],
)
def test_a_wrong_value_is_refused_with_its_field_and_rule(field: CommandField, value: Any, sentence: str) -> None:
    config = definition_of(replace(COMMAND, fields=(field,), processes_field="")).config
    with pytest.raises(ConfigError) as refused:
        config.check({field.name: value})
    assert str(refused.value).startswith(sentence)


def test_numbers_that_json_lacks_become_words_and_one_may_become_a_fraction_where_the_type_is_a_guess() -> None:
    fields = (CommandField("lr", "int", 1), CommandField("clip", "float", float("inf")))
    config = definition_of(replace(COMMAND, fields=fields)).config
    assert config.check({}).model_dump() == {"lr": 1, "clip": "inf"}
    assert config.check({"lr": "0.1", "clip": "nan"}).model_dump() == {"lr": 0.1, "clip": "nan"}


@pytest.mark.parametrize(
    ("pasted", "roles", "asked"),
    [
        ("python train.py", ("script",), (1, 1, 1)),
        ("OMP_NUM_THREADS=3 python train.py", ("script",), (3, 1, 1)),
        ("CUDA_VISIBLE_DEVICES= python train.py", ("script",), (1, 0, 1)),
        ("CUDA_VISIBLE_DEVICES=0,2 python train.py", ("script",), (1, 2, 1)),
        ("python train.py --device cpu", ("script",), (1, 0, 1)),
        ("torchrun --nproc-per-node 3 train.py", ("rank 0", "rank 1", "rank 2"), (3, 3, 3)),
        ("torchrun --nproc-per-node 6 train.py", tuple(f"rank {rank}" for rank in range(6)), (6, 4, 6)),
    ],
)
def test_processes_ask_for_cores_and_gpus(pasted: str, roles: tuple[str, ...], asked: tuple[int, int, int]) -> None:
    config = definition_of(read_command(pasted)).config.check({})
    assert config.roles == roles
    wanted = demand(config, MACHINE)
    assert (wanted.cores, wanted.gpus, wanted.ranks) == asked


def test_a_command_with_a_launcher_runs_on_one_node() -> None:
    with pytest.raises(ConfigError, match=r"on one node\. Choose 1 node"):
        demand(definition_of(COMMAND).config.check({}), replace(MACHINE, nodes=2))


def test_in_a_sweep_the_field_that_takes_the_seed_is_called_seed_and_otherwise_repeats_are_numbered() -> None:
    named = for_sweep(read_command("python train.py --manual-seed 3"))
    assert named.rendered({"seed": 8}).argv[-2:] == ["--manual-seed", "8"]
    chosen = for_sweep(read_command("python train.py --trial 3 --lr 0.1"), "trial")
    assert chosen.rendered({"seed": 8}).argv == ["python", "train.py", "--trial", "8", "--lr", "0.1"]
    numbered = for_sweep(read_command("python train.py --lr 0.1"))
    assert numbered.rendered({"lr": 0.2, "seed": 5}).argv == ["python", "train.py", "--lr", "0.2"]
    for command in (named, chosen, numbered):
        assert for_sweep(command) == command
        config = definition_of(command).config
        assert config.check({"seed": 8}).model_dump()["seed"] == 8
        with pytest.raises(ConfigError, match="seed must be a whole number from 0 to 2,147,483,647, got -1"):
            config.check({"seed": -1})
    with pytest.raises(UnknownName, match="Unknown setting 'sead'"):
        for_sweep(COMMAND, "sead")
    with pytest.raises(ConfigError, match="norm can't take the seeds"):
        for_sweep(COMMAND, "norm")
