"""Staleness over a sweep and over chosen runs: its mean beside N - 1, its spread, what accuracy pays, and what stands against it."""

from html import unescape

import pytest
from streamlit.testing.v1 import AppTest

from app.staleness_pictures import MOST_ROWS, against_expected, result_along, spread
from engine.analysis.staleness import Price, Stale, price, sizes
from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.store import RankBatch, RankRow, Reader, Store
from engine.store.clock import now
from engine.store.records import RunRow
from engine.sweep import launch_sweep
from tests.app.test_pages import opened, said
from tests.stand_in import worker


def asynchronous(home: Home, trainers: list[int], seeds: int = 3, name: str = "async_sgd", **grid: list[object]) -> int:
    """Queue and end a sweep whose accuracy falls by 0.5 points per update of staleness, seeds a tenth of a point apart; return its id."""
    settings = {key: value for key, value in experiment(name).preset("quick").settings.items() if key not in {"trainers", *grid}}
    sweep_id = launch_sweep(home, name, settings, {"trainers": trainers, **grid}, seeds, owner="Ada")
    with Reader.open(home) as reader:
        runs = reader.sweep_runs(sweep_id)
    for run in runs:
        _end(home, run)
    return sweep_id


def _end(home: Home, run: RunRow) -> None:
    trainers, seed = int(run.config["trainers"]), int(run.config["seed"])
    with Store.open(home) as store:
        store.claim(run.id, worker(), [])
        store.begin(run.id, worker(), {"host": "lab"})
        store.add_ranks(run.id, [RankRow(rank, f"trainer{rank}" if rank else "ps", None, "cpu", "running", 9, now(), None) for rank in range(trainers + 1)])
        store.mark_running(run.id, 1.0)
        tests = RankBatch(0, [Point("test/accuracy", 100, 98.0 - 0.5 * (trainers - 1) + seed / 10, 9.0, 1.0)])
        pushes = {("staleness", trainers - 1): 60, ("staleness", trainers): 20, ("staleness", max(0, trainers - 2)): 20}
        store.write(run.id, [tests, *(RankBatch(rank, histograms=pushes) for rank in range(1, trainers + 1))])
        store.end(run.id, "finished", "It finished.", execution_time_s=10.0)


def words(test: AppTest) -> str:
    assert not test.exception
    shown = " ".join(str(element.proto.body) for element in test.get("html"))
    return unescape(f"{said(test)} {shown}".replace("\\", ""))


def test_a_sweep_tells_means_beside_n_less_1_and_the_price(home: Home) -> None:
    shown = words(opened("sweep", {"sweep": str(asynchronous(home, [1, 2, 4])), "view": "Staleness"}))
    assert "With 4 trainers gradients are 3.00 updates old on average (N - 1 = 3)." in shown
    assert "Test accuracy falls by 0.5" in shown and "points per update of staleness (95 % interval 0.4" in shown and "9 runs)" in shown
    assert "<td>4</td><td>3</td><td>3</td><td>3 (all 3 equal)</td><td>4</td><td>4</td>" in shown
    assert "trainer1 3, trainer2 3, trainer3 3, trainer4 3" in shown
    assert "too, so what is seen may come of that" not in shown


def test_chosen_runs_and_another_result_stand_in_the_address(home: Home) -> None:
    asynchronous(home, [2], seeds=1)
    asynchronous(home, [4], seeds=2)
    shown = words(opened("scaling", {"runs": "1-3", "view": "Staleness", "result": "test/accuracy"}))
    assert "Test accuracy against staleness" in shown and "Staleness of each run" in shown
    assert "With 2 trainers gradients are 1.00 updates old on average (N - 1 = 1)." in shown


def test_lines_are_told_apart_and_one_size_is_laid_along_together(home: Home) -> None:
    both = words(opened("sweep", {"sweep": str(asynchronous(home, [2, 4], momentum=[0.0, 0.5])), "view": "Staleness"}))
    assert "momentum 0.5: Test accuracy falls" in both, both[:900]
    assert "momentum 0: With 2 trainers" in both
    bound = words(opened("sweep", {"sweep": str(asynchronous(home, [2], 1, staleness_bound=[0, 4])), "view": "Staleness"}))
    assert "What test accuracy pays for staleness is not told. A line takes at least 3 runs with a result, and there are 2." in bound
    assert "All runs are of one size" not in bound


def test_one_seed_one_size_and_runs_without_staleness_say_so(home: Home) -> None:
    asynchronous(home, [2], seeds=1)
    assert "Every size is one run" in words(opened("scaling", {"runs": "1", "view": "Staleness"}))
    assert "All runs are of one size, so there is nothing to hold it against." in words(opened("scaling", {"runs": "1", "view": "Staleness"}))
    with Store.open(home) as store, store.change() as connection:
        connection.execute("DELETE FROM histograms")
    assert "None of these runs recorded staleness." in words(opened("scaling", {"runs": "1", "view": "Staleness"}))


def run(number: int, trainers: int, counts: dict[int, int], result: float) -> Stale:
    return Stale(number, (), trainers, trainers - 1.0, counts, result)


def test_charts_hold_every_run_and_their_spread_loses_no_gradient() -> None:
    runs = [run(1, 1, {0: 10}, 98.0), run(2, 4, {2: 5, 3: 5}, 97.0), run(3, 4, {3: 8, 90: 2}, 95.0)]
    figure, colours = against_expected({"": sizes(runs)}, {"": runs})
    assert len(figure.data) == len(colours) == 3
    assert [list(trace.x) for trace in figure.data] == [[0.0, 3.0], [0.0, 3.0, 3.0], [0, pytest.approx(11.45)]]
    (heat,) = spread({"1 trainer": {0: 10}, "4 trainers": {2: 5, 3: 13, 90: 2}}).data
    assert (len(heat.y), heat.y[-1]) == (MOST_ROWS + 1, f"{MOST_ROWS} or more")
    assert [sum(row[column] or 0 for row in heat.z) for column in range(2)] == pytest.approx([100, 100])
    found = price(runs)
    assert isinstance(found, Price)
    drawn, places = result_along({"": runs}, {"": found}, "Test accuracy", "%")
    assert len(drawn.data) == len(places) == 2
    assert list(drawn.data[1].y) == [found.at(0.0), found.at(20.4)]
