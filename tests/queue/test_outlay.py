"""What a whole sweep takes, told from finished runs of a real store: worked examples."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.home import Home
from engine.limits import Limits, set_limits
from engine.queue.outlay import Outlay, before_launch, what_is_left
from engine.queue.outlook import outlook
from engine.runtime.gpus import FakeGpus
from engine.runtime.machine import Gpu, Machine
from engine.store import Demand, NewRun, Reader, Store
from engine.terms import Terms
from tests.queue.test_outlook import WORKER, add, finished, no_time_passes, store

__all__ = ["add", "finished", "no_time_passes", "store"]
HERE = Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0)
Finish = Callable[..., int]


def asked(home: Home, epochs: list[int], cores: int = 1, gpus: int = 0, **more: Any) -> Outlay:
    """Return what a sweep over epochs would take."""
    cells = [({"epochs": count, "seed": 0}, Demand(cores, gpus, cores, 1)) for count in epochs]
    with Reader.open(home) as reader:
        return before_launch(reader, home, "hogwild", cells, ["epochs"], owner="ada", here=HERE, gpus=FakeGpus(2), host="lab", **more)


def rest(home: Home, sweep_id: int) -> Outlay:
    with Reader.open(home) as reader:
        return what_is_left(reader, home, sweep_id, ["epochs"], here=HERE, gpus=FakeGpus(2), host="lab")


def swept(store: Store, epochs: list[int], cores: int = 1, **more: Any) -> int:
    runs = [NewRun({"epochs": count, "seed": 0}, Demand(cores, 0, cores, 1), "") for count in epochs]
    return store.add_sweep("hogwild", {"epochs": epochs, "seed": [0]}, runs, owner="ada", **more)


def test_runs_that_fit_go_side_by_side_and_the_rest_behind_them(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1)
    finished(300.0, epochs=2)
    found = asked(home, [1] * 4 + [2])
    assert (found.runs, found.like, found.assumed_s) == (5, 5, None)
    assert found.core_hours == pytest.approx((4 * 100 + 300) / 3600, rel=0.01)
    assert found.idle_s == found.ends_in_s == pytest.approx(400.0, abs=1), "four at once, the fifth in the place of one"


def test_gpus_are_counted_and_waited_for(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1, gpus=1)
    found = asked(home, [1] * 3, gpus=1)
    assert (found.idle_s, found.gpu_hours) == (pytest.approx(200.0, abs=1), pytest.approx(300 / 3600, rel=0.01))


def test_one_at_a_time_takes_as_long_as_all_of_them(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1)
    found = asked(home, [1] * 3, exclusive=True)
    assert (found.idle_s, found.core_hours) == (pytest.approx(300.0, abs=1), pytest.approx(300 / 3600, rel=0.01))


def test_what_is_on_and_what_waits_comes_first_unless_the_priority_is_higher(home: Home, store: Store, add: Finish, finished: Finish) -> None:
    finished(100.0, epochs=1, cores=4)
    on, waiting = add(cores=4), add(cores=4)
    store.claim(on, WORKER, ())
    found = asked(home, [1, 1], cores=4)
    assert (found.idle_s, found.ends_in_s) == (pytest.approx(200.0, abs=1), pytest.approx(400.0, abs=2))
    assert asked(home, [1, 1], cores=4, terms=Terms(priority="high")).ends_in_s == pytest.approx(300.0, abs=2)
    store.hold(waiting, by="grace")
    assert asked(home, [1, 1], cores=4).ends_in_s == pytest.approx(300.0, abs=2)


def test_a_persons_share_makes_it_longer(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1)
    set_limits(home, Limits(1))
    assert asked(home, [1] * 3).idle_s == pytest.approx(300.0, abs=1)


def test_cells_without_like_runs_last_as_those_that_differ_only_in_what_varies(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1)
    finished(200.0, epochs=2)
    finished(900.0, epochs=2, host="elsewhere")
    found = asked(home, [1, 2, 3, 4])
    assert (found.runs, found.like, found.near) == (4, 2, 2)
    assert found.assumed_s == pytest.approx(150.0, abs=1)
    assert found.core_hours == pytest.approx((100 + 200 + 150 + 150) / 3600, rel=0.01)
    assert asked(home, [1, 2], cores=2).near == 2, "what varies may change the slots"
    assert asked(home, [1, 2], gpus=1).idle_s is None, "runs without a GPU tell nothing of runs with one"


def test_nothing_is_said_where_nothing_is_known(home: Home, store: Store) -> None:
    found = asked(home, [1, 2])
    assert (found.runs, found.like, found.assumed_s, found.core_hours, found.idle_s, found.ends_in_s) == (2, 0, None, None, None, None)


def test_an_end_behind_a_run_of_which_nothing_tells_is_not_known(home: Home, store: Store, add: Finish, finished: Finish) -> None:
    finished(100.0, epochs=1)
    store.claim(add(cores=4, epochs=77), WORKER, ())
    found = asked(home, [1])
    assert (found.idle_s, found.ends_in_s) == (pytest.approx(100.0, abs=1), None)


# ---- what is left --------------------------------------------------------------------------------------------------


def test_what_is_left_counts_queued_and_live_runs_from_now(home: Home, store: Store, add: Finish, finished: Finish) -> None:
    finished(100.0, epochs=1, cores=2)
    sweep_id = swept(store, [1, 1, 1, 5], cores=2)
    ids = [run.id for run in store.queue()]
    for run_id in ids[:2]:
        store.claim(run_id, WORKER, ())
    add(cores=2)
    found = rest(home, sweep_id)
    assert (found.runs, found.like, found.near, found.held) == (4, 3, 1, 0)
    assert found.core_hours == pytest.approx(4 * 2 * 100 / 3600, rel=0.02)
    assert found.idle_s == found.ends_in_s == pytest.approx(200.0, abs=3), "the stranger behind it delays nothing"
    for run_id in ids:
        store.request_cancel(run_id, by="ada")
    for run_id in ids[:2]:
        store.end(run_id, "cancelled", "Cancelled by ada.")
    assert rest(home, sweep_id) == Outlay(0, 0, None, 0, 0.0, 0.0, 0.0, 0.0)


def test_a_paused_sweep_is_seen_as_if_it_were_let_go_on_and_runs_on_hold_are_named(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1, cores=4)
    sweep_id = swept(store, [1, 1, 1], cores=4)
    store.hold_sweep(sweep_id, by="ada")
    assert (rest(home, sweep_id).ends_in_s, rest(home, sweep_id).held) == (pytest.approx(300.0, abs=1), 0)
    store.hold(store.queue()[0].id, by="grace")
    found = rest(home, sweep_id)
    assert (found.runs, found.held, found.ends_in_s) == (3, 1, pytest.approx(200.0, abs=1))
    assert found.core_hours == pytest.approx(3 * 4 * 100 / 3600, rel=0.01)


def test_runs_of_an_exclusive_sweep_follow_each_other_and_say_what_they_wait_for(home: Home, store: Store, add: Finish, finished: Finish) -> None:
    finished(100.0, epochs=1)
    sweep_id = swept(store, [1, 1, 1], exclusive=True)
    found = rest(home, sweep_id)
    assert (found.ends_in_s, found.core_hours) == (pytest.approx(300.0, abs=1), pytest.approx(300 / 3600, rel=0.01))
    first = store.queue()[0].id
    other = add()
    store.move(other, "front", by="ada")
    store.claim(other, WORKER, (), (0,))
    with Reader.open(home) as reader:
        assert outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")[first].reason.startswith(
            f"waits for an idle machine: run {other} holds 1 until about"
        )
