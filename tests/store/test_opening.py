"""How a store comes to be, who may open it, and what is said when it can't be."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreBusy, StoreError, StoreTooNew
from engine.home import Home
from engine.store import Reader, Store
from engine.store.schema import bring_up_to_date, known, steps


def raw(home: Home) -> closing[sqlite3.Connection]:
    """Open the database beside the store, as another program would."""
    return closing(sqlite3.connect(home.database, isolation_level=None))


def test_a_home_without_a_store_reads_as_empty_and_stays_so(home: Home) -> None:
    with Reader.open(home) as reader:
        assert (reader.runs(), reader.count(), reader.owners(), reader.token(), reader.runner()) == ([], 0, [], 0, None)
        assert reader.series(1, ["train/loss"]) == []
    assert not home.database.exists()


def test_a_home_that_is_not_there_reads_as_empty(tmp_path: Path) -> None:
    with Reader.open(Home(tmp_path / "nowhere")) as reader:
        assert reader.runs() == []


def test_a_reader_opened_before_the_store_finds_it_once_it_is_there(home: Home, request: pytest.FixtureRequest) -> None:
    with Reader.open(home) as reader:
        assert reader.runs() == []
        run_id = request.getfixturevalue("add")()
        assert [row.id for row in reader.runs()] == [run_id]


def test_a_store_in_the_making_reads_as_empty(home: Home) -> None:
    with raw(home) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT)")
    with Reader.open(home) as reader:
        assert reader.runs() == []


def test_whoever_reads_while_the_steps_are_applied_sees_none_of_them(home: Home) -> None:
    seen: list[Any] = []
    with raw(home) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with Reader.open(home) as reader:

            def look(statement: str) -> None:  # what a trace callback raises goes nowhere
                try:
                    seen.append(reader.runs())
                except StoreError as error:
                    seen.append(error)

            connection.set_trace_callback(look)
            bring_up_to_date(connection)
            connection.set_trace_callback(None)
            assert len(seen) > len(known()) and not any(seen)
            assert connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()[0] == len(known())


def test_steps_that_fail_leave_the_store_as_it_was(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_migrations", list(steps._migrations))

    @steps()
    def broken_step(db: Any) -> None:
        db.execute("ALTER TABLE nowhere ADD COLUMN priority INTEGER")

    with raw(home) as connection, pytest.raises(sqlite3.OperationalError, match="nowhere"):
        bring_up_to_date(connection)
    with raw(home) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def test_many_processes_make_one_schema_at_once(home: Home, program: Callable[..., Any]) -> None:
    makers = [program("wait()\nwith Store.open(home) as store: print(store.rows('PRAGMA journal_mode')[0][0])", home.path) for _ in range(6)]
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
        connection.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'from_the_future', '')", [steps.name])
    before = home.database.read_bytes()
    for opening in (Store, Reader):
        with pytest.raises(StoreTooNew, match=r"newer Parallab \(it has the schema step 'from_the_future'\)\. Update this checkout") as error:
            opening.open(home)
        assert str(home.database) in str(error.value)
    assert home.database.read_bytes() == before


def test_a_store_of_an_older_version_is_read_by_none_and_mended_by_the_first_writer(home: Home, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    monkeypatch.setattr(steps, "_migrations", list(steps._migrations))

    @steps()
    def later_step(db: Any) -> None:
        db.execute("ALTER TABLE runs ADD COLUMN shelf INTEGER NOT NULL DEFAULT 0")

    with pytest.raises(StoreError, match=r"older Parallab .*'later_step'.* serve command"):
        Reader.open(home)
    Store.open(home).close()
    with Reader.open(home) as reader:
        assert reader.runs() == []


def test_a_step_that_fails_leaves_the_store_as_it_was(home: Home, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(steps, "_migrations", list(steps._migrations))

        @steps()
        def broken_step(db: Any) -> None:
            db.execute("CREATE TABLE half (id INTEGER)")
            raise RuntimeError("power cut")

        with pytest.raises(RuntimeError, match="power cut"):
            Store.open(home)
    Store.open(home).close()
    with raw(home) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None


def test_a_reader_can_not_write(home: Home, store: Store, reader: Reader) -> None:
    with pytest.raises(StoreError, match=r"can't be written to"), reader.told():
        reader.connection.execute("UPDATE runs SET owner = 'mallory'")


def test_a_held_store_is_busy_within_the_timeout_and_says_the_cure(home: Home, add: Callable[..., int]) -> None:
    run_id = add()
    with raw(home) as holder, Store.open(home, timeout_s=0.3) as page:
        holder.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(StoreBusy, match=r"held by another program for 0\.3 s\. Try again"):
            page.request_cancel(run_id, by="ada")
        assert 0.25 < time.monotonic() - start < 25.0, "by itself it would wait for 30 s"
        holder.execute("ROLLBACK")
        assert page.request_cancel(run_id, by="ada") == "cancelled"  # the connection is as good as before


def test_readers_read_on_while_a_writer_holds_the_store(home: Home, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    with raw(home) as holder:
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE runs SET name = 'half done'")
        assert reader.run(run_id).name == ""


def test_a_store_restored_without_its_write_ahead_log_gets_one_again(home: Home, store: Store) -> None:
    store.close()
    with raw(home) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
    with Store.open(home) as opened:
        assert opened.rows("PRAGMA journal_mode")[0][0] == "wal"


@pytest.mark.parametrize("opening", [Store, Reader])
def test_a_file_that_is_no_database_is_said_to_be_none(home: Home, opening: type[Store] | type[Reader]) -> None:
    home.database.write_text("These are my shopping notes, not a database. " * 100)
    with pytest.raises(StoreError, match=r"is not an SQLite database\. Move that file away"):
        opening.open(home)


def test_a_home_that_can_not_be_made_is_said_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"can't be made: Not a directory\. Name another folder in PARALLAB_HOME"):
        Store.open(Home(tmp_path / "file" / "home"))


def test_a_folder_name_full_of_signs_is_only_a_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "a?mode=rw#b%20c 'd\"")
    Store.open(home).close()
    with Reader.open(home) as reader:
        assert reader.rows("SELECT count(*) FROM runs")[0][0] == 0
        assert not reader._waits


def test_a_mistake_in_our_sql_keeps_its_own_error(reader: Reader) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        reader.rows("SELECT * FROM no_such_table")
