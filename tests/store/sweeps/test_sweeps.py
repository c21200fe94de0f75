"""Sweeps: queued whole or not at all, read without a look at a metric point, and ended by one command."""

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.errors import ConfigError, NoSuchSweep, WrongStatus
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, RankRow, Reader, Store, SweepLaunch
from engine.store.launches import Draw
from engine.store.records import Status
from engine.store.timestamps import now
from tests.store.conftest import WORKER

GRID = {"splits": [1, 2], "lock": [True, False], "rate": [0.1, None], "seed": [3, 4]}


def sweep(store: Store, count: int = 3, *, owner: str = "ada", name: str = "bubble") -> int:
    runs = [
        Launch("hogwild", {"splits": number, "seed": 3}, name=f"splits {number}", demand=Demand(number, 0, number, 1))
        for number in range(1, count + 1)
    ]
    return store.sweeps.add(SweepLaunch(Launch("pipeline", {}, owner, "quick", name), GRID), runs)


def start(store: Store, run_id: int) -> None:
    assert store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    store.worker.mark_running(run_id, 0.5)


def test_a_sweep_comes_back_with_its_grid_and_its_runs_in_order(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    add()
    sweep_id = sweep(store)
    found = reader.sweeps.one(sweep_id)
    assert (found.experiment, found.name, found.owner, found.total, found.ended, found.active) == (
        "pipeline",
        "bubble",
        "ada",
        3,
        0,
        True,
    )
    assert found.grid == {"splits": (1, 2), "lock": (True, False), "rate": (0.1, None), "seed": (3, 4)}
    assert [type(value) for value in found.grid["rate"]] == [float, type(None)]
    assert (found.fields, found.seeds, found.statuses) == (("splits", "lock", "rate"), (3, 4), {"queued": 3})
    runs = reader.sweeps.runs(sweep_id)
    assert [(run.id, run.name, run.preset, run.config["splits"], run.sweep_id) for run in runs] == [
        (2, "splits 1", "quick", 1, sweep_id),
        (3, "splits 2", "quick", 2, sweep_id),
        (4, "splits 3", "quick", 3, sweep_id),
    ]
    assert reader.runs.one(3).sweep_id == sweep_id
    assert reader.runs.one(3).demand == Demand(2, 0, 2, 1)
    assert [(event.kind, event.who) for event in reader.details.events(4)] == [("queued", "ada")]
    assert (reader.runs.one(1).sweep_id, reader.runs.entry(1).sweep_id) == (None, None)


def test_runs_are_filtered_by_their_sweep(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, _, second = sweep(store, 2), add(), sweep(store, 1)
    assert [run.id for run in reader.runs.find(sweep=first)] == [2, 1]
    assert [run.id for run in reader.runs.find(sweep=second, statuses=["queued"])] == [4]
    assert (reader.runs.count(sweep=first), reader.runs.count(sweep=99), reader.runs.count()) == (2, 0, 4)


def test_sweeps_come_newest_first_a_page_at_a_time(store: Store, reader: Reader) -> None:
    made = [sweep(store, 1) for _ in range(3)]
    assert [found.id for found in reader.sweeps.recent()] == made[::-1]
    assert [found.id for found in reader.sweeps.recent(limit=1, offset=1)] == [made[1]]
    assert reader.sweeps.count() == 3


def test_a_sweep_is_queued_whole_or_not_at_all_and_one_that_is_not_there_is_said(
    home: Home, store: Store, reader: Reader
) -> None:
    broken = [
        Launch("hogwild", {"splits": 1}, name="good", demand=Demand(1, 0, 1, 1)),
        Launch("hogwild", {"splits": {2}}, name="no JSON can hold a set", demand=Demand(1, 0, 1, 1)),
    ]
    with pytest.raises(TypeError):
        store.sweeps.add(SweepLaunch(Launch("pipeline", {}, "ada"), GRID), broken)
    with pytest.raises(ConfigError, match="at least one run"):
        store.sweeps.add(SweepLaunch(Launch("pipeline", {}, "ada"), GRID), [])
    assert (reader.runs.count(), reader.sweeps.count(), reader.runs.token()) == (0, 0, 0)
    for question in (lambda: reader.sweeps.one(7), lambda: store.sweeps.cancel(7, by="ada")):
        with pytest.raises(NoSuchSweep, match="Sweep 7 doesn't exist "):
            question()
    assert reader.sweeps.runs(7) == []


def test_its_token_changes_with_its_own_runs_alone(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    sweep_id, other = sweep(store), add()
    before = reader.sweeps.token(sweep_id)
    store.annotations.tag([other], "x", by="ada")
    assert reader.sweeps.token(sweep_id) == before
    start(store, 2)
    assert reader.sweeps.token(sweep_id) == reader.runs.token(2) > before
    assert reader.sweeps.token(99) == 0


def test_a_cancel_ends_queued_runs_at_once_stops_live_ones_and_leaves_the_ended(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 4)
    start(store, 1)
    store.claims.end(1, "finished", "Done.", execution_time_s=2.0)
    start(store, 2)
    assert store.sweeps.cancel(sweep_id, by="grace") == {2: "stopping", 3: "cancelled", 4: "cancelled"}
    assert reader.sweeps.one(sweep_id).statuses == {"stopping": 1, "finished": 1, "cancelled": 2}
    assert [reader.runs.one(3).cause, reader.runs.one(3).stop_requested_by, reader.details.events(3)[-1].who] == [
        "Cancelled by grace.",
        "grace",
        "grace",
    ]
    tokens = [reader.runs.token(run_id) for run_id in (2, 3, 4)]
    assert tokens == sorted(set(tokens))
    asked = reader.runs.one(2)
    assert store.sweeps.cancel(sweep_id, by="linus") == {2: "stopping"}, "asking twice changes nothing"
    assert reader.runs.one(2) == asked
    store.claims.end(2, "cancelled", "Cancelled by grace.")
    with pytest.raises(WrongStatus, match=f"Sweep {sweep_id} can't be cancelled: all 4 runs have ended"):
        store.sweeps.cancel(sweep_id, by="ada")


def test_numbers_by_rank_are_those_of_finished_runs(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 2)
    for run_id in (1, 2):
        start(store, run_id)
        store.worker.add_ranks(
            run_id, [RankRow(rank, f"stage{rank + 1}", None, "cpu", "running", None, None, None) for rank in range(2)]
        )
        held = [
            RankBatch(
                rank, [Point("perf/activations_held", step, value, 0.0) for step, value in enumerate((3.0, 5.0 - rank))]
            )
            for rank in range(2)
        ]
        store.worker.write(run_id, held, run_points=[Point("perf/activations_held", 0, 99.0, 0.0)])
    store.claims.end(1, "finished", "Done.")
    assert [
        (found.run_id, found.role, found.value)
        for found in reader.sweeps.rank_numbers(sweep_id, "perf/activations_held")
    ] == [
        (1, "stage1", 5.0),
        (1, "stage2", 4.0),
    ]


def test_the_mean_of_a_metric_is_the_whole_runs_else_over_all_points_of_its_ranks(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 1)
    start(store, 1)
    ranks = [
        RankBatch(0, [Point("train/loss", step, 1.0, 0.0) for step in range(3)]),
        RankBatch(1, [Point("train/loss", 0, 5.0, 0.0)]),
    ]
    store.worker.write(
        1, ranks, run_points=[Point("test/accuracy", step, value, 0.0) for step, value in enumerate((50.0, 90.0))]
    )
    assert reader.sweeps.runs(sweep_id)[0].mean == {"train/loss": 2.0, "test/accuracy": 70.0}


def test_a_sweeps_questions_use_indexes_and_no_metric_point(home: Home, store: Store, reader: Reader) -> None:
    sweep_id = sweep(store)
    asked: list[str] = []
    reader.db.connection.set_trace_callback(asked.append)
    reader.sweeps.one(sweep_id)
    reader.sweeps.runs(sweep_id)
    reader.sweeps.token(sweep_id)
    reader.sweeps.rank_numbers(sweep_id, "perf/peak_memory")
    reader.runs.find(sweep=sweep_id)
    reader.db.connection.set_trace_callback(None)
    questions = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(questions) >= 6
    for sql in questions:
        plan = [row["detail"] for row in reader.db.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert not [
            step for step in plan if "points" in step or step.startswith(("SCAN runs", "SCAN metrics", "SCAN ranks"))
        ], (sql, plan)
    with closing(sqlite3.connect(home.database)) as connection:
        connection.execute("DROP TABLE points")
    assert len(reader.sweeps.runs(sweep_id)) == 3


SPLITS = {"splits": [1, 2, 3], "seed": [0]}


def new(number: int) -> Launch:
    return Launch("hogwild", {"splits": number, "seed": 0}, name=f"splits {number}", demand=Demand(1, 0, 1, 1))


def sweep_of_splits(store: Store, count: int = 3, stop_after: int | None = None) -> int:
    return store.sweeps.add(
        SweepLaunch(Launch("pipeline", {}, "ada", "quick"), SPLITS, stop_after=stop_after),
        [new(number) for number in range(1, count + 1)],
    )


def end(store: Store, run_id: int, status: Status) -> None:
    assert store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    store.claims.end(run_id, status, f"It {status}.")


def head(store: Store) -> int | None:
    found = store.read.queue.next()
    return found.id if found else None


def test_a_paused_sweep_is_passed_over_until_it_is_let_go_on(store: Store, reader: Reader) -> None:
    first, second = sweep_of_splits(store), sweep_of_splits(store, 1)
    store.claims.claim(1, WORKER, ())
    before = reader.sweeps.token(first)
    assert store.sweeps.hold(first, by="grace") == [2, 3]
    assert (head(store), reader.sweeps.one(first).paused, reader.sweeps.one(second).paused) == (4, True, False)
    assert (reader.runs.one(2).is_held, reader.runs.one(4).is_held, reader.runs.one(1).status) == (
        True,
        False,
        "starting",
    )
    assert reader.sweeps.token(first) > before
    assert store.sweeps.hold(first, by="linus") == [2, 3], "asking twice changes nothing"
    assert [(event.kind, event.who, event.detail) for event in reader.details.events(2)[1:]] == [
        ("held", "grace", "with sweep 1")
    ]
    assert store.sweeps.release(first, by="ada") == [2, 3]
    assert (head(store), reader.sweeps.one(first).paused, reader.details.events(3)[-1].kind) == (2, False, "released")


def test_a_retry_queues_a_run_with_the_same_config_for_each_cell_that_ended_badly(store: Store, reader: Reader) -> None:
    sweep_id = sweep_of_splits(store)
    for run_id, status in ((1, "failed"), (2, "finished"), (3, "lost")):
        end(store, run_id, status)  # type: ignore[arg-type]
    assert store.sweeps.retry(sweep_id, by="grace") == {1: 4, 3: 5}
    again = reader.runs.one(4)
    assert (again.config, again.demand, again.name, again.owner, again.sweep_id) == (
        reader.runs.one(1).config,
        reader.runs.one(1).demand,
        "splits 1",
        "grace",
        1,
    )
    assert (reader.details.events(1)[-1].kind, reader.details.events(1)[-1].detail, reader.runs.one(1).status) == (
        "retried",
        "as run 4",
        "failed",
    )
    with pytest.raises(WrongStatus, match="has no cell to retry"):
        store.sweeps.retry(sweep_id, by="grace")
    end(store, 4, "finished")
    end(store, 5, "failed")
    assert store.sweeps.retry(sweep_id, by="grace") == {5: 6}
    store.runs.cancel(6, by="ada")
    assert store.sweeps.retry(sweep_id, by="grace", statuses=("failed", "cancelled")) == {6: 7}


def test_an_extension_adds_cells_to_the_same_sweep_whole_or_not_at_all(store: Store, reader: Reader) -> None:
    sweep_id = sweep_of_splits(store)
    larger = {"splits": [1, 2, 3, 4], "seed": [0]}
    assert store.sweeps.extend(sweep_id, SPLITS, larger, [new(4)], by="grace") == [4]
    assert (reader.sweeps.one(sweep_id).grid["splits"], reader.sweeps.one(sweep_id).total) == ((1, 2, 3, 4), 4)
    assert (reader.runs.one(4).preset, reader.runs.one(4).owner) == ("quick", "grace")
    with pytest.raises(WrongStatus, match="extended by another person meanwhile"):
        store.sweeps.extend(sweep_id, SPLITS, larger, [new(4)], by="linus")
    with pytest.raises(ConfigError, match="already contains all of these runs"):
        store.sweeps.extend(sweep_id, larger, larger, [], by="linus")
    assert reader.runs.count() == 4


def test_a_sweep_stops_itself_after_so_many_failures_and_says_why(store: Store, reader: Reader) -> None:
    sweep_id, other = sweep_of_splits(store, 5, stop_after=2), sweep_of_splits(store, 1)
    end(store, 1, "failed")
    end(store, 2, "finished")
    assert reader.sweeps.one(sweep_id).statuses == {"queued": 3, "finished": 1, "failed": 1}
    end(store, 3, "lost")
    assert reader.sweeps.one(sweep_id).statuses == {"finished": 1, "failed": 1, "cancelled": 2, "lost": 1}
    cause = (
        "Cancelled: 2 runs of sweep 1 failed or were lost; the limit is 2 (stop after). "
        "Fix the cause and retry the sweep."
    )
    assert (reader.runs.one(4).cause, reader.details.events(5)[-1].kind, reader.details.events(5)[-1].detail) == (
        cause,
        "cancelled",
        cause,
    )
    assert reader.sweeps.one(other).statuses == {"queued": 1}


def test_a_cell_that_was_tried_again_well_is_no_failure_any_more(store: Store, reader: Reader) -> None:
    sweep_id = sweep_of_splits(store, 4, stop_after=2)
    end(store, 1, "failed")
    store.sweeps.retry(sweep_id, by="ada")
    end(store, 5, "finished")
    end(store, 2, "failed")
    assert "cancelled" not in reader.sweeps.one(sweep_id).statuses


def test_how_a_sweep_is_to_run_comes_back(store: Store, reader: Reader) -> None:
    draw = Draw(1, 7, {"splits": "1..9"})
    plain, special = (
        sweep_of_splits(store),
        store.sweeps.add(
            SweepLaunch(Launch("pipeline", {}, "ada"), SPLITS, draw=draw, exclusive=True, stop_after=3), [new(1)]
        ),
    )
    found = reader.sweeps.one(special)
    assert (found.exclusive, found.stop_after, found.draw, found.held) == (True, 3, draw, False)
    assert (reader.runs.one(4).exclusive, reader.runs.one(1).exclusive) == (True, False)
    found = reader.sweeps.one(plain)
    assert (found.exclusive, found.stop_after, found.draw) == (False, None, None)


def test_what_can_not_be_paused_or_let_go_on_is_said(store: Store) -> None:
    sweep_id = sweep_of_splits(store, 1)
    with pytest.raises(WrongStatus, match="Sweep 1 is not paused"):
        store.sweeps.release(sweep_id, by="ada")
    end(store, 1, "finished")
    with pytest.raises(WrongStatus, match="Sweep 1 can't be paused: it has no queued runs"):
        store.sweeps.hold(sweep_id, by="ada")
    for change in (store.sweeps.hold, store.sweeps.release, store.sweeps.retry):
        with pytest.raises(NoSuchSweep):
            change(9, by="ada")


ABOUT = {"host": "lab", "cpu": "Xeon", "cores": 8, "gpus": ["H1", "H1"], "git_commit": "abc"}


def begun(store: Store, run_id: int, roles: tuple[str, ...] = ("ps", "trainer1")) -> None:
    store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, ABOUT)
    store.worker.add_ranks(
        run_id, [RankRow(rank, role, None, "cpu", "running", 1, now(), None) for rank, role in enumerate(roles)]
    )
    store.worker.mark_running(run_id, 0.5)


def test_a_sweep_keeps_its_figure_and_what_is_asked_of_many_runs_comes_by_role(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    runs = [Launch("hogwild", {"trainers": 4, "seed": 0}, name="one", demand=Demand(1, 0, 4, 1))]
    ids = [
        store.sweeps.add(SweepLaunch(Launch("hogwild", {}, "ada"), {"trainers": [4], "seed": [0]}, figure=figure), runs)
        for figure in ("hogwild/full", "", "hogwild/reduced")
    ]
    assert [found.id for found in reader.sweeps.of_figures(["hogwild/full", "hogwild/reduced"])] == [ids[2], ids[0]]
    assert [found.figure for found in reader.sweeps.of_figures(["hogwild/full"])] == ["hogwild/full"]
    assert reader.sweeps.of_figures([""]) == [], "a sweep of no figure belongs to none"
    assert reader.sweeps.one(ids[1]).figure == ""
    run = add()
    begun(store, run)
    store.worker.write(run, [RankBatch(1, phases={"compute": 2.0, "wait": 1.0}), RankBatch(0, phases={"update": 0.5})])
    assert reader.studies.phases_of([run, 99]) == {
        run: {"ps": {"update": 0.5}, "trainer1": {"compute": 2.0, "wait": 1.0}}
    }
    run = add()
    begun(store, run)
    points = [
        Point("test/accuracy", 10, 90.0, 1.0, 1.0),
        Point("test/accuracy", 20, math.nan, 2.0, 2.0),
        Point("test/accuracy", 30, 95.0, 3.0, 3.0),
    ]
    store.worker.write(run, [RankBatch(1, [*points, Point("train/loss", 1, 2.0, 0.1, 0.1)])])
    assert [(found.step, found.passes, found.value) for found in reader.studies.tested([run], ["test/accuracy"])] == [
        (10, 1.0, 90.0),
        (30, 3.0, 95.0),
    ]
    first, second, without = add(), add(), add()
    begun(store, first, ("ps", "trainer1", "trainer2"))
    begun(store, without)
    store.claims.claim(second, WORKER, ())
    store.worker.write(
        first,
        [
            RankBatch(2, histograms={("staleness", 1): 3, ("other", 5): 1}),
            RankBatch(1, histograms={("staleness", 0): 2, ("staleness", 4): 1}),
        ],
    )
    store.worker.write(second, [RankBatch(1, histograms={("staleness", 7): 1})])
    assert reader.studies.histograms_of([first, second, without, 99], "staleness") == {
        first: {"trainer1": {0: 2, 4: 1}, "trainer2": {1: 3}},
        second: {"rank 1": {7: 1}},
    }


def test_surroundings_tell_machine_ranks_and_work(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second = add(), add()
    begun(store, first)
    store.worker.write(first, [], progress=(300, 400, "samples"))
    found = reader.studies.surroundings([first, second, 99])
    assert set(found) == {first, second}
    about = found[first]
    assert (about.host, about.cpu, about.cores, about.gpus, about.commit) == ("lab", "Xeon", 8, ("H1", "H1"), "abc")
    assert (about.devices, about.work, about.unit) == ((("ps", "cpu"), ("trainer1", "cpu")), 300, "samples")
    assert (found[second].cores, found[second].devices, found[second].work) == (0, (), 0)


@pytest.mark.parametrize(
    ("better", "target", "wanted"),
    [("max", 90.0, (20, 2.0)), ("max", 99.0, None), ("min", 80.0, (10, 1.0)), ("min", 1.0, None)],
)
def test_a_target_is_reached_where_the_first_rank_has_it(
    home: Home,
    store: Store,
    reader: Reader,
    add: Callable[..., int],
    better: str,
    target: float,
    wanted: tuple[int, float] | None,
) -> None:
    run = add()
    begun(store, run)
    values = (80.0, 92.0, 91.0)
    for rank, late in ((0, 1.5), (1, 1.0)):
        store.worker.write(
            run,
            [
                RankBatch(
                    rank,
                    [
                        Point("test/accuracy", 10 * (place + 1), value, (place + 1) * late)
                        for place, value in enumerate(values)
                    ],
                )
            ],
        )
    assert reader.studies.reached([run, 99], "test/accuracy", target, better).get(run) == wanted
