"""Stored traces: what a worker writes is read back, what was asked for reaches it once, and what each rank does now."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ConfigError, NoSuchRun, StoreDamaged, WrongStatus
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import RankBatch
from engine.store.worker_writes import StoreSink
from engine.trace.chunk import TraceChunk
from engine.trace.health import Health, RankState, Verdict
from engine.trace.layout import TraceWindow
from tests.labs import basic
from tests.trace_entries import traced


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path).create()


def running(store: Store, home: Home) -> int:
    run_id = basic.add(store, "Ada")
    basic.drive(store, home, run_id, "running")
    return run_id


def chunk(rank: int, *at_us: float) -> TraceChunk:
    return TraceChunk.of(rank, ["push"], [traced("communicate", at, at + 1) for at in at_us], lost=rank)


def test_chunks_and_windows_are_read_as_written_and_a_window_that_grew_replaces_itself(home: Home) -> None:
    with Store.open(home) as store:
        run_id, other = running(store, home), basic.add(store, "Ada")
        first = TraceWindow(5, 90, "start")
        store.worker.write(
            run_id, [RankBatch(0, trace=chunk(0, 1, 2)), RankBatch(1, trace=chunk(1, 3))], windows=[first]
        )
        newest = store.read.traces.newest(run_id)
        store.worker.write(
            run_id, [RankBatch(0, trace=chunk(0, 4))], windows=[TraceWindow(5, 60, "start"), TraceWindow(70, 99, "end")]
        )
        traces = store.read.traces
        assert traces.windows(run_id) == [TraceWindow(5, 60, "start"), TraceWindow(70, 99, "end")]
        found = traces.chunks(run_id)
        assert [(each.rank, len(each.entries), each.lost) for each in found] == [(0, 2, 0), (1, 1, 1), (0, 1, 0)]
        assert [each.entries["entered_ns"].tolist() for each in traces.chunks(run_id, after=newest)] == [[4_000]]
        assert (traces.windows(other), traces.chunks(other), traces.newest(other)) == ([], [], 0)


def test_a_damaged_chunk_is_refused_by_name(home: Home) -> None:
    with Store.open(home) as store:
        run_id = running(store, home)
        store.worker.write(run_id, [RankBatch(2, trace=chunk(2, 1))])
        store.db.rows("UPDATE trace_chunks SET content = 'AAAA' WHERE run_id = ?", [run_id])
        with pytest.raises(StoreDamaged, match="rank 2 is damaged"):
            store.read.traces.chunks(run_id)


def test_a_request_reaches_the_worker_once_and_is_an_event(home: Home) -> None:
    with Store.open(home) as store:
        run_id = running(store, home)
        sink = StoreSink(store.db, run_id)
        assert sink.trace_requests() == []
        store.runs.trace(run_id, 5.0, by="Ada")
        store.runs.trace(run_id, 0.5, by="Ada")
        assert (sink.trace_requests(), sink.trace_requests()) == ([5.0, 0.5], [])
        event = store.read.details.events(run_id)[-1]
        assert (event.kind, event.who, event.detail) == (
            "trace requested",
            "Ada",
            "All operations of 0.5 s are stored.",
        )


@pytest.mark.parametrize("seconds", [0.0, 0.05, 60.5, -1.0, float("nan"), float("inf")])
def test_a_request_of_too_short_or_too_long_a_stretch_is_refused(home: Home, seconds: float) -> None:
    with Store.open(home) as store:
        run_id = running(store, home)
        with pytest.raises(ConfigError, match=r"seconds must be from 0\.1 to 60"):
            store.runs.trace(run_id, seconds, by="Ada")
        assert store.read.traces.requests(run_id, 0) == []


def test_only_a_running_run_can_be_asked(home: Home) -> None:
    with Store.open(home) as store:
        queued = basic.add(store, "Ada")
        with pytest.raises(WrongStatus, match=f"Run {queued} is queued"):
            store.runs.trace(queued, 1.0, by="Ada")
        with pytest.raises(NoSuchRun):
            store.runs.trace(999, 1.0, by="Ada")


def test_what_the_ranks_do_is_replaced_and_says_how_a_run_ended(home: Home) -> None:
    rank = RankState(
        0, "trainer1", 7, "stopped", "compute", "average #3", 2, ("trainer2",), 12.5, True, "take(), a.py:1"
    )
    first = Health("2026-01-01T00:00:00.000Z", (rank,), Verdict("HUNG", "trainer1", "stopped", "It is stopped."))
    with Store.open(home) as store:
        run_id = running(store, home)
        assert store.read.details.health(run_id) is None
        assert store.read.details.health_now(run_id).verdict == Verdict("STARTING")
        store.worker.write_health(run_id, first)
        assert store.read.details.health(run_id) == store.read.details.health_now(run_id) == first
        well = replace(first, verdict=Verdict("RUNNING"))
        for _ in range(2):
            store.worker.write_health(run_id, well)
        assert store.read.details.health(run_id) == well
        said = [each.detail for each in store.read.details.events(run_id) if each.kind == "continues"]
        assert said == ["Trainer1 continues."]
        queued = basic.add(store, "Ada")
        for reason, why in (
            ("waits for 2 cores", ": waits for 2 cores"),
            ("waits: no runner", ": no runner"),
            (None, ""),
        ):
            found = store.read.details.health_now(queued, reason)
            assert found == Health("", (), Verdict("QUEUED", sentence=f"Run {queued} is queued{why}."))
        store.claims.end(run_id, "failed", "It failed.")
        now = store.read.details.health_now(run_id)
        assert (now.verdict.state, now.verdict.sentence) == ("ENDED", f"Run {run_id} failed. It failed.")
        assert now.ranks == (replace(rank, state="ended"),)
    with Reader.open(home) as reader, pytest.raises(NoSuchRun):
        reader.details.health_now(999)
