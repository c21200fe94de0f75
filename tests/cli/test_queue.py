"""The queue from the command line: listed with reasons, held, released, moved, and its limit."""

import json
from collections.abc import Callable
from math import inf

import pytest

from engine.cli import runner
from engine.cli.launch import RunWatch
from engine.home import Home
from engine.runner.shared_settings import RESTART
from engine.store import Reader, Store
from engine.store.runs.details import RunDetails
from engine.store.timestamps import now
from engine.trace.health import Health, Verdict
from tests.cli.conftest import Parallab
from tests.labs import clusters, small

SUBMIT = ("submit", "hogwild", "--preset", "quick", "--no-runner")


def order(home: Home) -> list[int]:
    with Reader.open(home) as reader:
        return [run.id for run in reader.queue.waiting()]


def test_the_queue_is_listed_in_order_with_reasons(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    small.without_a_runner(home)
    queued()
    parallab(*SUBMIT, "--priority", "high", "--oversubscribe", "--set", "trainers=1")
    with Store.open(home) as store:
        store.queue.hold(1, by="bea")
    told = json.loads(parallab("queue", "--json").stdout)
    assert (told["max_running_per_person"], told["queued"]) == (None, 2)
    assert [(run["id"], run["priority"], run["oversubscribe"], run["reason"]) for run in told["runs"]] == [
        (2, "high", True, "starts next"),
        (1, "normal", False, "held by bea"),
    ]
    assert [(run["takes"], run["starts_in_s"]) for run in told["runs"]] == [(None, 0.0), (None, None)]
    lines = parallab("queue").stdout.splitlines()
    assert lines[0].split() == [
        "ID",
        "PRIORITY",
        "EXPERIMENT",
        "NAME",
        "OWNER",
        "CORES",
        "GPUS",
        "TAKES",
        "STARTS",
        "WHY",
    ]
    assert lines[1].endswith("at once  starts next")
    assert lines[2].endswith("held by bea")
    assert parallab("ranks", "1").stdout == "QUEUED. Run 1 is queued: held by bea.\n"


def test_run_with_detach_does_what_submit_does(parallab: Parallab, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[bool] = []
    monkeypatch.setattr("engine.cli.launch.see_to_runner", lambda home, *, unless: starts.append(unless))
    detached, submitted = (
        parallab(*words, "hogwild", "--preset", "quick") for words in (("run", "--detach"), ("submit",))
    )
    assert detached.stdout.startswith("Run 1 queued.") and starts == [False, False]
    assert (detached.returncode, submitted.stdout) == (0, detached.stdout.replace("1", "2"))
    assert json.loads(parallab("run", "hogwild", "--preset", "quick", "--detach", "--json").stdout) == {"id": 3}
    assert order(home) == [1, 2, 3]
    assert "--detach" in "".join(parallab("run", "--help").stdout.splitlines()[:5]), "its first lines say so"


def test_runs_are_held_released_and_moved(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    for _ in range(4):
        queued()
    assert parallab("hold", "1", "2").stdout == "Run 1 is on hold.\nRun 2 is on hold.\n"
    assert json.loads(parallab("release", "1", "--json").stdout) == {"runs": [1], "now": "released"}
    parallab("move", "3", "4", "--to", "front")
    assert order(home) == [3, 4, 1, 2]
    assert (
        parallab("move", "2", "--priority", "high", "--to", "back").stdout
        == "Run 2 is of high priority, at the back of its priority.\n"
    )
    assert order(home) == [2, 3, 4, 1]
    with Reader.open(home) as reader:
        assert (reader.runs.one(1).held_by, reader.runs.one(2).held_by) == (None, "ada")


def test_the_share_of_a_person_is_set_and_told(parallab: Parallab) -> None:
    assert parallab("queue", "--max-per-person", "3").stdout == "Running runs per person: 3.\nThe queue is empty.\n"
    assert json.loads(parallab("queue", "--json").stdout) == {"max_running_per_person": 3, "queued": 0, "runs": []}
    assert "Running runs per person: no limit." in parallab("queue", "--max-per-person", "none").stdout


@pytest.mark.parametrize("starts", [True, False])
def test_only_who_finds_a_runner_that_serves_is_told_of_its_settings(
    parallab: Parallab, home: Home, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    monkeypatch.setattr(runner, "ensure_running", lambda home: starts)
    monkeypatch.setattr(runner, "ignored_settings", lambda home: ["PARALLAB_DATA is another."])
    told = parallab(*SUBMIT[:-1]).stderr
    assert told == ("" if starts else f"PARALLAB_DATA is another. {RESTART}\n")


def test_a_run_on_a_cluster_waits_for_slurm_and_tells_its_job(parallab: Parallab, home: Home) -> None:
    clusters.write(home)
    parallab("submit", "parameter_server", "--preset", "quick", "--no-runner", "--on", "lab", "--nodes", "2")
    assert "runs on" in (shown := parallab("show", "1").stdout) and "lab, 2 nodes" in shown
    assert json.loads(parallab("show", "1", "--json").stdout)["job"] is None
    with Store.open(home) as store:
        clusters.submitted(store, 1)
    assert "lab, 2 nodes, job 101: PENDING (Resources)" in parallab("show", "1").stdout
    told = json.loads(parallab("show", "1", "--json").stdout)
    assert told["job"] == {"job_id": "101", "state": "PENDING", "reason": "Resources", "nodes": "", "cluster": "lab"}
    assert "waits on lab: Resources" in parallab("queue").stdout


def test_a_followed_run_says_why_it_waits_and_what_stands_still(
    home: Home,
    queued: Callable[..., int],
    live: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small.without_a_runner(home)
    hung = Health(now(), (), Verdict("HUNG", "trainer1", "stuck", "trainer1 makes no progress."))
    well = Health(now(), (), Verdict("STARTING"))
    monkeypatch.setattr(RunDetails, "health_now", lambda details, run_id: hung if run_id == live else well)
    waiting = queued("mine")
    for run_id in (waiting, live):
        watch = RunWatch(home, run_id, "ada")
        watch.tells_wait_at, watch.checked_at = 0.0, inf
        for _ in range(2):
            watch._look()
            watch.token = -1
    said = capsys.readouterr().err
    assert said.count(f"Run {waiting} is queued: ") == 1
    assert f"Run {live} stands still: trainer1 makes no progress. See: python -m engine ranks {live}" in said
    assert said.count("\ntrainer1 makes no progress. See:") == 1, "once, by the one that follows it"
