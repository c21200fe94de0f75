"""The commands that a report gives launch the same again."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.export.rerun_commands import repeating, run_line, sweep_again
from engine.home import Home
from engine.registry import experiment
from engine.script.command import read_command
from engine.store import Launch, Reader, Sweep, SweepLaunch
from engine.store.launches import Draw, Timing
from engine.store.records import RunRow
from engine.sweep.launch import launch_sweep
from tests.cli.conftest import Parallab

SETTINGS = {"learning_rate": 0.025, "seed": 3}


def sweep(home: Home, sweep_id: int) -> tuple[Sweep, list[RunRow]]:
    with Reader.open(home) as reader:
        return reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)


@pytest.mark.parametrize(
    "asked",
    [
        {
            "grid": {"trainers": [1, 2], "lock": [True, False]},
            "seeds": 2,
            "exclusive": True,
            "stop_after": 3,
            "title": "It's <b>x</b>; y",
        },
        {"grid": {"trainers": [1, 2]}, "seeds": 6, "timing": Timing(0.025, 20)},
        {"grid": {"trainers": [1, 4]}, "seeds": 1, "equal_work": True},
        {"grid": {}, "seeds": 1, "draw": Draw(3, 7, {"learning_rate": "log:0.001..0.1", "trainers": "1..4"})},
    ],
    ids=["grid", "timing", "equal work", "draw"],
)
def test_a_sweep_is_launched_again_by_its_line(parallab: Parallab, home: Home, asked: Mapping[str, Any]) -> None:
    base = {**experiment("hogwild").preset("quick").settings, **SETTINGS}
    more = {name: value for name, value in asked.items() if name != "title"}
    launch_sweep(home, SweepLaunch(Launch("hogwild", base, "Ada", "quick", asked.get("title", "")), **more))
    old, runs = sweep(home, 1)
    commit, line = sweep_again(old, runs, {runs[-1].id: {"git_commit": "0123456789ab+changes"}})
    assert commit == "git checkout 0123456789ab"
    assert parallab(*shlex.split(line)[3:], "--no-runner").returncode == 0
    new, again = sweep(home, 2)
    assert [getattr(new, name) for name in PLAN] == [getattr(old, name) for name in PLAN]
    assert [(run.config, run.preset, run.name) for run in again] == [(run.config, run.preset, run.name) for run in runs]


PLAN = ("experiment", "name", "grid", "exclusive", "stop_after", "draw", "timing", "equal_work")


def test_a_run_is_launched_again_by_its_line(parallab: Parallab, home: Home) -> None:
    launch_sweep(
        home,
        SweepLaunch(
            Launch("pipeline", {**experiment("pipeline").preset("quick").settings, "cut": "3"}, "Ada", "quick"),
            {"splits": [4]},
        ),
    )
    _, (run,) = sweep(home, 1)
    assert parallab("submit", *shlex.split(run_line(run))[4:], "--no-runner").returncode == 0
    with Reader.open(home) as reader:
        assert reader.runs.one(2).config == run.config


def test_a_command_is_launched_again_by_its_line_alone_and_in_a_sweep(
    parallab: Parallab, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "my train.py").touch()
    pasted = "OMP_NUM_THREADS=2 torchrun --nproc-per-node 2 'my train.py' --lr 0.1 --trial 3 --name 'a b'"
    command = replace(read_command(pasted, str(tmp_path), sys.executable), result="val/loss", better="min")
    shared = Launch(command.name, {"lr": 0.5, "trial": 4}, "Ada", command=command)
    launch_sweep(home, SweepLaunch(shared, {"lr": [0.1, 0.2]}, 2, seed_field="trial"))
    old, runs = sweep(home, 1)
    (line,) = sweep_again(old, runs, {})
    assert parallab("sweep", "--no-runner", *shlex.split(line)[4:]).returncode == 0
    new, again = sweep(home, 2)
    assert (new.grid, [run.config for run in again]) == (old.grid, [run.config for run in runs])
    with Reader.open(home) as reader:
        run = reader.runs.one(runs[-1].id)
    (line,) = repeating(replace(run, command=command, config={"lr": 0.5, "trial": 9}))
    words = shlex.split(line)
    assert parallab("submit", "--no-runner", *words[4:]).returncode == 0
    with Reader.open(home) as reader:
        one = reader.runs.one(again[-1].id + 1)
    assert one.command and (one.command.folder, one.command.result, one.command.better) == (
        *(str(tmp_path), "val/loss"),
        "min",
    )
    assert one.command.rendered(one.config).argv == [
        *("torchrun", "--nproc-per-node", "2", "my train.py", "--lr", "0.5", "--trial", "9", "--name", "a b")
    ]
