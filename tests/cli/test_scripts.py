"""A command of one's own on the command line: what `run`, `submit` and `sweep` take after `--`, and recipes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.home import Home
from engine.store import Reader
from tests.cli.conftest import Parallab

SCRIPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1, help="Learning rate.")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--json", default="a")
parser.parse_args()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, in which the person is, and a `python` that the person's shell finds."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submitted(parallab: Parallab, *words: str) -> dict[str, Any]:
    done = parallab("submit", "--no-runner", "--json", *words)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(parallab("show", "--json", str(json.loads(done.stdout)["id"])).stdout))


def test_words_after_two_dashes_are_the_command_whatever_they_are(folder: Path, parallab: Parallab) -> None:
    run = submitted(parallab, "--name", "mine", "--", "python", "train.py", "--lr", "0.3", "--json", "--", "--help")
    assert run["command"] == run["pasted"] == ["python", "train.py", "--lr", "0.3", "--json", "--", "--help"]
    assert (run["experiment"], run["name"], run["folder"]) == ("train.py", "mine", str(folder))
    assert run["python"] == str(folder / "bin" / "python")
    changed = submitted(parallab, "--set", "lr=0.5", "--", "python", "train.py", "--lr", "0.3")
    assert changed["config"] == {"lr": 0.5, "seed": 0, "json": "a"} and changed["level"] == "source"
    assert changed["command"] == ["python", "train.py", "--lr", "0.5"]
    text = parallab("show", str(changed["id"])).stdout
    assert "command     python train.py --lr 0.5" in text and f"folder      {folder}" in text


def test_a_retry_says_which_command_it_repeats(folder: Path, parallab: Parallab) -> None:
    run = submitted(parallab, "--set", "lr=0.5", "--", "python", "train.py", "--lr", "0.3")
    parallab("cancel", str(run["id"]))
    said = parallab("retry", str(run["id"]), "--no-runner").stdout
    assert f"Run 2 queued; it repeats run {run['id']}, python train.py --lr 0.5, from the start." in said


def test_a_folder_an_interpreter_and_a_ranking_metric_can_be_named(folder: Path, parallab: Parallab) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "x.py").touch()
    named = ("--folder", "other", "--python", sys.executable, "--rank-by", "val/loss", "--better", "min")
    run = submitted(parallab, *named, "--", "python", "x.py")
    assert (run["folder"], run["python"]) == (str(folder / "other"), sys.executable)
    assert (run["ranked_by"], run["better"]) == ("val/loss", "min")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("hogwild", "--", "python", "x.py"), "'hogwild' and a command after -- can't go together"),
        (("--preset", "quick", "--", "python", "x.py"), "--preset and a command after -- can't go together"),
        ((), "Name an experiment or a recipe, or write a command after --."),
        (("hogwild", "--folder", "."), "--folder, --python, --rank-by and --better are of a command after --."),
        (("--",), "The command is empty."),
        (("--folder", "nowhere", "--", "python", "x.py"), "nowhere isn't a folder."),
        (("--python", "./nothing", "--", "python", "x.py"), "./nothing isn't a program that can be started."),
        (("--", "python3.99", "x.py"), "This shell finds no program 'python3.99'."),
        (("--", "python", "gone.py"), "gone.py isn't a file in "),
        (("--set", "lr=high", "--", "python", "train.py"), "lr must be a number, got 'high'."),
        (("hogwyld",), "Did you mean 'hogwild'?"),
    ],
)
def test_what_can_not_be_launched_is_said(
    folder: Path, parallab: Parallab, home: Home, words: tuple[str, ...], sentence: str
) -> None:
    done = parallab("submit", "--no-runner", *words)
    assert done.returncode == 2 and sentence in done.stderr
    with Reader.open(home) as reader:
        assert reader.runs.count() == 0


def test_a_sweep_of_a_command_varies_its_settings_and_its_seeds(folder: Path, parallab: Parallab) -> None:
    done = parallab("sweep", "--no-runner", "--over", "lr=0.1,0.01", "--seeds", "2", "--", "python", "train.py")
    assert done.returncode == 0, done.stderr
    runs = json.loads(parallab("list", "--sweep", "1", "--json").stdout)
    found = [(run["config"]["lr"], run["config"]["seed"]) for run in reversed(runs)]
    assert found == [(0.1, 0), (0.01, 0), (0.1, 1), (0.01, 1)]
    shown = json.loads(parallab("show", "--json", str(runs[0]["id"])).stdout)
    assert shown["command"] == ["python", "train.py", "--lr", "0.01", "--seed", "1"]
    more = parallab("sweep", "extend", "1", "--over", "lr=0.5", "--no-runner")
    assert more.returncode == 0 and "2 runs queued" in more.stdout
    (folder / "x.py").touch()
    repeats = parallab("sweep", "--no-runner", "--over", "lr=1,2", "--seeds", "2", "--", "python", "x.py", "--lr", "1")
    assert "x.py has no setting named seed" in repeats.stderr
    named = parallab(
        *("sweep", "--no-runner", "--over", "lr=1,2", "--seeds", "2", "--seed-field", "trial", "--json", "--"),
        *("python", "x.py", "--lr", "1", "--trial", "5"),
    )
    run = json.loads(parallab("show", "--json", str(json.loads(named.stdout)["runs"][-1])).stdout)
    assert run["command"] == ["python", "x.py", "--lr", "2", "--trial", "6"] and not named.stderr


def test_a_recipe_is_launched_by_its_name_in_the_version_of_its_time(
    folder: Path, parallab: Parallab, home: Home
) -> None:
    save = ("recipes", "save", "mine", "--title", "My net", "--rank-by", "val/acc", "--")
    assert parallab(*save, "python", "train.py", "--lr", "0.3").returncode == 0
    first = submitted(parallab, "mine", "lr=0.7")
    assert first["experiment"] == "mine" and first["command"] == ["python", "train.py", "--lr", "0.7"]
    saved = parallab("recipes", "save", "mine", "--run", str(first["id"]), "--json")
    assert json.loads(saved.stdout) == {"name": "mine", "version": 2}
    second = submitted(parallab, "mine")
    assert second["config"]["lr"] == 0.7 and (first["ranked_by"], second["ranked_by"]) == ("val/acc", "val/acc")
    with Reader.open(home) as reader:
        versions = [reader.recipes.version_of("mine", run["command_id"]) for run in (first, second)]
    assert versions == [1, 2]
    swept = parallab("sweep", "mine", "--over", "lr=0.1,0.2", "--no-runner", "--json")
    assert swept.returncode == 0 and len(json.loads(swept.stdout)["runs"]) == 2
    assert [each["version"] for each in json.loads(parallab("recipes", "--json").stdout)] == [2]
    parallab("recipes", "hide", "mine")
    assert "No recipes." in parallab("recipes").stdout
    assert "My net" in parallab("recipes", "show", "mine", "--version", "1").stdout
    assert submitted(parallab, "mine")["experiment"] == "mine"
    assert parallab("submit", "mine", "width=3", "--no-runner").returncode == 2


def test_a_recipe_has_a_name_that_no_experiment_has_and_is_its_makers(folder: Path, parallab: Parallab) -> None:
    for name, sentence in (("hogwild", "'hogwild' is an experiment of Parallab"), ("a b", "The name of a recipe must")):
        done = parallab("recipes", "save", name, "--", "python", "train.py")
        assert done.returncode == 2 and sentence in done.stderr
    assert parallab("recipes", "save", "mine", "--", "python", "train.py", "--lr", "1").returncode == 0
    parallab("users", "add", "ada", "--role", "admin", "--no-password", "--email", "ada@lab.org")
    parallab("users", "add", "mo", "--role", "member", "--no-password", "--email", "mo@lab.org")
    refused = parallab("recipes", "save", "new", "--owner", "mo", "--", "python", "train.py")
    assert refused.returncode == 2 and "can grant it to mo" in refused.stderr
    assert parallab("users", "allow", "mo", "run commands").returncode == 0
    assert parallab("recipes", "save", "new", "--owner", "mo", "--", "python", "train.py").returncode == 0
    stolen = parallab("recipes", "save", "mine", "--owner", "mo", "--", "python", "other.py")
    assert "members can save a recipe only of their own" in stolen.stderr
    assert "mo" in parallab("users", "list").stdout and "run commands" in parallab("users", "list").stdout
