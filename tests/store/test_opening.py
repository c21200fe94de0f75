"""How a store comes to be, who may open it, and what is said when it can't be."""

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreBusy, StoreError, StoreFull, StoreGone, StoreTooNew
from engine.home import Home
from engine.recorder import Point
from engine.runtime.worker.sink import retry_while_busy
from engine.store import Demand, Launch, RankBatch, Reader, Store
from engine.store.connection import ReadConnection
from engine.store.schema.migrations import steps
from engine.store.schema.upgrade import bring_up_to_date, known
from engine.store.worker_writes import StoreSink


def raw(home: Home) -> closing[sqlite3.Connection]:
    """Open the database beside the store, as another program would."""
    return closing(sqlite3.connect(home.database, isolation_level=None))


def test_a_home_without_a_store_reads_as_empty_until_there_is_one(
    home: Home, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Reader.open(home) as reader:
        assert (
            reader.runs.find(),
            reader.runs.count(),
            reader.runs.owners(),
            reader.runs.token(),
            reader.runner.current(),
        ) == ([], 0, [], 0, None)
        assert reader.curves.series(1, ["train/loss"]) == []
    assert not home.database.exists()
    with Reader.open(Home(tmp_path / "nowhere")) as reader:
        assert reader.runs.find() == []
    with Reader.open(home) as reader:
        assert reader.runs.find() == []
        run_id = request.getfixturevalue("add")()
        assert [row.id for row in reader.runs.find()] == [run_id]


def test_a_store_in_the_making_reads_as_empty(home: Home) -> None:
    with raw(home) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT)"
        )
    with Reader.open(home) as reader:
        assert reader.runs.find() == []


def test_a_store_restored_without_its_write_ahead_log_gets_one_again(home: Home, store: Store) -> None:
    store.close()
    with raw(home) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
    with Store.open(home) as opened:
        assert opened.db.rows("PRAGMA journal_mode")[0][0] == "wal"


def test_whoever_reads_while_the_steps_are_applied_sees_none_of_them(home: Home) -> None:
    seen: list[Any] = []
    with raw(home) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with Reader.open(home) as reader:

            def look(statement: str) -> None:  # what a trace callback raises goes nowhere
                try:
                    seen.append(reader.runs.find())
                except StoreError as error:
                    seen.append(error)

            connection.set_trace_callback(look)
            bring_up_to_date(connection)
            connection.set_trace_callback(None)
            assert len(seen) > len(known()) and not any(seen)
            assert connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()[0] == len(known())


def test_steps_that_fail_leave_the_store_as_it_was(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "by_name", dict(steps.by_name))

    @steps()
    def broken_step(db: Any) -> None:
        db.execute("ALTER TABLE nowhere ADD COLUMN priority INTEGER")

    with raw(home) as connection, pytest.raises(sqlite3.OperationalError, match="nowhere"):
        bring_up_to_date(connection)
    with raw(home) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


@pytest.mark.processes
def test_many_processes_make_one_schema_at_once(home: Home, program: Callable[..., Any]) -> None:
    makers = [
        program("wait()\nwith Store.open(home) as store: print(store.db.rows('PRAGMA journal_mode')[0][0])", home.path)
        for _ in range(6)
    ]
    assert [maker.line() for maker in makers] == ["ready"] * 6
    for maker in makers:
        maker.go()
    assert [maker.rest() for maker in makers] == ["wal"] * 6
    with raw(home) as connection:
        assert connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()[0] == len(known())
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_store_of_a_newer_version_is_refused_by_name_and_left_alone(home: Home, store: Store) -> None:
    store.close()
    with raw(home) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'from_the_future', '')",
            [steps.name],
        )
    before = home.database.read_bytes()
    for opening in (Store, Reader):
        with pytest.raises(
            StoreTooNew,
            match=r"newer version of Parallab \(it has the schema step 'from_the_future'\)\. Update Parallab",
        ) as error:
            opening.open(home)
        assert str(home.database) in str(error.value)
    assert home.database.read_bytes() == before


def test_a_store_of_an_older_version_is_read_by_none_and_mended_by_the_first_writer(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    monkeypatch.setattr(steps, "by_name", dict(steps.by_name))

    @steps()
    def later_step(db: Any) -> None:
        db.execute("ALTER TABLE runs ADD COLUMN shelf INTEGER NOT NULL DEFAULT 0")

    with pytest.raises(StoreError, match=r"older Parallab .*'later_step'.* serve command"):
        Reader.open(home)
    Store.open(home).close()
    with Reader.open(home) as reader:
        assert reader.runs.find() == []


def test_a_step_that_fails_leaves_the_store_as_it_was(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(steps, "by_name", dict(steps.by_name))

        @steps()
        def broken_step(db: Any) -> None:
            db.execute("CREATE TABLE half (id INTEGER)")
            raise RuntimeError("power cut")

        with pytest.raises(RuntimeError, match="power cut"):
            Store.open(home)
    Store.open(home).close()
    with raw(home) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None


def test_a_reader_can_not_write_and_reads_on_while_a_writer_holds_the_store(
    home: Home, store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    with pytest.raises(StoreError, match=r"can't be written"), reader.db.as_store_errors():
        reader.db.connection.execute("UPDATE runs SET owner = 'mallory'")
    run_id = add()
    with raw(home) as holder:
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE runs SET name = 'half done'")
        assert reader.runs.one(run_id).name == ""
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        reader.db.rows("SELECT * FROM no_such_table")


def test_a_held_store_is_busy_within_the_timeout_and_says_the_cure(home: Home, add: Callable[..., int]) -> None:
    run_id = add()
    with raw(home) as holder, Store.open(home, timeout_s=0.3) as page:
        holder.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(StoreBusy, match=r"locked by another program for 0\.3 s\. Try again"):
            page.runs.cancel(run_id, by="ada")
        assert time.monotonic() - start > 0.25
        holder.execute("ROLLBACK")
        assert page.runs.cancel(run_id, by="ada") == "cancelled"  # the connection is as good as before


@pytest.mark.parametrize("opening", [Store, Reader])
def test_a_file_that_is_no_database_is_said_to_be_none(home: Home, opening: type[Store] | type[Reader]) -> None:
    home.database.write_text("These are my shopping notes, not a database. " * 100)
    with pytest.raises(StoreError, match=r"is not an SQLite database\. Move the file away"):
        opening.open(home)


def test_a_home_of_any_name_is_opened_and_one_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"can't be created: Not a directory\. Set PARALLAB_HOME to another folder"):
        Store.open(Home(tmp_path / "file" / "home"))
    home = Home(tmp_path / "a?mode=rw#b%20c 'd\"")
    Store.open(home).close()
    with Reader.open(home) as reader:
        assert reader.db.rows("SELECT count(*) FROM runs")[0][0] == 0
        assert isinstance(reader.db, ReadConnection) and not reader.db._waits


Running = Callable[..., int]


def batch(first: int, count: int = 100) -> list[RankBatch]:
    return [RankBatch(0, [Point("train/loss", step, 1.0, 0.1) for step in range(first, first + count)])]


def write_on(store: Store, run_id: int, first: int) -> None:
    """Write batches until the store takes no more."""
    for start in range(first, 100_000, 100):
        store.worker.write(run_id, batch(start))


@pytest.mark.parametrize("held_s", [0.3, pytest.param(10.0, marks=pytest.mark.long)])
def test_a_store_held_by_another_program_costs_a_worker_time_and_a_page_a_sentence(
    home: Home, store: Store, reader: Reader, running: Running, held_s: float
) -> None:
    run_id = running()
    with closing(sqlite3.connect(home.database, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            Store.open(home, timeout_s=0.2) as page,
            pytest.raises(
                StoreBusy,
                match=r"locked by another program for 0\.2 s\. Try again; if the error persists, end",
            ),
        ):
            page.annotations.set_note(run_id, "now", by="ada")
        assert reader.runs.one(run_id).status == "running", "readers read on"
        start = time.monotonic()
        letting_go = threading.Timer(held_s, other.execute, ["ROLLBACK"])
        letting_go.start()
        store.worker.write(run_id, batch(0))
        assert time.monotonic() - start > held_s / 2
        letting_go.join()
    assert reader.curves.series(run_id, ["train/loss"])[0].steps == list(range(100))


def test_a_full_disk_is_said_keeps_what_there_is_and_takes_the_rest_once_there_is_room(
    home: Home, store: Store, reader: Reader, running: Running
) -> None:
    run_id = running()
    store.worker.write(run_id, batch(0))
    pages = store.db.rows("PRAGMA page_count")[0][0]
    store.db.rows(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(StoreFull, match=r"is on a full disk\. Free some space; recorded data is kept\."):
        write_on(store, run_id, 100)
    (held,) = reader.curves.series(run_id, ["train/loss"])
    taken = held.total
    assert taken % 100 == 0
    assert held.steps == list(range(taken)), "whole batches or none"
    assert reader.details.summaries(run_id)[0].count == taken
    assert reader.db.rows("PRAGMA integrity_check")[0][0] == "ok"
    store.db.rows("PRAGMA max_page_count = 1000000")
    store.worker.write(run_id, batch(taken))
    assert reader.curves.series(run_id, ["train/loss"])[0].total == taken + 100


def test_a_runs_last_words_wait_for_room(
    home: Home, store: Store, reader: Reader, running: Running, logged: list[str]
) -> None:
    run_id, sink = running(), StoreSink(store.db, running())
    store.db.rows(f"PRAGMA max_page_count = {store.db.rows('PRAGMA page_count')[0][0]}")
    tries: list[float] = []

    def last_words() -> None:
        tries.append(time.monotonic())
        if len(tries) == 3:
            store.db.rows("PRAGMA max_page_count = 1000000")
        sink.write([RankBatch(0, batch(0, 5_000)[0].points)], [], (1, 1, "samples"), [], [])

    retry_while_busy(last_words, for_s=30, pause_s=0.01)
    assert len(tries) == 3
    assert "is on a full disk" in "".join(logged)
    assert reader.curves.series(run_id + 1, ["train/loss"])[0].total == 5_000
    with pytest.raises(StoreBusy):
        retry_while_busy(lambda: _raise(StoreBusy("held")), for_s=0.05, pause_s=0.01)


def _raise(error: Exception) -> None:
    raise error


def removed(home: Home) -> None:
    shutil.rmtree(home.path)


def moved(home: Home) -> None:
    home.path.rename(home.path.with_name("elsewhere"))


def replaced(home: Home) -> None:
    moved(home)
    with Store.open(home):
        pass


@pytest.mark.parametrize("change", [removed, moved, replaced])
def test_nothing_is_written_into_a_store_that_is_gone(home: Home, change: Callable[[Home], None]) -> None:
    with Store.open(home) as store, Reader.open(home) as reader:
        store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
        assert reader.runs.count() == 1
        change(home)
        with pytest.raises(StoreGone, match="was deleted, moved or replaced while this process"):
            store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
        with pytest.raises(StoreGone), store.db.portions():
            pass
        assert not store.db.connection.in_transaction
        assert reader.runs.count() == 0, "a follower reads what is there now"
        assert home.path.exists() == (change is replaced), "nobody makes a home again by looking"
