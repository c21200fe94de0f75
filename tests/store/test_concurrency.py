"""Many processes at one store: no lock error, no torn read, and nothing lost with a killed writer."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from bench import store_size, store_writers
from engine.home import Home
from engine.store import Reader, Store
from tests.waiting import PATIENCE_S

WRITER = """
from engine.recorder import Point
run_id, batches = int(sys.argv[2]), int(sys.argv[3])
with Store.open(home) as store:
    wait()
    for at in range(batches):
        points = [Point("train/loss", at * 50 + step, float(at), 0.1) for step in range(50)]
        store.worker.write(run_id, [RankBatch(0, points)], run_points=[Point("perf/samples_per_second", at, 1.0, 0.1)], progress=(at + 1, batches, "batches"))
        print(at + 1, flush=True)
"""  # noqa: E501
READER = """
import itertools
wait()
polls = last = 0
with Reader.open(home) as reader:
    while reader.runs.count(statuses=["running"]):
        for row in reader.runs.find():
            with reader.db.snapshot():
                series, summary = reader.curves.series(row.id, ["train/loss"]), [s for s in reader.details.summaries(row.id) if s.metric == "train/loss"]
                done = reader.runs.one(row.id).progress_done
            assert [(len(s.ids), s.total) for s in series] == [(s.count, s.count) for s in summary]
            assert sum(s.total for s in series) == 50 * done, (series, done)
        assert reader.runs.token() >= last
        last, polls = reader.runs.token(), polls + 1
        if polls == 4:
            print("has read", flush=True)
print(polls)
"""  # noqa: E501


@pytest.mark.processes
def test_writers_and_readers_share_a_store_without_a_lock_error_or_a_torn_read(
    home: Home, store: Store, reader: Reader, running: Callable[..., int], program: Callable[..., Any]
) -> None:
    runs = [running() for _ in range(3)]
    writers = [program(WRITER, home.path, run_id, 60) for run_id in runs]
    readers = [program(READER, home.path) for _ in range(2)]
    for each in (*writers, *readers):
        assert each.line() == "ready"
    for each in (*writers, *readers):
        each.go()
    for each in readers:
        each.line()  # the runs are on until each has read them a few times
    for writer, run_id in zip(writers, runs, strict=True):
        assert writer.rest().splitlines()[-1] == "60"
        assert store.claims.end(run_id, "finished", "Completed successfully")
    assert all(int(each.rest()) > 3 for each in readers)
    assert [
        [series.total for series in reader.curves.series(run_id, ["train/loss", "perf/samples_per_second"])]
        for run_id in runs
    ] == [[60, 3000]] * 3


@pytest.mark.processes
def test_a_killed_writer_loses_no_point_that_it_had_committed(
    home: Home, store: Store, reader: Reader, running: Callable[..., int], program: Callable[..., Any]
) -> None:
    run_id = running()
    writer = program(WRITER, home.path, run_id, 100_000)
    writer.line()
    writer.go()
    while int(writer.line()) < 40:
        pass
    writer.process.send_signal(signal.SIGKILL)
    rest, _ = writer.process.communicate(timeout=PATIENCE_S)
    said = max([40, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))])
    with Reader.open(home) as fresh:
        found = {
            series.metric: series for series in fresh.curves.series(run_id, ["train/loss", "perf/samples_per_second"])
        }
        batches = found["perf/samples_per_second"].total
        assert batches >= said
        assert found["train/loss"].steps == list(range(50 * batches))
        assert fresh.runs.one(run_id).progress_done == batches
        assert fresh.db.rows("PRAGMA integrity_check")[0][0] == "ok"
    assert store.claims.end(run_id, "lost", "The worker was killed.")  # the lock went with its holder
    assert reader.runs.one(run_id).status == "lost"


@pytest.mark.long
def test_32_writers_and_4_readers_share_a_store_and_no_point_is_lost(home: Home) -> None:
    found = store_writers.measure(home, writers=32, readers=4, seconds=10, points=500)
    assert (found["lost"], found["busy_errors"], found["summaries_agree"]) == (0, 0, True)
    assert found["points_per_second"] >= 20_000


@pytest.mark.processes
def test_a_few_writers_and_readers_lose_no_point(
    home: Home, store: Store
) -> None:  # a store that somebody has open, as it is in a lab
    found = store_writers.measure(home, writers=3, readers=1, seconds=2, points=200)
    assert (found["lost"], found["busy_errors"], found["summaries_agree"]) == (0, 0, True)
    assert found["points"] >= 3 * 200, "each has written at least once"


@pytest.mark.long
def test_a_store_of_2000_runs_and_3_million_points_answers_at_once(home: Home) -> None:
    longest = store_size.fill(home, 2_000, 3_000_000)
    found = store_size.measure(home, longest)
    assert found["chart_of_the_longest"]["first"] < 300
    assert found["chart_of_the_longest"]["median"] < 50
    assert found["zoom_into_its_middle"]["median"] < 50
    assert all(
        found[name]["median"] < 300
        for name in ("run_table_500", "filter_by_status_owner_experiment", "search_in_all_texts")
    )
    assert all(found[name]["median"] < 5 for name in ("idle_poll_of_all", "idle_poll_of_a_run"))
