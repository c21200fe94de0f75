"""A pasted command: its words as fields, and the same words again."""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, UnknownName
from engine.script.command import Command, read_command

OPTIONS = ("--lr", "--n-layers", "--name", "-b", "--sizes", "--tag", "-lr", "--no-bias", "--amp", "--ünï")
TEXTS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "True", "false", "-1e-3", "a b", "'", "-", "--", "=", "é", "007", "x=y", "[1,2]", "-x"]),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8),
)
PART = st.one_of(
    st.builds(lambda flag, text: [flag, text], st.sampled_from(OPTIONS), TEXTS),
    st.builds(lambda flag, text: [f"{flag}={text}"], st.sampled_from(OPTIONS), TEXTS),
    st.sampled_from(OPTIONS).map(lambda flag: [flag]),
    st.builds(lambda key, text: [f"{key}={text}"], st.sampled_from(("a.b", "+a", "++c/d", "db@e")), TEXTS),
    TEXTS.map(lambda text: [text]),
    st.lists(st.integers().map(str), max_size=4).map(lambda numbers: ["--sizes", *numbers]),
)
START = st.sampled_from(
    [
        ["python", "-u", "train.py"],
        ["torchrun", "--standalone", "--nproc-per-node=2", "train.py"],
        ["accelerate", "launch", "--num_processes", "2", "-m", "pkg.train"],
        ["uv", "run", "--with", "numpy", "train.py"],
        ["bash", "run.sh"],
        ["LR=0.1", "EMPTY=", "sh", "-c", "true"],
    ]
)


@given(START, st.lists(PART, max_size=8).map(lambda parts: [word for part in parts for word in part]))
def test_any_command_is_rendered_again_as_it_was_pasted(start: list[str], words: list[str]) -> None:
    pasted = [*start, *words]
    command = read_command(shlex.join(pasted))
    rendered = command.rendered(command.defaults())
    assert [*(f"{name}={text}" for name, text in rendered.environment.items()), *rendered.argv] == pasted
    assert command == read_command(pasted)
    assert Command.of(json.loads(json.dumps(command.plain()))) == command


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
    st.text(max_size=9),
    st.lists(st.integers(), min_size=1, max_size=3),
    st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), min_size=1, max_size=3),
    st.booleans(),
)
def test_changed_values_reach_the_script(
    lr: float, b: int, name: str, sizes: list[int], tag: list[str], amp: bool
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--lr", type=float)
    parser.add_argument("-b", type=int)
    parser.add_argument("--name")
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--tag", action="append")
    parser.add_argument("--amp", action="store_true")
    command = read_command("python t.py f.txt --lr 0.5 -b 3 --name=x --sizes 7 8 --tag p --tag q --amp")
    values = {"lr": lr, "b": b, "name": name, "sizes": sizes, "tag": tag, "amp": amp}
    rendered = command.rendered(values)
    assert vars(parser.parse_args(rendered.argv[2:])) == {**values, "file": "f.txt", "lr": pytest.approx(lr, rel=1e-15)}


def test_options_of_every_style_are_fields_with_the_pasted_values() -> None:
    command = read_command(
        "WANDB_MODE=offline python train.py config/x.py --lr 0.1 --epochs=3 -b 64 -j4 --amp --no-shuffle --name '' "
        "--shift -1e-3 --sizes 64 -32 --tag a --tag 'b c' --compile=False data.path=/tmp/x +model.depth=3 ~optim"
    )
    expected: dict[str, tuple[str, Any]] = {
        "WANDB_MODE": ("str", "offline"),
        "lr": ("float", 0.1),
        "epochs": ("int", 3),
        "b": ("int", 64),
        "j": ("int", 4),
        "amp": ("bool", True),
        "shuffle": ("bool", False),
        "name": ("str", ""),
        "shift": ("float", -0.001),
        "sizes": ("list", [64, -32]),
        "tag": ("list", ["a", "b c"]),
        "compile": ("bool", False),
        "data.path": ("str", "/tmp/x"),
        "model.depth": ("int", 3),
    }
    assert {each.name: (each.type, each.default) for each in command.fields} == expected
    assert all(each.pasted for each in command.fields)


def test_a_changed_value_replaces_its_words_alone() -> None:
    pasted = "X=1 python t.py c/x.py --lr 0.1 --epochs=3 --amp --sizes 1 2 --tag a --k 1 --tag b a.b=2 q=true -- z"
    command = read_command(pasted)
    values = {
        "lr": -1e-05,
        "epochs": 4,
        "amp": False,
        "sizes": [3],
        "tag": ["c", "d", "e"],
        "a.b": 3,
        "q": False,
        "X": 2,
    }
    assert command.rendered(values).text == (
        "X=2 python t.py c/x.py --lr=-0.00001 --epochs=4 --sizes 3 --tag c --k 1 --tag d --tag e a.b=3 q=false -- z"
    )
    assert command.rendered({"lr": 1, "tag": ["c"]}).text == (
        "X=1 python t.py c/x.py --lr 1 --epochs=3 --amp --sizes 1 2 --tag c --k 1 a.b=2 q=true -- z"
    )
    with pytest.raises(UnknownName, match="Did you mean 'lr'"):
        command.rendered({"lrr": 1})


@pytest.mark.parametrize(
    ("text", "launcher", "script", "count", "bound"),
    [
        ("python -u -W ignore train.py --x 1", "python", "train.py", None, None),
        ("python3.12 -m torch.distributed.run --nproc_per_node=2 t.py", "torchrun", "t.py", 2, "--nproc_per_node=8"),
        ("torchrun --nnodes 1 t.py --nproc-per-node 7", "torchrun", "t.py", 1, "torchrun --nproc-per-node 8 --nnodes"),
        ("torchrun --nproc-per-node gpu t.py", "torchrun", "t.py", 1, "--nproc-per-node 8 t.py"),
        ("accelerate launch --multi_gpu --num_processes 2 t.py", "accelerate", "t.py", 2, "--num_processes 8 t.py"),
        ("uv run --with torch -p 3.12 t.py", "uv", "t.py", None, None),
        ("uv run -- torchrun --nproc-per-node=2 t.py", "torchrun", "t.py", 2, "--nproc-per-node=8 t.py"),
        ("conda run -n env python t.py", "python", "t.py", None, None),
        ("bash run.sh train.py", "opaque", "run.sh", None, None),
        ("bash -eo pipefail -- run.sh -c 1", "opaque", "run.sh", None, None),
        ("mpirun -np 2 python t.py --x 1", "opaque", "t.py", None, None),
    ],
)
def test_the_launcher_and_the_script_are_recognised(
    text: str, launcher: str, script: str, count: int | None, bound: str | None
) -> None:
    command = read_command(text)
    assert (command.launcher, command.script, command.name) == (launcher, script, script)
    assert command.defaults().get(command.processes_field) == count
    if bound:
        assert bound in command.rendered({command.processes_field: 8}, processes=True).text
    assert command.rendered({}).text == text


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("bash -lc 'python t.py'", None),
        ("uv run --directory sub t.py", "sub/t.py"),
        ("conda run --cwd=sub -n env python t.py", "sub/t.py"),
        ("uv run https://example.org/t.py", None),
        ("python -m t --directory sub", "t.py"),
    ],
)
def test_a_script_is_looked_for_where_its_launcher_starts_it(tmp_path: Path, text: str, script: str | None) -> None:
    (tmp_path / "t.py").touch()
    assert read_command(text, str(tmp_path)).script == script


def test_the_process_count_gives_way_to_a_field_of_the_script() -> None:
    command = read_command("torchrun --nproc-per-node 2 t.py --processes 9 --seed 3")
    assert (command.processes_field, command.seed_field) == ("launcher_processes", "seed")
    assert command.defaults() == {"launcher_processes": 2, "processes": 9, "seed": 3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The command is empty"),
        ("A=1", "The command is empty"),
        ("python t.py > log", "> is a redirection of a shell"),
        ("python a.py && python b.py", "&& is a second command"),
        ("cd x && python a.py && python b.py", "&& is a second command"),
        ('python t.py --data "$HOME/x"', "is a variable of a shell"),
        ("python t.py 'x", "open quote"),
        ("python a.py\npython b.py", "must be one line"),
        ("python t.py 'a\0b'", "null character"),
    ],
)
def test_what_only_a_shell_would_do_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_command(text)


def test_quotes_and_continued_lines_are_those_of_a_shell() -> None:
    command = read_command("$ python t.py \\\n  --cost '5$ & more' \\\n  --b \"x;y\"\n  --c=3")
    assert command.defaults() == {"cost": "5$ & more", "b": "x;y", "c": 3}


def test_a_line_may_begin_with_its_folder() -> None:
    command = read_command("cd 'my code'/x && python t.py --a '~/x'", "/data")
    assert (command.folder, command.argv) == ("/data/my code/x", ("python", "t.py", "--a", "~/x"))
    assert read_command("cd /abs; python t.py", "/data").folder == "/abs"
