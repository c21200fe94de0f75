"""Sweeps: queued whole or not at all, read without a look at a metric point, and ended by one command."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.errors import ConfigError, NoSuchSweep, WrongStatus
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, NewRun, RankBatch, RankRow, Reader, Store
from tests.store.conftest import WORKER

GRID = {"splits": [1, 2], "lock": [True, False], "rate": [0.1, None], "seed": [3, 4]}


def sweep(store: Store, count: int = 3, *, owner: str = "ada", name: str = "bubble") -> int:
    runs = [NewRun({"splits": number, "seed": 3}, Demand(number, 0, number, 1), f"splits {number}") for number in range(1, count + 1)]
    return store.add_sweep("pipeline", GRID, runs, owner=owner, preset="quick", name=name)


def start(store: Store, run_id: int) -> None:
    assert store.claim(run_id, WORKER, ())
    store.begin(run_id, WORKER, {})
    store.mark_running(run_id, 0.5)


def test_a_sweep_comes_back_with_its_grid_and_its_runs_in_order(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    add()
    sweep_id = sweep(store)
    found = reader.sweep(sweep_id)
    assert (found.experiment, found.name, found.owner, found.total, found.ended, found.active) == ("pipeline", "bubble", "ada", 3, 0, True)
    assert found.grid == {"splits": (1, 2), "lock": (True, False), "rate": (0.1, None), "seed": (3, 4)}
    assert [type(value) for value in found.grid["rate"]] == [float, type(None)]
    assert (found.fields, found.seeds, found.statuses) == (("splits", "lock", "rate"), (3, 4), {"queued": 3})
    runs = reader.sweep_runs(sweep_id)
    assert [(run.id, run.name, run.preset, run.config["splits"], run.sweep_id) for run in runs] == [
        (2, "splits 1", "quick", 1, sweep_id),
        (3, "splits 2", "quick", 2, sweep_id),
        (4, "splits 3", "quick", 3, sweep_id),
    ]
    assert reader.run(3).sweep_id == sweep_id
    assert reader.run(3).demand == Demand(2, 0, 2, 1)
    assert [(event.kind, event.who) for event in reader.events(4)] == [("queued", "ada")]
    assert (reader.run(1).sweep_id, reader.entry(1).sweep_id) == (None, None)


def test_runs_are_filtered_by_their_sweep(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, _, second = sweep(store, 2), add(), sweep(store, 1)
    assert [run.id for run in reader.runs(sweep=first)] == [2, 1]
    assert [run.id for run in reader.runs(sweep=second, statuses=["queued"])] == [4]
    assert (reader.count(sweep=first), reader.count(sweep=99), reader.count()) == (2, 0, 4)


def test_sweeps_come_newest_first_a_page_at_a_time(store: Store, reader: Reader) -> None:
    made = [sweep(store, 1) for _ in range(3)]
    assert [found.id for found in reader.sweeps()] == made[::-1]
    assert [found.id for found in reader.sweeps(limit=1, offset=1)] == [made[1]]
    assert reader.count_sweeps() == 3


def test_a_sweep_is_queued_whole_or_not_at_all(home: Home, store: Store, reader: Reader) -> None:
    broken = [NewRun({"splits": 1}, Demand(1, 0, 1, 1), "good"), NewRun({"splits": {2}}, Demand(1, 0, 1, 1), "no JSON can hold a set")]
    with pytest.raises(TypeError):
        store.add_sweep("pipeline", GRID, broken, owner="ada")
    with pytest.raises(ConfigError, match="at least one run"):
        store.add_sweep("pipeline", GRID, [], owner="ada")
    assert (reader.count(), reader.count_sweeps(), reader.token()) == (0, 0, 0)


def test_its_token_changes_with_its_own_runs_alone(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    sweep_id, other = sweep(store), add()
    before = reader.sweep_token(sweep_id)
    store.add_tag(other, "x", by="ada")
    assert reader.sweep_token(sweep_id) == before
    start(store, 2)
    assert reader.sweep_token(sweep_id) == reader.token(2) > before
    assert reader.sweep_token(99) == 0


def test_a_cancel_ends_queued_runs_at_once_stops_live_ones_and_leaves_the_ended(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 4)
    start(store, 1)
    store.end(1, "finished", "Done.", execution_time_s=2.0)
    start(store, 2)
    assert store.request_cancel_sweep(sweep_id, by="grace") == {2: "stopping", 3: "cancelled", 4: "cancelled"}
    assert reader.sweep(sweep_id).statuses == {"stopping": 1, "finished": 1, "cancelled": 2}
    assert [reader.run(3).cause, reader.run(3).stop_requested_by, reader.events(3)[-1].who] == ["Cancelled by grace.", "grace", "grace"]
    tokens = [reader.token(run_id) for run_id in (2, 3, 4)]
    assert tokens == sorted(set(tokens))
    asked = reader.run(2)
    assert store.request_cancel_sweep(sweep_id, by="linus") == {2: "stopping"}, "asking twice changes nothing"
    assert reader.run(2) == asked
    store.end(2, "cancelled", "Cancelled by grace.")
    with pytest.raises(WrongStatus, match=f"Sweep {sweep_id} can't be cancelled: all its 4 runs have ended already"):
        store.request_cancel_sweep(sweep_id, by="ada")


def test_a_sweep_that_is_not_there_is_said(store: Store, reader: Reader) -> None:
    for question in (lambda: reader.sweep(7), lambda: store.request_cancel_sweep(7, by="ada")):
        with pytest.raises(NoSuchSweep, match="No sweep has the id 7 "):
            question()
    assert reader.sweep_runs(7) == []


def test_numbers_by_rank_are_those_of_finished_runs(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 2)
    for run_id in (1, 2):
        start(store, run_id)
        store.add_ranks(run_id, [RankRow(rank, f"stage{rank + 1}", None, "cpu", "running", None, None, None) for rank in range(2)])
        held = [RankBatch(rank, [Point("perf/activations_held", step, value, 0.0) for step, value in enumerate((3.0, 5.0 - rank))]) for rank in range(2)]
        store.write(run_id, held, run_points=[Point("perf/activations_held", 0, 99.0, 0.0)])
    store.end(1, "finished", "Done.")
    assert [(found.run_id, found.role, found.value) for found in reader.rank_numbers(sweep_id, "perf/activations_held")] == [
        (1, "stage1", 5.0),
        (1, "stage2", 4.0),
    ]


def test_the_mean_of_a_metric_is_the_whole_runs_else_over_all_points_of_its_ranks(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 1)
    start(store, 1)
    ranks = [RankBatch(0, [Point("train/loss", step, 1.0, 0.0) for step in range(3)]), RankBatch(1, [Point("train/loss", 0, 5.0, 0.0)])]
    store.write(1, ranks, run_points=[Point("test/accuracy", step, value, 0.0) for step, value in enumerate((50.0, 90.0))])
    assert reader.sweep_runs(sweep_id)[0].mean == {"train/loss": 2.0, "test/accuracy": 70.0}


def test_a_sweeps_questions_use_indexes_and_no_metric_point(home: Home, store: Store, reader: Reader) -> None:
    sweep_id = sweep(store)
    asked: list[str] = []
    reader.connection.set_trace_callback(asked.append)
    reader.sweep(sweep_id)
    reader.sweep_runs(sweep_id)
    reader.sweep_token(sweep_id)
    reader.rank_numbers(sweep_id, "perf/peak_memory")
    reader.runs(sweep=sweep_id)
    reader.connection.set_trace_callback(None)
    questions = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(questions) >= 6
    for sql in questions:
        plan = [row["detail"] for row in reader.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert not [step for step in plan if "points" in step or step.startswith(("SCAN runs", "SCAN metrics", "SCAN ranks"))], (sql, plan)
    with closing(sqlite3.connect(home.database)) as connection:
        connection.execute("DROP TABLE points")
    assert len(reader.sweep_runs(sweep_id)) == 3
