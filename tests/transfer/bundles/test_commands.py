"""Runs of commands travel with their command; a file can't bring one that runs anything without a person who may."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, Forbidden, ImportRefused
from engine.home import Home
from engine.launch import launch, retry
from engine.script.command import read_command
from engine.script.settings import for_sweep, foreign_command
from engine.store import Launch, Store, SweepLaunch
from engine.sweep.launch import launch_sweep
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.transfer.bundles.bundle_files import changed, counts, told

COMMAND = replace(read_command("OMP_NUM_THREADS=2 torchrun --nproc-per-node 2 train.py --lr 0.1"), result="val/acc")


@pytest.fixture
def bundle(home: Home, tmp_path: Path) -> Path:
    """A bundle of a run of a command, one of an experiment, and a sweep of the command."""
    with Store.open(home) as store:
        launch(home, Launch("train.py", {"lr": 0.3}, "ada", command=replace(COMMAND, python="/usr/bin/python3")))
        launch(home, Launch("hogwild", {}, "ada"))
        launch_sweep(home, SweepLaunch(Launch("train.py", {}, "ada", command=COMMAND), {"lr": [0.1, 0.2]}))
        for run_id in (1, 2, 3, 4):
            store.runs.cancel(run_id, by="ada")
        log = home.run_folder(1) / "logs" / "rank 0.log"
        log.parent.mkdir(parents=True)
        log.write_text("loss: 1\n")
        store.worker.add_log(1, "rank 0", "logs/rank 0.log")
        write_bundle(store.read, [1, 2, 3, 4], tmp_path / "runs.zip", by="ada")
    return tmp_path / "runs.zip"


@pytest.fixture
def other(tmp_path: Path) -> Home:
    home = Home(tmp_path / "other")
    with Store.open(home) as store:
        store.people.add("Ada", "admin", by="root")
        store.people.add("Mo", "member", by="Ada")
    return home


def test_a_run_comes_with_its_command_but_for_the_interpreter_of_the_other_machine(
    home: Home, other: Home, bundle: Path
) -> None:
    with Store.open(other) as store:
        import_path(store, bundle, by="Mo")
        runs = [store.read.runs.one(run_id) for run_id in (1, 2, 3, 4)]
        assert [run.command for run in runs] == [COMMAND, None, for_sweep(COMMAND), for_sweep(COMMAND)]
        assert store.read.sweeps.one(1).command == for_sweep(COMMAND)
        assert store.read.runs.entry(1).ranked_by == "val/acc"
    assert (other.run_folder(1) / "logs" / "rank 0.log").read_text() == "loss: 1\n"
    ours, theirs = told(home, 1), told(other, 1)
    assert ours["python"] == "/usr/bin/python3" and theirs["python"] == ""
    changed_here = {"python", "owner"}
    assert {**ours, **dict.fromkeys(changed_here)} == {**theirs, **dict.fromkeys(changed_here)}


def test_an_imported_command_runs_only_for_a_person_who_may_run_commands(other: Home, bundle: Path) -> None:
    with Store.open(other) as store:
        import_path(store, bundle, by="Mo")
        for way in (
            lambda: retry(other, 1, owner="Mo"),
            lambda: store.sweeps.retry(1, by="Mo", statuses=["cancelled"]),
        ):
            with pytest.raises(Forbidden, match="can grant it to Mo"):
                way()
        assert store.read.runs.count(statuses=["queued"]) == 0
        store.people.allow("Mo", "run commands", by="Ada")
        assert store.read.runs.one(retry(other, 1, owner="Mo")).command == COMMAND


def _edited(table: str, column: str, value: Callable[[Any], Any]) -> Callable[[dict[str, bytes]], None]:
    def change(held: dict[str, bytes]) -> None:
        about = json.loads(held["parallab.json"])
        at = about["tables"][table]["columns"].index(column)
        rows = [json.loads(line) for line in held[f"{table}.jsonl"].splitlines()]
        for row in rows:
            row[at] = value(row[at])
        held[f"{table}.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    return change


def _of_an_experiment(held: dict[str, bytes]) -> None:
    for table in ("runs", "sweeps"):
        _edited(table, "experiment", lambda name: "hogwild")(held)


def _renamed(held: dict[str, bytes]) -> None:
    held["parallab.json"] = held["parallab.json"].replace(b'"command"', b'"command_id"')


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_of_an_experiment, "gives the experiment hogwild a command"),
        (_edited("runs", "command", lambda spec: spec and '{"argv": "rm"}'), "argv has a wrong value"),
        (_edited("runs", "command", lambda spec: spec and "[]"), "command is not a JSON object"),
        (_edited("sweeps", "command", lambda spec: '{"argv": []}'), "The command is empty"),
        (_renamed, "has a column 'command_id'"),
    ],
)
def test_a_changed_command_is_refused_and_leaves_nothing(
    other: Home, bundle: Path, change: Callable[[dict[str, bytes]], None], why: str
) -> None:
    with Store.open(other) as store:
        before = counts(store)
        with pytest.raises(ImportRefused, match=why):
            import_path(store, changed(bundle, change), by="Mo")
        assert counts(store) == before


def test_what_a_file_says_of_who_starts_a_script_counts_for_nothing() -> None:
    spec = {
        **COMMAND.plain(),
        "launcher": "opaque",
        "script": "/evil.py",
        "name": "x",
        "python": "/evil",
        "program_at": 3,
    }
    assert foreign_command(json.dumps(spec)) == COMMAND


@pytest.mark.parametrize(
    "field",
    [
        {"spans": [[0, 1]]},
        {"spans": [[3, 99]]},
        {"at": 0},
        {"default": {"a": 1}},
        {"choices": [[1]]},
        {"name": "lr", "style": "odd"},
    ],
)
def test_a_field_that_could_not_be_read_from_the_words_is_refused(field: dict[str, Any]) -> None:
    plain = COMMAND.plain()
    plain["fields"][-1] |= field
    with pytest.raises(ConfigError, match="The command is damaged or was edited"):
        foreign_command(json.dumps(plain))


def test_runs_without_commands_make_a_bundle_that_earlier_versions_read(home: Home, tmp_path: Path) -> None:
    with Store.open(home) as store:
        store.runs.cancel(launch(home, Launch("hogwild", {}, "ada")), by="ada")
        write_bundle(store.read, [1], tmp_path / "plain.zip", by="ada")

    def check(held: dict[str, bytes]) -> None:
        columns = json.loads(held["parallab.json"])["tables"]["runs"]["columns"]
        assert not {"command", "command_id"} & set(columns)

    changed(tmp_path / "plain.zip", check)
