"""The launch form of a person's own command: pasted, read without executing anything, changed, launched, saved."""

import os
import socket
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.launch import own_command, pasted_command
from app.links.launch import clone_query, command_query, sweep_query
from app.ui import current_user
from engine.access.rules import Program
from engine.errors import UnknownName
from engine.home import Home
from engine.script.command import read_command
from engine.script.enrich import enriched
from engine.script.environments import PythonInterpreter
from engine.script.settings import definition_of
from engine.store import Demand, Launch, Reader, Store
from engine.store.scripts import rendered
from tests.app.reading import all_words, give_name, opened
from tests.labs import clusters
from tests.script.test_environments import environment
from tests.stand_in import worker

SCRIPT = """
import argparse, pathlib
pathlib.Path(__file__).with_name("ran").touch()
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01, help="Step size.")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=None)
parser.add_argument("--milestones", type=int, nargs="+", default=[2, 4])
group = parser.add_argument_group("data")
group.add_argument("--dataset", choices=["digits", "mnist", "cifar"], default="digits")
group.add_argument("--random-seed", type=int)
args = parser.parse_args()
"""
ONE = Demand(1, 0, 1, 1)


@pytest.fixture(autouse=True)
def in_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer what a process of its own would try."""
    monkeypatch.setattr(own_command, "machine_confinement", lambda: ("sandbox", ""))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a script and an environment, to a person who may run commands."""
    monkeypatch.setattr(current_user, "why_no_commands", lambda: None)
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    environment(folder / ".venv", "version = 3.12.3\n", "2.5.1")
    return folder


def paste(text: str, folder: Path | str = "") -> AppTest:
    """Open the form and paste a command."""
    test = opened("launch", {"command": ""})
    test.text_area(key=pasted_command.TEXT).set_value(text)
    test.text_input(key=pasted_command.FOLDER).set_value(str(folder))
    return test.run()


def test_a_pasted_command_becomes_a_form_and_a_run(project: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    give_name(monkeypatch, "ada")
    test = paste("$ OMP_NUM_THREADS=1 python train.py \\\n  --lr 0.1 --epochs 5", project)
    words = all_words(test)
    assert "7 settings, read from the script's source" in words
    assert "The command runs in a sandbox: the lab's database, secrets and other runs are hidden" in words
    assert "Python 3.12.3, torch 2.5.1" in words
    assert test.number_input(key="form.train.py.lr").value == 0.1
    test.number_input(key="form.train.py.lr").set_value(0.2)
    test.text_input(key="form.train.py.milestones").set_value("1 5")
    test.run()
    python = project / ".venv" / "bin" / "python"
    shown = f"OMP_NUM_THREADS=1 '{python}' train.py --lr 0.2 --epochs 5 --milestones 1 5"
    assert shown in [each.value for each in test.code]
    test.button(key="once.launch").click().run()
    with Reader.open(home) as reader:
        run = reader.runs.one(1)
    assert run.experiment == "train.py"
    assert run.command
    assert (run.command.folder, run.command.python) == (str(project), str(python))
    assert run.config["lr"] == 0.2
    assert run.config["milestones"] == [1, 5]
    assert run.config["amp"] is None
    assert not (project / "ran").exists(), "nothing was executed"


@pytest.mark.parametrize(
    ("text", "folder", "said"),
    [
        ("python train.py | tee log", "", "| is a pipe of a shell, and no shell runs the command. Write the value"),
        ("python train.py && echo done", "", "&& is a second command or the background of a shell"),
        ("python train.py --data $DATA", "", "$DATA is a variable of a shell"),
        ("cd gone && python train.py", "/no/such", "Folder /no/such/gone does not exist"),
        ("python train.py", "", "Give the folder that the command runs in, such as /data/project."),
        ("python train.py", "gone", "Folder must be a whole path"),
        ("python train.py", "/no/such/folder", "Folder /no/such/folder does not exist"),
        ("python gone.py", "/usr", "gone.py isn't a file in /usr. Correct its path in the command, or the folder."),
        ("bash gone.sh", "/usr", "gone.sh isn't a file in /usr."),
    ],
)
def test_what_is_wrong_with_a_command_stands_at_its_field_and_nothing_can_be_launched(
    project: Path, home: Home, text: str, folder: str, said: str
) -> None:
    test = paste(text, folder)
    assert said in all_words(test)
    assert folder or not any(":red[Folder" in each.value for each in test.markdown), "a hint until there is one"
    assert all(each.disabled for each in test.button if each.key == "once.launch")


def test_a_sweep_of_a_command_gives_the_seeds_to_the_setting_that_was_found(
    project: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "ada")
    test = paste("python train.py --lr 0.1", project)
    test.toggle(key="sweep.on.train.py").set_value(True).run()
    assert test.selectbox(key="sweep.seed_field.train.py").value == "random_seed"
    assert "milestones" not in test.selectbox(key="sweep.first.train.py").options, "a list can't vary"
    test.text_input(key="sweep.values.train.py.lr").set_value("0.1, 0.2, 0.4")
    test.number_input(key="sweep.seeds.train.py").set_value(2)
    test.run()
    assert "6 runs: lr 0.1, 0.2, 0.4 × 2 seeds" in all_words(test)
    test.button(key="once.launch").click().run()
    with Reader.open(home) as reader:
        runs = [reader.runs.one(run_id) for run_id in range(1, 7)]
        query = sweep_query(reader.sweeps.one(1), reader.sweeps.runs(1)[0])
    with Store.open(home) as store:
        store.claims.claim(1, worker(), [], (0,))
        store.worker.begin(1, worker(), {"host": socket.gethostname()})
        store.worker.mark_running(1, 0.1)
        store.claims.end(1, "finished", "Completed successfully", execution_time_s=2.0)
    again = opened("launch", query)
    assert again.text_input(key="sweep.values.train.py.lr").value == "0.1, 0.2, 0.4"
    assert "similar run" in all_words(again) and "No estimate yet" not in all_words(again)
    assert "6 runs" in all_words(again)
    words = [rendered(run.command, run.config).text for run in runs if run.command]
    assert words == [
        f"python train.py --lr {lr} --random-seed {seed}".replace(" --random-seed 0", "")
        for seed in (0, 1)
        for lr in (0.1, 0.2, 0.4)
    ]


def test_a_sweep_of_a_command_without_a_seed_counts_repeats(project: Path, home: Home) -> None:
    (project / "train.py").write_text(SCRIPT.replace('group.add_argument("--random-seed", type=int)', ""))
    test = paste("python train.py --lr 0.1", project)
    test.toggle(key="sweep.on.train.py").set_value(True).run()
    test.text_input(key="sweep.values.train.py.lr").set_value("0.1, 0.2").run()
    assert "2 runs: lr 0.1, 0.2 × 1 repeat (" in all_words(test)


def test_a_command_without_settings_is_repeated(project: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    give_name(monkeypatch, "ada")
    (project / "run.sh").write_text("python train.py")
    test = paste("bash run.sh", project)
    test.toggle(key="sweep.on.run.sh").set_value(True).run()
    assert "no setting that could vary, so the sweep repeats it" in all_words(test)
    assert "3 runs with the settings in the form." in all_words(test)
    test.number_input(key="sweep.seeds.run.sh").set_value(2).run()
    test.button(key="once.launch").click().run()
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
        again = opened("launch", sweep_query(sweep, runs[0]))
    assert sweep.grid == {"seed": (0, 1)} and len(runs) == 2
    assert (again.toggle(key="sweep.on.run.sh").value, again.number_input(key="sweep.seeds.run.sh").value) == (True, 2)
    assert "bash run.sh" in " ".join(each.value for each in again.code)


def test_a_form_is_read_again_when_its_script_is_there_and_when_it_changes(project: Path, home: Home) -> None:
    (project / "train.py").rename(project / "elsewhere.py")
    test = paste("python train.py --lr 0.1", project)
    assert all_words(test).count("train.py isn't a file in") == 2, "at the folder, and at Launch"
    assert test.button(key="once.launch").disabled
    (project / "train.py").write_text(SCRIPT)
    test.number_input(key="form.train.py.lr").set_value(0.3).run()
    assert "6 settings, read from the script's source" in all_words(test)
    assert not test.button(key="once.launch").disabled
    (project / "train.py").write_text(SCRIPT.replace("dataset", "corpus"))
    os.utime(project / "train.py", ns=(0, 0))
    assert test.run().button_group(key="form.train.py.corpus").value == "digits"
    assert test.number_input(key="form.train.py.lr").value == 0.3


def test_on_a_cluster_the_form_does_not_say_what_this_machine_hides(project: Path, home: Home) -> None:
    clusters.write(home)
    test = paste("python train.py --lr 0.1", project)
    assert "in a sandbox" in all_words(test)
    words = all_words(test.button_group(key="launch.target").set_value("lab").run())
    assert "in a sandbox" not in words and f"In {project}, as a node of lab sees it" in words
    assert "Environment on the run's page says what the command could reach" in words


def test_a_program_that_needs_no_file_is_launched_from_any_folder(project: Path, home: Home) -> None:
    for text in ("nvidia-smi -l 1", "bash -c true", "docker run image python /app/train.py"):
        test = paste(text, project)
        assert "Correct its path" not in all_words(test)
        assert not test.button(key="once.launch").disabled


def test_the_choice_of_an_interpreter_shows_the_end_of_its_path_that_tells_it_apart() -> None:
    one, two = (f"/opt/miniconda3/{name}/envs/ml/bin/python" for name in ("a", "b"))
    known = {path: PythonInterpreter(path, "conda", "3.12.3", "2.5.1") for path in (one, two)}
    assert own_command._choice(one, known, "/data") == "…/a/envs/ml (Python 3.12.3, torch 2.5.1)"
    assert own_command._choice(one, {one: known[one]}, "/data") == "…/envs/ml (Python 3.12.3, torch 2.5.1)"
    assert own_command._choice("/data/x/.venv/bin/python", {}, "/data/x") == ".venv"


def test_packages_that_the_chosen_interpreter_lacks_are_a_warning_that_leaves_launch_possible(
    project: Path, home: Home
) -> None:
    (project / "train.py").write_text(f"import torch\n{SCRIPT}")
    test = paste("python train.py", project)
    assert "train.py imports torch, which" in all_words(test)
    assert not test.button(key="once.launch").disabled
    assert "enter its path" in all_words(test)
    (project / ".venv" / "lib" / "python3.12" / "site-packages" / "torch").mkdir()
    assert "imports torch" not in all_words(test.run())


def test_the_interpreter_of_the_path_is_not_suggested_where_another_one_has_what_the_script_imports(
    project: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "train.py").write_text(f"import torch\n{SCRIPT}")
    without, has = (environment(project / name, "version = 3.12.3\n", "") for name in ("system", "conda"))
    for place, package in ((without, "numpy"), (has, "torch")):
        (place.parent.parent / "lib" / "python3.12" / "site-packages" / package).mkdir(parents=True)
    known = [PythonInterpreter(str(without), "path", "3.12.3"), PythonInterpreter(str(has), "conda", "3.12.3", "2.5.1")]
    monkeypatch.setattr(own_command, "interpreters", lambda folder: known)
    assert paste("python train.py", project).selectbox(key=pasted_command.PYTHON).value == str(has)
    monkeypatch.setattr(own_command, "interpreters", lambda folder: known[:1])
    assert paste("python train.py", project).selectbox(key=pasted_command.PYTHON).value == str(without)


@pytest.mark.processes
def test_a_script_that_is_asked_tells_what_its_source_does_not_and_changed_values_stay(
    project: Path, home: Home
) -> None:
    (project / "train.py").write_text(SCRIPT.replace('"--epochs"', '"--" + input.__name__.replace("input", "epochs")'))
    test = paste(f"{sys._base_executable} train.py --lr 0.1", project)  # type: ignore[attr-defined]
    assert "1 option of train.py is known only when the script runs" in all_words(test)
    test.number_input(key="form.train.py.lr").set_value(0.7).run()
    test.button(key="own.probe").click().run()
    assert "read from the script's parser, in a probe that stopped there" in all_words(test)
    assert test.number_input(key="form.train.py.epochs").value == 3
    assert test.number_input(key="form.train.py.lr").value == 0.7


def test_a_link_and_a_clone_fill_the_form_again(project: Path, home: Home) -> None:
    command = enriched(read_command("python train.py --lr 0.1", str(project), "/no/python"))
    config = definition_of(command).config.check({"lr": 0.5, "milestones": [1, 2], "amp": False}).model_dump()
    query = command_query(command, config, command.defaults())
    test = opened("launch", query)
    assert test.number_input(key="form.train.py.lr").value == 0.5
    assert test.text_input(key="form.train.py.milestones").value == "1 2"
    assert "python train.py --lr 0.5 --no-amp --milestones 1 2" in " ".join(each.value for each in test.code)
    assert "Interpreter /no/python doesn't exist" in all_words(test)
    with Store.open(home) as store:
        run_id = store.runs.add(Launch("train.py", config, Program("ada"), demand=ONE, command=command))
        query = clone_query(store.read.runs.one(run_id))
    test = opened("launch", query)
    assert f"Command and settings of [run {run_id}]" in all_words(test)
    assert test.number_input(key="form.train.py.lr").value == 0.5
    test.number_input(key="form.train.py.lr").set_value(0.7).run()
    assert f"clone={run_id}&set=lr:0.7" in " ".join(each.value for each in test.code)


def test_a_recipe_is_saved_with_the_forms_values_chosen_again_and_hidden(
    project: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "ada")
    test = paste("python train.py --lr 0.1", project)
    test.number_input(key="form.train.py.lr").set_value(0.3).run()
    test.text_input(key="own.recipe.train.py").set_value("digits")
    test.text_input(key="own.recipe.metric.train.py").set_value("val/accuracy")
    test.button(key="own.recipe.save").click().run()
    with Reader.open(home) as reader:
        (recipe,) = reader.recipes.everyone()
    assert recipe.command.rendered().text == "python train.py --lr 0.3"
    assert (recipe.name, recipe.command.result, recipe.command.better) == ("digits", "val/accuracy", "max")
    assert test.radio(key="launch.recipe").value == "digits"
    assert test.number_input(key="form.digits.lr").value == 0.3
    test.button(key="once.launch").click().run()
    with Reader.open(home) as reader:
        assert reader.runs.one(1).experiment == "digits"
    test = opened("launch", {"recipe": "digits"})
    test.button(key="own.hide").click().run()
    with Reader.open(home) as reader:
        assert reader.recipes.everyone() == []
    assert not [each for each in test.radio if each.key == "launch.recipe"]


@pytest.mark.parametrize("text", ["", "python train.py --lr 0.1"])
def test_without_the_permission_the_reason_is_in_the_place_of_the_fields(
    home: Home, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(current_user, "why_no_commands", lambda: "Only admins can run commands. Ask an admin.")
    test = opened("launch", {"command": text})
    assert "Only admins can run commands. Ask an admin." in all_words(test)
    assert not test.text_area and not test.text_input and not test.selectbox and not test.code
    assert "once.launch" not in [button.key for button in test.button]


def test_the_ranking_metric_of_a_script_holds_for_its_runs_and_its_later_commands(home: Home) -> None:
    ada = Program("ada")
    with Store.open(home) as store:
        first, second = (
            store.runs.add(Launch("train.py", {}, ada, demand=ONE, command=read_command(f"python train.py --lr {lr}")))
            for lr in (1, 2)
        )
        store.db.connection.execute("INSERT INTO metrics (run_id, name, count, nonfinite) VALUES (1, 'val', 1, 0)")
        with pytest.raises(UnknownName, match="vall"):
            store.recipes.rank_by(first, "vall", "max", by=ada)
        store.recipes.rank_by(first, "val", "max", by=ada)
        third = store.runs.add(Launch("train.py", {}, ada, demand=ONE, command=read_command("python train.py --lr 3")))
        entries = [store.read.runs.entry(run_id) for run_id in (first, second, third)]
    assert [(each.ranked_by, each.better) for each in entries] == [("val", "max")] * 3
