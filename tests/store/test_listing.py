"""Lists of runs: newest first, filtered and searched, with numbers that never touch a metric point."""

import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store


def point(name: str, *values: float) -> list[Point]:
    return [Point(name, step, value, 0.0) for step, value in enumerate(values)]


def ids(reader: Reader, **filters: Any) -> list[int]:
    found = [row.id for row in reader.runs(**filters)]
    assert reader.count(**{name: value for name, value in filters.items() if name not in ("limit", "offset")}) >= len(found)
    return found


def test_runs_come_newest_first_a_page_at_a_time(reader: Reader, add: Callable[..., int]) -> None:
    made = [add() for _ in range(7)]
    assert ids(reader) == made[::-1]
    assert ids(reader, limit=3) + ids(reader, limit=3, offset=3) + ids(reader, limit=3, offset=6) == made[::-1]
    assert reader.count() == 7


def test_filters_hold_together(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    one, two, three = add(owner="ada"), add(owner="grace"), add("reference", owner="ada")
    store.request_cancel(one, by="ada")
    assert ids(reader, owner="ada") == [three, one]
    assert ids(reader, experiment="hogwild") == [two, one]
    assert ids(reader, statuses=["queued"]) == [three, two]
    assert ids(reader, statuses=["queued", "cancelled"], owner="ada", experiment="hogwild") == [one]
    assert ids(reader, statuses=[]) == []
    assert reader.count(owner="ada") == 2
    assert reader.owners() == ["ada", "grace"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        *(("wide", [1]), ("WIDE net", [1]), ("net wide", [1]), ("wide gone", []), ("thes", [2]), ("quick", [3]), ("grace", [2]), ("2", [2]), ("#3", [3])),
        *(("100%", [1]), ("%", [1]), ("_", [3]), ("o_s", []), ("remember", [3]), ("", [3, 2, 1]), ("'; DROP TABLE runs; --", []), ("  ", [3, 2, 1])),
    ],
)
def test_search_finds_each_word_as_it_stands_anywhere(store: Store, reader: Reader, add: Callable[..., int], search: str, found: list[int]) -> None:
    add(name="a wide net, 100%")
    store.add_tag(add(owner="grace"), "thesis", by="grace")
    store.set_note(add("reference", preset="quick", name="x_y"), "remember me", by="ada")
    assert ids(reader, search=search) == found
    assert reader.count(search=search) == len(found)


def test_last_and_best_are_the_whole_runs_else_the_mean_and_best_over_ranks(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id, other = running(), running()
    batches = [RankBatch(0, [*point("train/loss", 3.0, 1.0), *point("test/accuracy", 10.0, 8.0)]), RankBatch(1, point("train/loss", 0.5, 2.0))]
    store.write(run_id, batches, run_points=[*point("test/accuracy", 99.0, 98.0), *point("my/number", 1.0)])
    store.write(other, [RankBatch(0, point("train/loss", 7.0))])
    first, second = reader.runs()[::-1]
    assert first.last == {"train/loss": 1.5, "test/accuracy": 98.0, "my/number": 1.0}
    assert first.best == {"train/loss": 0.5, "test/accuracy": 99.0}
    assert (second.last, second.best) == ({"train/loss": 7.0}, {"train/loss": 7.0})


def test_time_left_is_the_rest_at_the_pace_so_far(home: Home, store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    assert (reader.runs()[0].progress, reader.runs()[0].time_left_s) == (0.0, None)
    store.write(run_id, [], progress=(25, 100, "samples"))
    start = time.monotonic()
    with store.change() as connection:
        connection.execute("UPDATE runs SET started_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-10 seconds')")
    row = reader.runs()[0]
    assert row.progress == 0.25
    assert row.time_left_s is not None
    assert 29.9 < row.time_left_s < 30.1 + 3 * (time.monotonic() - start)
    store.request_cancel(run_id, by="ada")
    assert (reader.runs()[0].progress, reader.runs()[0].time_left_s) == (0.25, None)


def test_progress_never_exceeds_all_and_a_finished_run_is_done(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    store.write(run_id, [], progress=(130, 100, "samples"))
    assert (reader.runs()[0].progress, reader.runs()[0].time_left_s) == (1.0, 0.0)
    store.write(run_id, [], progress=(0, 0, "samples"))
    store.end(run_id, "finished", "All ranks ended their work.")
    assert reader.runs()[0].progress == 1.0


def test_a_list_asks_for_no_metric_point(home: Home, store: Store, reader: Reader, running: Callable[..., int]) -> None:
    for _ in range(3):
        store.write(running(), [RankBatch(0, point("train/loss", 1.0, math.nan))], progress=(1, 2, "samples"))
    asked: list[str] = []
    reader.connection.set_trace_callback(asked.append)
    reader.runs(search="ada", owner="ada", statuses=["running"])
    reader.count(search="ada")
    reader.token()
    reader.owners()
    reader.connection.set_trace_callback(None)
    questions = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(questions) >= 5
    for sql in questions:
        plan = [row["detail"] for row in reader.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert plan
        assert not [step for step in plan if "points" in step], (sql, plan)
    with closing(sqlite3.connect(home.database)) as connection:  # and it still works where they are gone altogether
        connection.execute("DROP TABLE points")
    assert [row.last for row in reader.runs()] == [{"train/loss": 1.0}] * 3
