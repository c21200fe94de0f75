"""The data folder of a run is that of whoever launched it, on this machine alone: the runner's own environment changes none that was named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.store import Reader, Store
from engine.terms import Terms
from tests.store.conftest import WORKER
from tests.store.test_duels import add as add_duel
from tests.store.test_duels import run_of
from tests.store.test_sweep_changes import GRID, new, sweep

Adding = Callable[..., int]


def test_a_run_keeps_the_folder_that_the_environment_names_as_a_whole_path(
    add: Adding, reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARALLAB_DATA", "sets")
    named = add()
    monkeypatch.delenv("PARALLAB_DATA")
    assert [reader.run(run_id).data_folder for run_id in (named, add())] == [str(tmp_path / "sets"), None]


def test_what_the_runner_queues_keeps_the_folder_of_the_launch(store: Store, reader: Reader, running: Adding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_DATA", "/of/ada")
    lost, duel_id = running(terms=Terms(max_retries=1)), add_duel(store)
    monkeypatch.setenv("PARALLAB_DATA", "/of/the/runner")
    retry = store.lose(lost, "It is gone.", resumes=False)
    store.judge_duel(duel_id, [run_of(strategy, 0.1, 0) for strategy in (0, 1)], exclusive=True)
    judged = [run.id for part in reader.duel(duel_id).parts[2:] for run in reader.duel_runs(duel_id)[part.sweep_id]]
    assert retry and len(judged) == 2
    assert {reader.run(run_id).data_folder for run_id in (retry, *judged)} == {"/of/ada"}


def test_what_a_person_repeats_has_the_persons_folder_or_else_that_of_the_first_run(
    store: Store, reader: Reader, add: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_DATA", "/of/ada")
    parent, sweep_id = add(), sweep(store, 1)
    store.claim(2, WORKER, ())
    store.begin(2, WORKER, {})
    store.end(2, "failed", "It failed.")
    monkeypatch.setenv("PARALLAB_DATA", "/of/grace")
    theirs = add(parent_id=parent, resumes=False)
    monkeypatch.delenv("PARALLAB_DATA")
    again = add(parent_id=parent, resumes=False)
    (cell,) = store.retry_sweep(sweep_id, by="ada").values()
    (more,) = store.extend_sweep(sweep_id, GRID, {"splits": [1, 2, 3, 4], "seed": [0]}, [new(4)], by="ada")
    assert [reader.run(run_id).data_folder for run_id in (theirs, again, cell, more)] == ["/of/grace", "/of/ada", "/of/ada", "/of/ada"]
