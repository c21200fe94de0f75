"""Sweeps that change after their launch: paused, let go on, tried again, extended, stopped by their failures."""

import pytest

from engine.errors import ConfigError, NoSuchSweep, WrongStatus
from engine.store import Demand, NewRun, Reader, Store
from engine.store.records import Status
from tests.store.conftest import WORKER

GRID = {"splits": [1, 2, 3], "seed": [0]}


def new(number: int) -> NewRun:
    return NewRun({"splits": number, "seed": 0}, Demand(1, 0, 1, 1), f"splits {number}")


def sweep(store: Store, count: int = 3, stop_after: int | None = None) -> int:
    return store.add_sweep("pipeline", GRID, [new(number) for number in range(1, count + 1)], owner="ada", preset="quick", stop_after=stop_after)


def end(store: Store, run_id: int, status: Status) -> None:
    assert store.claim(run_id, WORKER, ())
    store.begin(run_id, WORKER, {})
    store.end(run_id, status, f"It {status}.")


def head(store: Store) -> int | None:
    found = store.next_queued()
    return found.id if found else None


def test_a_paused_sweep_is_passed_over_until_it_is_let_go_on(store: Store, reader: Reader) -> None:
    first, second = sweep(store), sweep(store, 1)
    store.claim(1, WORKER, ())
    before = reader.sweep_token(first)
    assert store.hold_sweep(first, by="grace") == [2, 3]
    assert (head(store), reader.sweep(first).paused, reader.sweep(second).paused) == (4, True, False)
    assert (reader.run(2).is_held, reader.run(4).is_held, reader.run(1).status) == (True, False, "starting")
    assert reader.sweep_token(first) > before
    assert store.hold_sweep(first, by="linus") == [2, 3], "asking twice changes nothing"
    assert [(event.kind, event.who, event.detail) for event in reader.events(2)[1:]] == [("held", "grace", "with sweep 1")]
    assert store.release_sweep(first, by="ada") == [2, 3]
    assert (head(store), reader.sweep(first).paused, reader.events(3)[-1].kind) == (2, False, "released")


def test_what_can_not_be_paused_or_let_go_on_is_said(store: Store) -> None:
    sweep_id = sweep(store, 1)
    with pytest.raises(WrongStatus, match="Sweep 1 is not paused"):
        store.release_sweep(sweep_id, by="ada")
    end(store, 1, "finished")
    with pytest.raises(WrongStatus, match="Sweep 1 can't be paused: none of its runs is queued"):
        store.hold_sweep(sweep_id, by="ada")
    for change in (store.hold_sweep, store.release_sweep, store.retry_sweep):
        with pytest.raises(NoSuchSweep):
            change(9, by="ada")


def test_a_retry_queues_a_run_with_the_same_config_for_each_cell_that_ended_badly(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store)
    for run_id, status in ((1, "failed"), (2, "finished"), (3, "lost")):
        end(store, run_id, status)  # type: ignore[arg-type]
    assert store.retry_sweep(sweep_id, by="grace") == {1: 4, 3: 5}
    again = reader.run(4)
    assert (again.config, again.demand, again.name, again.owner, again.sweep_id) == (reader.run(1).config, reader.run(1).demand, "splits 1", "grace", 1)
    assert (reader.events(1)[-1].kind, reader.events(1)[-1].detail, reader.run(1).status) == ("retried", "as run 4", "failed")
    with pytest.raises(WrongStatus, match="has no cell to try again"):
        store.retry_sweep(sweep_id, by="grace")
    end(store, 4, "finished")
    end(store, 5, "failed")
    assert store.retry_sweep(sweep_id, by="grace") == {5: 6}
    store.request_cancel(6, by="ada")
    assert store.retry_sweep(sweep_id, by="grace", statuses=("failed", "cancelled")) == {6: 7}


def test_an_extension_adds_cells_to_the_same_sweep_whole_or_not_at_all(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store)
    larger = {"splits": [1, 2, 3, 4], "seed": [0]}
    assert store.extend_sweep(sweep_id, GRID, larger, [new(4)], by="grace") == [4]
    assert (reader.sweep(sweep_id).grid["splits"], reader.sweep(sweep_id).total) == ((1, 2, 3, 4), 4)
    assert (reader.run(4).preset, reader.run(4).owner) == ("quick", "grace")
    with pytest.raises(WrongStatus, match="extended by someone else meanwhile"):
        store.extend_sweep(sweep_id, GRID, larger, [new(4)], by="linus")
    with pytest.raises(ConfigError, match="part of the sweep already"):
        store.extend_sweep(sweep_id, larger, larger, [], by="linus")
    assert reader.count() == 4


def test_a_sweep_stops_itself_after_so_many_failures_and_says_why(store: Store, reader: Reader) -> None:
    sweep_id, other = sweep(store, 5, stop_after=2), sweep(store, 1)
    end(store, 1, "failed")
    end(store, 2, "finished")
    assert reader.sweep(sweep_id).statuses == {"queued": 3, "finished": 1, "failed": 1}
    end(store, 3, "lost")
    assert reader.sweep(sweep_id).statuses == {"finished": 1, "failed": 1, "cancelled": 2, "lost": 1}
    cause = "Cancelled: 2 runs of sweep 1 ended badly, and it stops after 2. Retry it once the cause is mended."
    assert (reader.run(4).cause, reader.events(5)[-1].kind, reader.events(5)[-1].detail) == (cause, "cancelled", cause)
    assert reader.sweep(other).statuses == {"queued": 1}


def test_a_cell_that_was_tried_again_well_is_no_failure_any_more(store: Store, reader: Reader) -> None:
    sweep_id = sweep(store, 4, stop_after=2)
    end(store, 1, "failed")
    store.retry_sweep(sweep_id, by="ada")
    end(store, 5, "finished")
    end(store, 2, "failed")
    assert "cancelled" not in reader.sweep(sweep_id).statuses


def test_how_a_sweep_is_to_run_comes_back(store: Store, reader: Reader) -> None:
    draw = {"count": 1, "seed": 7, "over": {"splits": "1..9"}}
    plain, special = sweep(store), store.add_sweep("pipeline", GRID, [new(1)], owner="ada", exclusive=True, stop_after=3, draw=draw)
    found = reader.sweep(special)
    assert (found.exclusive, found.stop_after, found.draw, found.held) == (True, 3, draw, False)
    assert (reader.run(4).exclusive, reader.run(1).exclusive) == (True, False)
    found = reader.sweep(plain)
    assert (found.exclusive, found.stop_after, found.draw) == (False, None, None)
