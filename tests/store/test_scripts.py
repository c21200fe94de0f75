"""Commands of the lab's own scripts in the store: each once, with all its runs and sweeps; launched, repeated and
extended as experiments are.
"""

import json
import sqlite3
from dataclasses import replace
from functools import partial

import pytest

from engine.access.rules import Program
from engine.analysis.result import ranked
from engine.analysis.run_values import metric_among, setting_among
from engine.errors import ConfigError, NoCheckpoint
from engine.filter import read_filter
from engine.home import Home
from engine.launch import launch, resume, retry
from engine.launch_options import LaunchOptions
from engine.metrics import MetricSetting
from engine.recorder import Point
from engine.script.command import read_command
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.launches import Timing
from engine.sweep.extend import extend_sweep
from engine.sweep.launch import launch_sweep
from tests.stand_in import worker

COMMAND = replace(read_command("python train.py --lr 0.1 --seed 4 --name 'a b'", folder="/somewhere"), result="val/acc")


def _number_of_commands(store: Store) -> int:
    return store.db.number("SELECT count(*) FROM commands")


def test_a_run_comes_back_with_its_command_which_is_stored_once(home: Home, store: Store, reader: Reader) -> None:
    command = replace(COMMAND, better="max")
    ids = [launch(home, Launch(command.name, {"lr": lr}, "ada", command=command)) for lr in (0.1, 0.2)]
    run = reader.runs.one(ids[1])
    assert run.command == command and run.experiment == "train.py"
    assert run.config == {"lr": 0.2, "seed": 4, "name": "a b"}
    assert run.command.rendered(run.config).argv == [
        "python",
        "train.py",
        "--lr",
        "0.2",
        "--seed",
        "4",
        "--name",
        "a b",
    ]
    row = reader.runs.entry(ids[0])
    assert (row.command_id, row.ranked_by, row.better) == (run.command_id, "val/acc", "max")
    assert _number_of_commands(store) == 1 and ranked(row) is None
    result = ranked(replace(row, last={"loss": 0.1, "val/acc": 0.5}))
    assert result and result.plain == {"metric": "val/acc", "statistic": "last", "value": 0.5}
    plain = reader.runs.entry(launch(home, Launch("hogwild", {}, "ada")))
    assert (plain.command_id, plain.ranked_by) == (None, "")


def test_a_wrong_setting_and_the_name_of_an_experiment_of_parallab_are_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match="lr must be a number, got 'high'"):
        launch(home, Launch("train.py", {"lr": "high"}, "ada", command=COMMAND))
    asked = Launch("hogwild", {}, "ada", command=COMMAND)
    with pytest.raises(ConfigError, match="'hogwild' is an experiment of Parallab"):
        launch(home, asked)
    with pytest.raises(ConfigError, match="'hogwild' is an experiment of Parallab"):
        launch_sweep(home, SweepLaunch(asked, {"lr": [1]}))


def test_an_ended_run_is_retried_with_its_command_and_never_resumed(home: Home, store: Store, reader: Reader) -> None:
    first = launch(home, Launch("train.py", {"lr": 0.3}, "ada", command=COMMAND))
    store.runs.cancel(first, by="ada")
    again = reader.runs.one(retry(home, first, owner="ada"))
    assert (again.command, again.config["lr"], again.parent_id) == (COMMAND, 0.3, first)
    with pytest.raises(NoCheckpoint, match="Parallab doesn't know the checkpoints of a script"):
        resume(home, first, owner="ada")


def test_a_sweep_of_a_command_is_launched_retried_and_extended(home: Home, store: Store, reader: Reader) -> None:
    command = read_command("python train.py --lr 0.1 --trial 7")
    shared = Launch("train.py", {"trial": 3}, "ada", name="rates", command=command)
    sweep_id = launch_sweep(home, SweepLaunch(shared, {"lr": [0.1, 0.2]}, 2, seed_field="trial"))
    runs = [reader.runs.one(row.id) for row in reader.sweeps.runs(sweep_id)]
    assert [run.config for run in runs] == [{"lr": lr, "seed": seed} for seed in (3, 4) for lr in (0.1, 0.2)]
    assert runs[3].command and runs[3].command.rendered(runs[3].config).argv[-2:] == ["--trial", "4"]
    sweep = reader.sweeps.one(sweep_id)
    assert sweep.command == runs[0].command and sweep.seeds == (3, 4)
    store.sweeps.cancel(sweep_id, by="ada")
    again = store.sweeps.retry(sweep_id, by="ada", statuses=["cancelled"])
    assert len(again) == 4
    new = extend_sweep(home, sweep_id, {"lr": [0.4]}, 1, owner="ada")
    added = [reader.runs.one(run_id) for run_id in new]
    assert [(run.config["lr"], run.config["seed"]) for run in added] == [
        (0.4, 3),
        (0.4, 4),
        (0.1, 5),
        (0.2, 5),
        (0.4, 5),
    ]
    assert {run.command for run in added} == {sweep.command} and _number_of_commands(store) == 1


def test_repeats_of_a_command_without_a_seed_are_cells_of_their_own(home: Home, reader: Reader) -> None:
    shared = Launch("train.py", {}, "ada", command=read_command("python train.py --workers 1"))
    sweep_id = launch_sweep(home, SweepLaunch(shared, {"workers": [1, 2]}, 6, timing=Timing()))
    runs = [reader.runs.one(row.id) for row in reader.sweeps.runs(sweep_id)]
    assert len(runs) == 13 and len({json.dumps(run.config) for run in runs}) == 13
    written = [tuple(run.command.rendered(run.config).argv) for run in runs if run.command]
    assert set(written) == {("python", "train.py", "--workers", str(count)) for count in (1, 2)}


def test_the_seeds_of_an_experiment_of_parallab_go_to_its_own_setting(home: Home) -> None:
    with pytest.raises(ConfigError, match="hogwild takes the seeds as its setting seed"):
        launch_sweep(home, SweepLaunch(Launch("hogwild", {}, "ada"), {"trainers": [1]}, seed_field="batch_size"))


@pytest.mark.schema
def test_a_command_that_runs_refer_to_is_never_deleted(home: Home, store: Store) -> None:
    launch(home, Launch("train.py", {}, "ada", command=COMMAND))
    with pytest.raises(sqlite3.IntegrityError):
        store.db.connection.execute("DELETE FROM commands")


def test_a_metrics_setting_holds_for_all_runs_of_a_script_and_a_ranking_metric_keeps_a_direction(
    home: Home, store: Store, reader: Reader
) -> None:
    ada = Program("ada")
    first, second = (launch(home, Launch("train.py", {"lr": lr}, ada, command=COMMAND)) for lr in (0.1, 0.2))
    other = launch(home, Launch("eval.py", {}, ada, command=read_command("python eval.py")))
    sql = "INSERT INTO metrics (run_id, name, count, nonfinite) VALUES (?, ?, 1, 0)"
    store.db.connection.executemany(sql, [(first, "loss"), (first, "val/acc")])
    for better in ("max", "min"):
        store.recipes.set_metric(first, "loss", is_shown=False, unit=" nats ", better=better, by=ada)
    store.recipes.rank_by(first, "val/acc", "max", by=ada)
    store.recipes.set_metric(first, "val/acc", is_shown=True, unit="", better="min", by=ada)
    rows = [reader.runs.entry(run_id) for run_id in (first, second)]
    assert [(row.ranked_by, row.better) for row in rows] == [("val/acc", "min")] * 2
    found = {"loss": MetricSetting(False, "nats", "min"), "val/acc": MetricSetting(True, "", "min")}
    assert reader.recipes.metric_settings("/somewhere/train.py") == found
    assert reader.runs.entry(first).script_key == reader.runs.one(first).script_key == "/somewhere/train.py"
    rows = [replace(reader.runs.entry(run_id), last={"loss": 0.1}) for run_id in (first, second, other)]
    assert setting_among("loss", rows[:2]) == found["loss"] and setting_among("val/acc", rows[:2]) is None
    assert setting_among("loss", rows) is None
    for name, unit, better, words in (
        ("val/acc", "", "", "better must be max or min for val/acc"),
        ("los", "", "min", "Did you mean 'loss'"),
        ("loss", "u" * 21, "min", "unit must have at most 20 characters; got 21"),
    ):
        with pytest.raises(ConfigError, match=words):
            store.recipes.set_metric(first, name, is_shown=True, unit=unit, better=better, by=ada)  # type: ignore[arg-type]
    assert reader.recipes.metric_settings("/somewhere/train.py") == found
    assert store.db.number("SELECT count(*) FROM audit WHERE command = 'set metric' AND who = 'ada'") == 3


def _of(home: Home, folder: str, experiment: str = "train.py") -> int:
    return launch(home, Launch(experiment, {}, Program("ada"), command=read_command("python train.py --lr 1", folder)))


def test_scripts_of_one_name_in_other_folders_and_recipes_share_no_settings(
    home: Home, store: Store, reader: Reader
) -> None:
    ada, ids = Program("ada"), {"": [_of(home, "/a/x/.."), _of(home, "/a")], "/b": [_of(home, "/b")]}
    here, there = ids[""][0], ids["/b"][0]
    sql = "INSERT INTO metrics (run_id, name, count, nonfinite) VALUES (?, 'acc', 1, 0)"
    store.db.connection.execute(sql, [here])
    store.recipes.set_metric(here, "acc", is_shown=False, unit="%", better="max", by=ada)
    store.recipes.rank_by(here, "acc", "max", by=ada)
    assert [reader.runs.entry(run_id).ranked_by for run_id in (*ids[""], there)] == ["acc", "acc", ""]
    assert reader.recipes.metric_settings("/a/train.py") and not reader.recipes.metric_settings("/b/train.py")
    mixed = [replace(reader.runs.entry(run_id), last={"acc": 1}) for run_id in (here, there)]
    assert [metric_among("acc", runs).unit for runs in (mixed[:1], mixed)] == ["%", ""]
    assert [store.annotations.pin(run_id, by="ada") for run_id in (*ids[""], there)] == [None, here, None]

    store.recipes.save("digits", read_command("python train.py --lr 1", "/a"), by="ada")
    recipe = _of(home, "/a", "digits")
    assert (reader.runs.entry(recipe).script_key, reader.runs.entry(recipe).ranked_by) == ("digits", "acc")
    store.recipes.rank_by(here, "acc", "min", by=ada)
    assert [reader.runs.entry(run_id).better for run_id in (here, recipe)] == ["min", "max"]
    queued = {run.id: run.script_key for run in reader.queue.waiting()}
    assert [queued[run_id] for run_id in (here, there, recipe)] == ["/a/train.py", "/b/train.py", "digits"]


def test_a_recipe_that_is_saved_twice_has_one_version(store: Store) -> None:
    save = partial(store.recipes.save, "digits", read_command("python train.py --lr 1", "/a"), by="ada")
    assert [save(), save(), save(title="Digits"), save(title="Digits"), save()] == [1, 1, 2, 2, 3]


def test_the_best_value_of_a_metric_is_by_the_direction_that_a_person_set(store: Store) -> None:
    run_id, ada = launch(store.db.home, Launch("train.py", {}, Program("ada"), command=COMMAND)), Program("ada")
    store.claims.claim(run_id, worker(), [])
    points = [Point("survival_time", step, value, 1.0) for step, value in enumerate((3.0, 9.0, 5.0))]
    store.worker.write(run_id, [], run_points=points)
    assert store.read.runs.entry(run_id).best["survival_time"] == 3.0, "by its name"
    store.recipes.set_metric(run_id, "survival_time", is_shown=True, unit="s", better="max", by=ada)
    assert store.read.runs.entry(run_id).best["survival_time"] == 9.0


@pytest.mark.schema
def test_what_an_earlier_version_kept_by_name_is_kept_for_each_script_of_that_name(home: Home) -> None:
    command = read_command("python train.py --lr 1", "/a")
    with Store.open(home) as store:
        for name in ("train.py", "digits"):
            launch(home, Launch(name, {}, "ada", command=command))
        one = _of(home, "/b")
        for statement in (
            "DROP INDEX commands_script",
            "UPDATE runs SET command_id = 1 WHERE experiment = 'digits'",
            "DELETE FROM commands WHERE script = 'digits'",
            "ALTER TABLE commands DROP COLUMN script",
            "ALTER TABLE script_metrics RENAME COLUMN script TO experiment",
            "UPDATE commands SET result = 'acc', better = 'max' WHERE id = 1",
            "INSERT INTO script_metrics VALUES ('train.py', 'acc', 0, '%', 'max')",
            "UPDATE runs SET name = 'two' || char(13) || char(10) || ' lines' WHERE id = 1",
            "DELETE FROM _sqlite_migrations WHERE name IN ('scripts_of_commands', 'names_in_one_line')",
        ):
            store.db.connection.execute(statement)
    with Store.open(home) as store:
        rows = [store.read.runs.entry(run_id) for run_id in (1, 2, one)]
        assert [row.script_key for row in rows] == ["/a/train.py", "digits", "/b/train.py"]
        assert [row.ranked_by for row in rows] == ["acc", "acc", ""] and rows[0].name == "two lines"
        told = [bool(store.read.recipes.metric_settings(row.script_key)) for row in rows]
        assert told == [True, False, True]
        assert launch(home, Launch("train.py", {}, "ada", command=command)) and _number_of_commands(store) == 3


def test_a_command_starts_and_is_tried_again_only_while_its_owner_may_run_commands(home: Home) -> None:
    with Store.open(home) as store:
        for name, role in (("boss", "admin"), ("ada", "member")):
            store.people.add(name, role, by=Program("cli"), password="correct horse battery")  # type: ignore[arg-type]
        store.people.allow("ada", "run commands", by="boss")
        asked = Launch(
            "train.py", {}, "ada", terms=LaunchOptions(max_retries=3), command=read_command("python train.py")
        )
        first = launch(home, asked)
        store.claims.claim(first, worker(), [])
        second = store.claims.lose(first, "Gone.", resumes=False)
        assert second and store.claims.claim(second, worker(), [])
        queued = launch(home, asked)
        store.people.forbid("ada", "run commands", by="boss")
        assert not store.claims.claim(queued, worker(), [])
        refused = store.read.runs.one(queued)
        assert refused.status == "failed" and refused.cause.startswith("It was not started: Only admins, and members")
        assert next(iter(store.read.audit.entries(command="run commands"))).targets == (queued,)
        assert store.claims.lose(second, "Gone.", resumes=False) is None
        assert "It is not tried again: Only admins, and members" in store.read.runs.one(second).cause
        entry = next(iter(store.read.audit.entries(command="run commands")))
        assert (entry.who, entry.targets, entry.detail) == ("ada", (second,), "automatic retry") and entry.refused


def test_the_throughput_of_a_command_is_of_its_whole_run_however_it_ended(
    home: Home, store: Store, reader: Reader
) -> None:
    rate = "perf/epochs_per_second"
    ids = [launch(home, Launch(COMMAND.name, {}, "ada", command=COMMAND)) for _ in range(2)]
    for run_id, status in zip(ids, ("finished", "cancelled"), strict=True):
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), {})
        store.worker.mark_running(run_id, 1.0)
        store.worker.write(run_id, [], run_points=[Point(rate, 4, 2.0, 3.0)], progress=(4, 8, "epochs"))
        store.claims.end(run_id, status, "It ended.", execution_time_s=8.0 if status == "finished" else None)
        with store.db.change() as connection:
            times = "started_at = '2026-01-01T00:00:00+00:00', ended_at = '2026-01-01T00:00:08+00:00'"
            connection.execute(f"UPDATE runs SET {times} WHERE id = ?", [run_id])
    for run in reader.runs.some(ids):
        assert run.last[rate] == 0.5, "4 epochs in 8 s, not the pace of 2 that was recorded between two epochs"
        (summary,) = [each for each in reader.details.summaries(run.id) if each.metric == rate]
        assert summary.last == 0.5
    assert len(reader.runs.find(matching=read_filter(f"{rate}.last < 1", reader.fields.names()))) == 2
