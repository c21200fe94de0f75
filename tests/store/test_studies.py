"""What is asked of many runs at once, and the figure that a sweep was launched as."""

import math
from collections.abc import Callable

import pytest

from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, NewRun, RankBatch, RankRow, Reader, Store
from engine.store.clock import now
from tests.store.conftest import WORKER

ABOUT = {"host": "lab", "cpu": "Xeon", "cores": 8, "gpus": ["H1", "H1"], "git_commit": "abc"}


def begun(store: Store, run_id: int, roles: tuple[str, ...] = ("ps", "trainer1")) -> None:
    store.claim(run_id, WORKER, ())
    store.begin(run_id, WORKER, ABOUT)
    store.add_ranks(run_id, [RankRow(rank, role, None, "cpu", "running", 1, now(), None) for rank, role in enumerate(roles)])
    store.mark_running(run_id, 0.5)


def test_a_sweep_keeps_the_figure_that_it_was_launched_as(store: Store, reader: Reader) -> None:
    runs = [NewRun({"trainers": 4, "seed": 0}, Demand(1, 0, 4, 1), "one")]
    ids = [store.add_sweep("hogwild", {"trainers": [4], "seed": [0]}, runs, owner="ada", figure=figure) for figure in ("hogwild/full", "", "hogwild/reduced")]
    assert [found.id for found in reader.figure_sweeps(["hogwild/full", "hogwild/reduced"])] == [ids[2], ids[0]]
    assert [found.figure for found in reader.figure_sweeps(["hogwild/full"])] == ["hogwild/full"]
    assert reader.figure_sweeps([""]) == [], "a sweep of no figure belongs to none"
    assert reader.sweep(ids[1]).figure == ""


def test_surroundings_tell_machine_ranks_and_work(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second = add(), add()
    begun(store, first)
    store.write(first, [], progress=(300, 400, "samples"))
    found = reader.surroundings([first, second, 99])
    assert set(found) == {first, second}
    about = found[first]
    assert (about.host, about.cpu, about.cores, about.gpus, about.commit) == ("lab", "Xeon", 8, ("H1", "H1"), "abc")
    assert (about.devices, about.work, about.unit) == ((("ps", "cpu"), ("trainer1", "cpu")), 300, "samples")
    assert (found[second].cores, found[second].devices, found[second].work) == (0, (), 0)


def test_phases_come_by_run_and_role(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run = add()
    begun(store, run)
    store.write(run, [RankBatch(1, phases={"compute": 2.0, "wait": 1.0}), RankBatch(0, phases={"update": 0.5})])
    assert reader.phases_of([run, 99]) == {run: {"ps": {"update": 0.5}, "trainer1": {"compute": 2.0, "wait": 1.0}}}


def test_tests_come_in_order_without_what_is_no_number(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run = add()
    begun(store, run)
    points = [Point("test/accuracy", 10, 90.0, 1.0, 1.0), Point("test/accuracy", 20, math.nan, 2.0, 2.0), Point("test/accuracy", 30, 95.0, 3.0, 3.0)]
    store.write(run, [RankBatch(1, [*points, Point("train/loss", 1, 2.0, 0.1, 0.1)])])
    assert [(found.step, found.passes, found.value) for found in reader.tested([run], ["test/accuracy"])] == [(10, 1.0, 90.0), (30, 3.0, 95.0)]


@pytest.mark.parametrize(("better", "target", "wanted"), [("max", 90.0, (20, 2.0)), ("max", 99.0, None), ("min", 80.0, (10, 1.0)), ("min", 1.0, None)])
def test_a_target_is_reached_where_the_first_rank_has_it(
    home: Home, store: Store, reader: Reader, add: Callable[..., int], better: str, target: float, wanted: tuple[int, float] | None
) -> None:
    run = add()
    begun(store, run)
    values = (80.0, 92.0, 91.0)
    for rank, late in ((0, 1.5), (1, 1.0)):
        store.write(run, [RankBatch(rank, [Point("test/accuracy", 10 * (place + 1), value, (place + 1) * late) for place, value in enumerate(values)])])
    assert reader.reached([run, 99], "test/accuracy", target, better).get(run) == wanted


def test_histograms_of_many_runs_are_told_by_role(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second, without = add(), add(), add()
    begun(store, first, ("ps", "trainer1", "trainer2"))
    begun(store, without)
    store.claim(second, WORKER, ())
    store.write(first, [RankBatch(2, histograms={("staleness", 1): 3, ("other", 5): 1}), RankBatch(1, histograms={("staleness", 0): 2, ("staleness", 4): 1})])
    store.write(second, [RankBatch(1, histograms={("staleness", 7): 1})])
    assert reader.histograms_of([first, second, without, 99], "staleness") == {
        first: {"trainer1": {0: 2, 4: 1}, "trainer2": {1: 3}},
        second: {"rank 1": {7: 1}},
    }
