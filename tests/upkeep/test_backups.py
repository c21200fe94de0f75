"""Backups are whole, checked and counted; the way back replaces nothing that is in use and deletes nothing."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from engine.errors import RunnerError, StoreBusy, StoreError, StoreTooNew, WrongStatus
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.schema.migrations import steps
from engine.store.timestamps import now
from engine.system.processes import me
from engine.upkeep import fsck
from engine.upkeep.backups import back_up, backups, check_sum
from engine.upkeep.restore import restore
from engine.upkeep.schedule import Schedule
from tests.store.test_concurrency import WRITER

Running = Callable[..., int]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.processes
def test_a_backup_taken_while_others_write_is_one_moment_of_the_store_and_holds_nobody_up(
    home: Home, store: Store, running: Running, program: Callable[..., Any]
) -> None:
    filler, run_id = running(), running()
    for part in range(20):
        store.worker.write(
            filler,
            [RankBatch(0, [Point("train/loss", step, 1.0, 0.1) for step in range(part * 5_000, part * 5_000 + 5_000)])],
        )
    writer = program(WRITER, home.path, run_id, 100_000)
    writer.line()
    writer.go()
    before = int(writer.line())
    made = back_up(home, by="ada")
    while (after := int(writer.line())) < before + 2:
        pass
    writer.process.kill()
    check_sum(made.path)
    with closing(sqlite3.connect(made.path)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert copy.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        points, counted = (
            copy.execute(sql).fetchone()[0] for sql in ("SELECT count(*) FROM points", "SELECT sum(count) FROM metrics")
        )
        done = copy.execute("SELECT done FROM progress WHERE run_id = ?", [run_id]).fetchone()[0]
    assert points == counted == 100_000 + 51 * done
    assert after > before
    assert {path.suffix for path in home.backups.iterdir()} <= {".db", ".sha256", ".lock"}


def test_only_the_newest_are_kept_each_with_its_checksum(home: Home, store: Store) -> None:
    began = now()
    made = [back_up(home, by="ada", keep=2) for _ in range(4)]
    assert [backup.path for backup in backups(home)] == [made[3].path, made[2].path]
    assert sorted(path.name for path in home.backups.glob("*.sha256")) == sorted(
        f"{backup.path.name}.sha256" for backup in made[2:]
    )
    assert began <= backups(home)[0].made_at <= now()


def test_one_backup_is_made_at_a_time_and_none_of_nothing(home: Home, request: pytest.FixtureRequest) -> None:
    with pytest.raises(StoreError, match=r"has no store to back up"):
        back_up(home, by="ada")
    request.getfixturevalue("store")
    with FileLock(home.backups / "backup.lock"), pytest.raises(StoreBusy, match="Another backup is being made"):
        back_up(home, by="ada")
    assert backups(home) == []


def test_a_restored_store_is_that_of_the_backup_and_what_was_there_lies_aside(
    home: Home, store: Store, running: Running
) -> None:
    kept = running()
    store.worker.write(kept, [RankBatch(0, [Point("train/loss", 1, 0.5, 0.1)])])
    store.claims.end(kept, "finished", "Completed successfully")
    made = back_up(home, by="ada")
    later = running()
    store.claims.end(later, "finished", "Completed successfully")
    for run_id in (kept, later):
        (home.run_folder(run_id) / "logs").mkdir(parents=True)
    store.close()
    done = restore(home, made.path, by="ada")
    assert (done.runs, done.folders) == (1, 1)
    with Reader.open(home) as reader:
        assert [row.id for row in reader.runs.find()] == [kept]
        assert reader.curves.series(kept, ["train/loss"])[0].values == [0.5]
        assert reader.db.rows("PRAGMA journal_mode")[0][0] == "wal"
    with Reader.open(Home(done.aside)) as reader:
        assert [row.id for row in reader.runs.find()] == [later, kept]
    assert (done.aside / "runs" / str(later) / "logs").is_dir()
    assert home.run_folder(kept).is_dir()
    assert made.path.is_file()
    assert list(fsck.examine(home)) == []


def test_a_backup_with_a_changed_byte_a_lost_checksum_or_another_program_is_refused(
    home: Home, store: Store, tmp_path: Path
) -> None:
    made = back_up(home, by="ada")
    store.close()
    before = bytes_of(home.path)
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(StoreError, match=r"SHA-256 doesn't match .*\.db\.sha256"):
        restore(home, made.path, by="ada")
    made.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match=r"damaged|can't be read"):
        restore(home, made.path, by="ada", unchecked=True)
    made.path.write_bytes(whole)
    made.path.with_name(made.path.name + ".sha256").unlink()
    with pytest.raises(StoreError, match=r"checksum file .* --unchecked"):
        restore(home, made.path, by="ada")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE runs (id INTEGER)")
    with pytest.raises(StoreError, match="not a Parallab store"):
        restore(home, tmp_path / "other.db", by="ada", unchecked=True)
    (tmp_path / "text.db").write_text("not a database, only so long that it could be one" * 100)
    with pytest.raises(StoreError, match="can't be read as an SQLite database"):
        restore(home, tmp_path / "text.db", by="ada", unchecked=True)
    with pytest.raises(StoreError, match="doesn't exist"):
        restore(home, tmp_path / "nothing.db", by="ada")
    assert bytes_of(home.path) == before
    assert not home.aside.exists()


def test_a_backup_of_a_newer_version_is_refused(home: Home, store: Store) -> None:
    made = back_up(home, by="ada")
    with closing(sqlite3.connect(made.path, isolation_level=None)) as copy:
        copy.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'from_the_future', '')",
            [steps.name],
        )
    with pytest.raises(StoreTooNew, match="from_the_future"):
        restore(home, made.path, by="ada", unchecked=True)


def test_the_way_back_from_a_newer_version_is_the_backup_made_before(home: Home, store: Store) -> None:
    made = back_up(home, by="ada")
    store.db.connection.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'from_the_future', '')",
        [steps.name],
    )
    store.close()
    with pytest.raises(StoreTooNew):
        Store.open(home)
    done = restore(home, made.path, by="ada")
    with Reader.open(home) as reader:
        assert reader.runs.count() == 0
    with closing(sqlite3.connect(done.aside / home.database.name)) as before:
        assert before.execute("SELECT count(*) FROM _sqlite_migrations WHERE name = 'from_the_future'").fetchone() == (
            1,
        )


def test_a_restore_waits_for_no_one_while_a_runner_serves_or_a_run_is_on(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    made, run_id = back_up(home, by="ada"), add()
    with (
        FileLock(home.runner_lock),
        pytest.raises(
            RunnerError,
            match=(
                r"while a runner is running .* "
                r"stop --cancel-runs"
            ),
        ),
    ):
        restore(home, made.path, by="ada")
    store.claims.claim(run_id, me(), ())
    with pytest.raises(WrongStatus, match=f"while run {run_id} is active"):
        restore(home, made.path, by="ada")
    assert not home.aside.exists()
    store.claims.end(run_id, "failed", "It failed.")
    store.close()
    assert restore(home, made.path, by="ada").runs == 0


def test_the_runner_makes_a_backup_when_the_newest_is_old_enough(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    def look(every_h: float) -> int:
        schedule = Schedule(home, every_h, keep=1)
        schedule.look()
        schedule.wait()
        return len(backups(home))

    assert look(1e-9) == 0, "there is nothing to keep yet"
    add()
    time.sleep(0.01)
    assert (look(24), look(0)) == (0, 0)
    assert look(1e-9) == 1
    (first,) = backups(home)
    time.sleep(0.01)
    assert (look(24), look(1e-9)) == (1, 1)
    assert backups(home)[0].path != first.path


@pytest.mark.parametrize("text", ["daily", "-1", "nan"])
def test_a_schedule_that_is_no_number_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PARALLAB_BACKUP_EVERY_H", text)
    with pytest.raises(RunnerError, match=f"PARALLAB_BACKUP_EVERY_H must be a number of at least 0; got '{text}'"):
        Schedule.from_environment(home)
