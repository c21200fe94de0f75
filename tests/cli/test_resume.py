"""`resume` and `retry`: what can't be resumed says why and how to mend it; what can is queued as a new run
(test_real_runs.py carries one out).
"""

import json
from collections.abc import Callable

import pytest

from engine.errors import NoCheckpoint
from engine.home import Home
from engine.launch import resume, why_not_resumable
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.seeding import SEEDING
from engine.store import Demand, Launch, Reader, Status, Store
from engine.system.checkpoint_state import go_on_from_parent
from engine.system.processes import me
from tests.checkpoints import lay, lay_former, lay_of
from tests.cli.conftest import Parallab


@pytest.fixture
def left(store: Store) -> Callable[..., int]:
    """Queue a run and, unless it is to stay queued, take it to a status."""

    def leave(status: Status, experiment_name: str = "reference") -> int:
        config = experiment(experiment_name).configure("quick").model_dump(mode="json")
        run_id = store.runs.add(Launch(experiment_name, config, "ada", "quick", "mine", demand=Demand(1, 0, 1, 1)))
        if status != "queued":
            store.claims.claim(run_id, me(), [])
            store.worker.begin(run_id, me(), {})
            store.worker.mark_running(run_id, 1.0)
        if status in ("finished", "failed", "cancelled", "lost"):
            store.claims.end(run_id, status, "It ended.")
        return run_id

    return leave


def save(home: Home, run_id: int) -> None:
    lay_of(home, run_id, 1200, time_s=12.5)


def test_what_cannot_be_resumed_says_why(parallab: Parallab, home: Home, left: Callable[..., int]) -> None:
    cases = {
        left("running"): "it is running. Cancel it, or wait",
        left("queued"): "it is queued",
        left("finished"): "it has finished",
        left("cancelled", "hogwild"): "the experiment hogwild has no checkpoints",
        left("failed"): "it failed before its first checkpoint. Correct what its cause names",
        left("cancelled"): "it has no checkpoint. Launch it again with a shorter checkpoint_every_s",
    }
    with Reader.open(home) as reader:
        for run_id, words in cases.items():
            refusal = why_not_resumable(home, reader.runs.one(run_id))
            assert str(refusal).startswith(f"Run {run_id} can't be resumed: ")
            assert words in str(refusal)
    told = parallab("resume", str(max(cases)), "--no-runner")
    assert (told.returncode, told.stdout, "checkpoint_every_s" in told.stderr) == (2, "", True)


def test_a_run_that_drew_by_another_rule_is_retried_not_resumed(
    parallab: Parallab, home: Home, store: Store, left: Callable[..., int]
) -> None:
    run_id = left("cancelled")
    save(home, run_id)
    with store.db.change() as connection:  # an older version carried it out
        connection.execute("UPDATE runs SET seeding = 1 WHERE id = ?", [run_id])
    refused = parallab("resume", str(run_id), "--no-runner")
    assert refused.returncode == 2
    assert "used random number rule 1 (seeding), but this version uses rule 2" in refused.stderr
    assert "Retry it" in refused.stderr
    assert parallab("retry", str(run_id), "--no-runner").returncode == 0
    with Reader.open(home) as reader:
        assert (reader.runs.one(run_id + 1).seeding, reader.runs.one(run_id + 1).resumes) == (SEEDING, False)


def test_a_resumption_that_waited_over_an_update_fails_with_the_cure(
    home: Home, store: Store, left: Callable[..., int]
) -> None:
    parent = left("cancelled")
    save(home, parent)
    child = store.runs.add(
        Launch("reference", store.read.runs.one(parent).config, "ada", parent_id=parent, demand=Demand(1, 0, 1, 1))
    )
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET seeding = 1 WHERE id = ?", [parent])
    with pytest.raises(NoCheckpoint, match="Retry it, which repeats it from the start"):
        go_on_from_parent(store, store.read.runs.one(child), home.run_folder(child))


@pytest.mark.parametrize("former", [False, True])
def test_the_checkpoint_of_another_run_is_refused_and_the_run_is_retried(
    parallab: Parallab, home: Home, store: Store, left: Callable[..., int], former: bool
) -> None:
    """As after half a restore: the folder of a run that had the same number."""
    run_id = left("cancelled")
    if former:
        lay_former(home.run_folder(run_id), 1200)  # long before this run began
    else:
        lay(home.run_folder(run_id), 1200, run="0" * 32)
    refused = parallab("resume", str(run_id), "--no-runner")
    assert refused.returncode == 2
    assert (
        f"Run {run_id} can't be resumed: the checkpoint in its folder is that of another run. Retry" in refused.stderr
    )
    child = store.runs.add(
        Launch("reference", store.read.runs.one(run_id).config, "ada", parent_id=run_id, demand=Demand(1, 0, 1, 1))
    )
    with pytest.raises(NoCheckpoint, match="is that of another run"):
        go_on_from_parent(store, store.read.runs.one(child), home.run_folder(child))
    assert not home.run_folder(child).exists()
    assert parallab("retry", str(run_id), "--no-runner").returncode == 0


def test_a_run_that_resumed_is_resumed_from_its_parents_checkpoint_until_it_has_its_own(
    home: Home, store: Store, left: Callable[..., int]
) -> None:
    first = left("cancelled")
    save(home, first)
    second = resume(home, first, owner="ada")
    go_on_from_parent(store, store.read.runs.one(second), home.run_folder(second))
    store.runs.cancel(second, by="ada")
    third = resume(home, second, owner="ada")
    path = go_on_from_parent(store, store.read.runs.one(third), home.run_folder(third))
    assert path == home.run_folder(third) / "resumed.pt"
    assert store.read.runs.one(third).resumed_uid == store.read.runs.one(first).uid


@pytest.mark.parametrize("status", ["failed", "cancelled", "lost"])
def test_a_run_with_a_checkpoint_is_queued_anew_with_the_same_settings(
    home: Home, left: Callable[..., int], status: Status
) -> None:
    run_id = left(status)
    save(home, run_id)
    assert resume(home, run_id, owner="bea") == run_id + 1
    with Reader.open(home) as reader:
        old, new = reader.runs.one(run_id), reader.runs.one(run_id + 1)
    assert (new.config, new.preset, new.name, new.experiment) == (old.config, old.preset, old.name, old.experiment)
    assert (new.parent_id, new.owner, new.status, old.status) == (run_id, "bea", "queued", status)


# ---- retried -------------------------------------------------------------------------------------------------------


def test_a_launch_keeps_its_limits_and_a_retry_has_them_too(parallab: Parallab, home: Home, store: Store) -> None:
    options = ("--set", "dataset=synthetic", "--max-run-time", "90", "--max-retries", "2", "--no-runner", "--json")
    assert json.loads(parallab("submit", "reference", *options).stdout) == {"id": 1}
    store.runs.cancel(1, by="ada")
    assert json.loads(parallab("retry", "1", "--no-runner", "--json").stdout) == {"id": 2, "parent_id": 1}
    with Reader.open(home) as reader:
        old, new = reader.runs.one(1), reader.runs.one(2)
    assert (old.terms, new.terms) == (
        LaunchOptions(max_run_time_s=90.0, max_retries=2),
        LaunchOptions(max_run_time_s=90.0, max_retries=2),
    )
    assert (new.config, new.parent_id, new.resumes, new.status) == (old.config, 1, False, "queued")
    shown = parallab("show", "2").stdout
    assert "retries     run 1" in shown
    assert "at most 90 s, retry 0 of 2" in shown
    assert json.loads(parallab("show", "1", "--json").stdout)["retried_as"] == [2]


def test_what_cannot_be_retried_says_why(parallab: Parallab, live: int, queued: Callable[..., int]) -> None:
    for run_id, words in ((live, "while it is running. Cancel it"), (queued(), "it is queued")):
        told = parallab("retry", str(run_id), "--no-runner")
        assert (told.returncode, told.stdout) == (2, "")
        assert words in told.stderr


def test_limits_out_of_bounds_are_refused(parallab: Parallab, home: Home) -> None:
    told = parallab("submit", "hogwild", "--max-run-time", "0.2", "--max-retries", "99", "--no-runner")
    assert told.returncode == 2
    assert "Time limit must be from 1 to" in told.stderr
    assert "Retries must be from 0 to 10" in told.stderr
    with Reader.open(home) as reader:
        assert reader.runs.count() == 0
