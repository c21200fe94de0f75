"""The picture of a run's timeline that a page gets: what it holds, and the errors of wrong requests."""

from pathlib import Path

import pytest

from app.charts.timeline_picture import picture
from engine.errors import ConfigError, NoSuchRun
from engine.home import Home
from engine.store import Store
from engine.store.records import RankBatch, RankRow
from engine.trace.chunk import TraceChunk
from engine.trace.layout import TraceWindow
from tests.labs import basic
from tests.trace_entries import Entries, traced

ZERO_US = 1_000_000


@pytest.fixture
def lab(tmp_path: Path) -> tuple[Home, int]:
    """Return a home with a run of a server and a trainer, which has pushed twice."""
    return recorded(tmp_path, [])


def recorded(folder: Path, trainer: list[Entries]) -> tuple[Home, int]:
    """Return the same, with other operations of the trainer before."""
    home = Home(folder).create()
    names = ["", "push", "request", "answer"]
    server = []
    for number in range(2):
        at = ZERO_US + 100 * number
        server += [
            traced("serve", at + 60, at + 70, name=2, peer=1, number=number, lane=1),
            traced("send", at + 68, at + 68, name=3, peer=1, number=number, lane=1, depth=1, version=number, value=0),
        ]
        trainer += [
            traced("compute", at, at + 55),
            traced("communicate", at + 55, at + 80, name=1, peer=0, number=number, bytes=4_000_000, version=number),
        ]
    with Store.open(home) as store:
        run_id = basic.add(store, "ada")
        basic.drive(store, home, run_id, "running")
        store.worker.add_ranks(
            run_id,
            [
                RankRow(rank, role, 1, "cpu", "running", None, None, None)
                for rank, role in enumerate(("ps", "trainer1"))
            ],
        )
        chunks = [TraceChunk.of(0, names, server, lost=2), TraceChunk.of(1, names, trainer)]
        windows = [TraceWindow(ZERO_US * 1_000, (ZERO_US + 200) * 1_000, "start")]
        store.worker.write(run_id, [RankBatch(chunk.rank, trace=chunk) for chunk in chunks], windows=windows)
    return home, run_id


def test_a_picture_holds_rows_rectangles_messages_and_what_bounds_the_run(lab: tuple[Home, int]) -> None:
    found = picture(*lab, None, None)
    assert found["rows"] == ["ps", "ps: requests", "trainer1"]
    assert (found["operations"], found["lost"], found["begin"], found["end"]) == (8, 2, 0.0, 200.0)
    assert found["windows"] == [[0.0, 200.0, "start"]]
    kinds = found["kinds"]
    pushes = [each for each in found["rectangles"] if kinds[each[4]] == "communicate"]
    assert [each[:4] for each in pushes] == [[2, 0, 55.0, 25.0], [2, 0, 155.0, 25.0]]
    assert pushes[1][6] == "push #1, with ps, 4 MB, weights version 1"
    assert found["messages"][:2] == [[2, 55.0, 1, 60.0], [1, 68.0, 2, 80.0]] and found["message_count"] == 4
    assert sum(end - begin for _, begin, end, _ in found["path"]) == pytest.approx(180.0)
    assert found["sentences"][0].startswith(
        "In this stretch, the critical path (180 µs) is computing for 61 %, all in trainer1"
    )
    totals = {(found["rows"][row], kinds[kind]): (count, ms) for row, kind, count, ms in found["totals"]}
    assert totals["trainer1", "compute"] == (2, 0.11) and totals["ps: requests", "serve"] == (2, 0.02)


def test_a_zoom_clips_the_totals_and_keeps_only_what_is_inside(lab: tuple[Home, int]) -> None:
    found = picture(*lab, 50.0, 70.0)
    assert (found["begin"], found["end"]) == (50.0, 70.0)
    totals = {(found["rows"][row], found["kinds"][kind]): ms for row, kind, _, ms in found["totals"]}
    assert totals["trainer1", "compute"] == 0.005 and totals["trainer1", "communicate"] == 0.015
    assert found["operations"] == 8 and found["rows"] == ["ps", "ps: requests", "trainer1"]


def test_a_thread_that_answers_no_requests_is_in_the_background(tmp_path: Path) -> None:
    found = picture(*recorded(tmp_path, [traced("collective", ZERO_US + 10, ZERO_US + 40, lane=1)]), None, None)
    assert found["rows"] == ["ps", "ps: requests", "trainer1", "trainer1: background"]


def test_a_stretch_is_cut_to_what_is_recorded(lab: tuple[Home, int]) -> None:
    found = picture(*lab, -500.0, 5_000.0)
    assert (found["begin"], found["end"], found["all"]) == (0.0, 200.0, [0.0, 200.0])
    found = picture(*lab, 150.0, 5_000.0)
    assert (found["begin"], found["end"]) == (150.0, 200.0)


def test_a_stretch_without_operations_is_an_empty_picture(lab: tuple[Home, int]) -> None:
    found = picture(*lab, 185.0, 190.0)
    assert (found["rectangles"], found["messages"], found["path"], found["sentences"]) == ([], [], [], [])


@pytest.mark.parametrize("stretch", [(5.0, 5.0), (9.0, 3.0), (0.0, 0.1), (float("nan"), 5.0), (0.0, float("nan"))])
def test_a_stretch_that_is_none_is_refused(lab: tuple[Home, int], stretch: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=r"too short: at least 0\.5 µs"):
        picture(*lab, *stretch)


def test_a_stretch_without_bounds_shows_everything(lab: tuple[Home, int]) -> None:
    assert len(picture(*lab, float("-inf"), float("inf"))["rectangles"]) == 6


def test_a_run_without_operations_and_one_that_does_not_exist(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    with Store.open(home) as store:
        run_id = basic.add(store, "ada")
    assert picture(home, run_id, None, None)["operations"] == 0
    with pytest.raises(NoSuchRun):
        picture(home, 999, None, None)


def test_the_newest_steps_are_those_of_the_last_whole_sample_before_the_end(lab: tuple[Home, int]) -> None:
    home, run_id = lab
    assert picture(home, run_id, None, None, newest=True)["begin"] == 0.0
    late = [traced("compute", ZERO_US + at, ZERO_US + at + 10) for at in (5_000, 5_100, 9_000)]
    windows = [(5_000, 5_105, "sample"), (9_000, 9_400, "end")]
    with Store.open(home) as store:
        store.worker.write(
            run_id,
            [RankBatch(1, trace=TraceChunk.of(1, [""], late))],
            windows=[
                TraceWindow((ZERO_US + begin) * 1_000, (ZERO_US + end) * 1_000, why) for begin, end, why in windows
            ],
        )
    assert picture(home, run_id, None, None)["begin"] == 5_000.0, "the start is not typical"
    newest = picture(home, run_id, None, None, newest=True)
    assert (newest["begin"], newest["end"]) == (5_000.0, 5_105.0)
