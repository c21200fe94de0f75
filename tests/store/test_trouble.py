"""The store in trouble: held by another program, or on a full disk. A sentence with the cure, and nothing recorded is lost."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.errors import StoreBusy, StoreFull
from engine.home import Home
from engine.recorder import Point
from engine.runtime.patience import patiently
from engine.runtime.sink import StoreSink
from engine.store import RankBatch, Reader, Store

Running = Callable[..., int]


def batch(first: int, count: int = 100) -> list[RankBatch]:
    return [RankBatch(0, [Point("train/loss", step, 1.0, 0.1) for step in range(first, first + count)])]


def write_on(store: Store, run_id: int, first: int) -> None:
    """Write batches until the store takes no more."""
    for start in range(first, 100_000, 100):
        store.write(run_id, batch(start))


@pytest.mark.parametrize("held_s", [1.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_a_store_held_by_another_program_costs_a_worker_time_and_a_page_a_sentence(
    home: Home, store: Store, reader: Reader, running: Running, held_s: float
) -> None:
    run_id = running()
    with closing(sqlite3.connect(home.database, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            Store.open(home, timeout_s=0.2) as page,
            pytest.raises(StoreBusy, match=r"held by another program for 0\.2 s\. Try again; if it lasts, end the program"),
        ):
            page.set_note(run_id, "now", by="ada")
        assert reader.run(run_id).status == "running", "readers read on"
        start = time.monotonic()
        letting_go = threading.Timer(held_s, other.execute, ["ROLLBACK"])
        letting_go.start()
        store.write(run_id, batch(0))
        assert time.monotonic() - start > held_s / 2
        letting_go.join()
    assert reader.series(run_id, ["train/loss"])[0].steps == list(range(100))


def test_a_full_disk_is_said_keeps_what_there_is_and_takes_the_rest_once_there_is_room(home: Home, store: Store, reader: Reader, running: Running) -> None:
    run_id = running()
    store.write(run_id, batch(0))
    pages = store.rows("PRAGMA page_count")[0][0]
    store.rows(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(StoreFull, match=r"is on a disk that is full\. Free some space; what was recorded so far is kept\."):
        write_on(store, run_id, 100)
    (held,) = reader.series(run_id, ["train/loss"])
    taken = held.total
    assert taken % 100 == 0
    assert held.steps == list(range(taken)), "whole batches or none"
    assert reader.summaries(run_id)[0].count == taken
    assert reader.rows("PRAGMA integrity_check")[0][0] == "ok"
    store.rows("PRAGMA max_page_count = 1000000")
    store.write(run_id, batch(taken))
    assert reader.series(run_id, ["train/loss"])[0].total == taken + 100


def test_a_runs_last_words_wait_for_room(home: Home, store: Store, reader: Reader, running: Running, caplog: pytest.LogCaptureFixture) -> None:
    run_id, sink = running(), StoreSink(store, running())
    store.rows(f"PRAGMA max_page_count = {store.rows('PRAGMA page_count')[0][0]}")
    tries: list[float] = []

    def last_words() -> None:
        tries.append(time.monotonic())
        if len(tries) == 3:
            store.rows("PRAGMA max_page_count = 1000000")
        sink.write([RankBatch(0, batch(0, 5_000)[0].points)], [], (1, 1, "samples"), [])

    with caplog.at_level(logging.WARNING):
        patiently(last_words, for_s=30, pause_s=0.01)
    assert len(tries) == 3
    assert "is on a disk that is full" in caplog.text
    assert reader.series(run_id + 1, ["train/loss"])[0].total == 5_000
    with pytest.raises(StoreBusy):
        patiently(lambda: _raise(StoreBusy("held")), for_s=0.05, pause_s=0.01)


def _raise(error: Exception) -> None:
    raise error
