"""Backups are whole, checked and counted; the way back replaces nothing that is in use and deletes nothing."""

import errno
import itertools
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from engine.access.quotas import Limits, limits, set_limits
from engine.errors import NoCheckpoint, RunnerError, StoreBusy, StoreError, StoreTooNew, WrongStatus
from engine.home import Home
from engine.launch import resume
from engine.recorder import Point
from engine.runner.placement import LocalLauncher
from engine.runner.run_supervisor import Endings
from engine.store import Demand, Launch, ProcessIdentity, RankBatch, Reader, Store
from engine.store.schema.migrations import steps
from engine.store.timestamps import now
from engine.system.checkpoint_state import last_checkpoint
from engine.system.processes import identity, me
from engine.system.runner_process import lose, runner_process
from engine.upkeep import fsck
from engine.upkeep.backups import Schedule, back_up, backups, check_sum, restore
from engine.upkeep.leftovers import leftovers
from tests.checkpoints import lay
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


def test_quotas_come_from_the_backup_into_a_home_without_any_and_stay_in_one_that_has_some(
    home: Home, store: Store, tmp_path: Path
) -> None:
    set_limits(home, Limits(max_queued_per_person=7))
    made = back_up(home, by="ada")
    assert len((made.path.with_name(f"{made.path.name}.sha256")).read_text().splitlines()) == 2
    other = Home(tmp_path / "other")
    assert restore(other, made.path, by="ada").quotas and limits(other).max_queued_per_person == 7
    set_limits(other, Limits(max_queued_per_person=3))
    assert not restore(other, made.path, by="ada").quotas and limits(other).max_queued_per_person == 3
    beside = made.path.with_name(f"{made.path.name}.limits.json")
    beside.write_text(beside.read_text().replace("7", "70"))
    with pytest.raises(StoreError, match=r"limits.json is damaged: its SHA-256 doesn't match"):
        restore(other, made.path, by="ada")
    beside.unlink()
    other.limits.unlink()
    assert not restore(other, made.path, by="ada").quotas, "the file alone, as backups of earlier versions"


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Give a folder on another file system than the home."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("needs a second file system, such as /dev/shm")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def everything(home: Home) -> dict[str, bytes | None]:
    """Return all that lies in a home, with its content, but for the store, whose audit log grows."""
    found = (path for path in home.path.rglob("*") if not path.name.endswith((".db", "-wal", "-shm", ".lock")))
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def test_a_restore_with_the_run_folders_on_another_disk_moves_those_of_later_runs_aside_there(
    home: Home, store: Store, running: Running, elsewhere: Path
) -> None:
    (home.path / "runs").symlink_to(elsewhere)
    kept = running()
    store.claims.end(kept, "finished", "Completed successfully")
    made = back_up(home, by="ada")
    later = running()
    store.claims.end(later, "cancelled", "Cancelled by ada.")
    lay(home.run_folder(later), 1200, run=store.read.runs.one(later).uid)
    lay(home.run_folder(kept), 7)
    store.close()
    done = restore(home, made.path, by="ada")
    place = home.path / "runs" / "aside" / done.aside.name / "runs"
    assert (done.runs, done.folders, done.folders_in) == (1, 1, place)
    assert last_checkpoint(place / str(later)) is not None, "nothing is deleted"
    assert not home.run_folder(later).exists() and home.run_folder(kept).is_dir()
    with Store.open(home) as again:
        number = again.runs.add(Launch("reference", {}, "ada", demand=Demand(1, 0, 1, 1)))
    assert number > later, "no run gets the number of another one"
    assert list(fsck.examine(home)) == []


def test_orphans_on_another_disk_are_moved_aside_there(home: Home, store: Store, elsewhere: Path) -> None:
    (home.path / "runs").symlink_to(elsewhere)
    lay(home.run_folder(41), 3)
    os.utime(home.run_folder(41), (1.0, 1.0))
    (trouble,) = fsck.examine(home)
    assert trouble.mend and trouble.cure == f"Moves them to {home.path / 'runs' / 'aside'}."
    trouble.mend()
    assert [last_checkpoint(path) is not None for path in elsewhere.glob("aside/orphans-*/41")] == [True]
    assert list(fsck.examine(home)) == []


@pytest.mark.parametrize(("failing", "at"), [("rename", 1), ("rename", 2), ("replace", 1), ("copy", 1)])
def test_a_restore_that_fails_has_changed_nothing(
    home: Home, store: Store, running: Running, monkeypatch: pytest.MonkeyPatch, failing: str, at: int
) -> None:
    """`rename` moves a run's folder, `replace` the new store, `copy` keeps the old one."""
    made = back_up(home, by="ada")
    for run_id in (running(), running()):
        store.claims.end(run_id, "finished", "Completed successfully")
        lay(home.run_folder(run_id), 5)
    store.close()
    before, calls = everything(home), itertools.count(1)

    def breaking(real: Callable[..., Any], concerned: Callable[[Any], bool]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            if concerned(given) and next(calls) >= at:
                raise OSError(errno.EIO, "Input/output error", str(given[0]))
            return real(*given, **options)

        return call

    with monkeypatch.context() as patch:
        if failing == "copy":
            patch.setattr(shutil, "copy2", breaking(shutil.copy2, lambda given: True))
            patch.setattr(Path, "hardlink_to", breaking(Path.hardlink_to, lambda given: True))
        elif failing == "replace":
            patch.setattr(Path, "replace", breaking(Path.replace, lambda given: given[1] == home.database))
        else:
            patch.setattr(Path, "rename", breaking(Path.rename, lambda given: given[0].parent == home.path / "runs"))
        with pytest.raises(StoreError, match=r"Input/output error\. The store and the run folders are as before"):
            restore(home, made.path, by="ada")
    assert {name: content for name, content in everything(home).items() if "/aside" not in name} == before
    assert not any(path.is_file() for path in home.aside.rglob("*"))
    with Reader.open(home) as reader:
        assert reader.runs.count() == 2
        assert reader.audit.entries()[0].command == "restore"


@pytest.fixture
def worker(home: Home) -> Iterator[ProcessIdentity]:
    """A live process of the home, which its store has as the worker of a run and as its runner."""
    command = ["sleep", "600"]
    process = subprocess.Popen(command, env=os.environ | {"PARALLAB_HOME": str(home.path)}, start_new_session=True)
    found = identity(process.pid)
    assert found
    yield found
    process.kill()
    process.wait()


def works(store: Store, worker: ProcessIdentity, run_id: int) -> None:
    """Have the run train in that worker, and the runner be the same process."""
    store.claims.claim(run_id, worker, ())
    store.worker.begin(run_id, worker, {})
    store.worker.mark_running(run_id, 0.1)
    store.runner.register(worker, cores=2, gpus=0)


def nothing_of_the_original_ends(home: Home, store: Store, run_id: int, worker: ProcessIdentity) -> None:
    """Let a runner and a cleanup of a copied home end what they take for theirs."""
    store.runs.cancel(run_id, by="ada", force=True) if store.read.runs.one(run_id).status == "running" else None
    endings = Endings(store, LocalLauncher(home))
    assert endings.holders() == []
    endings.inherit(run_id)
    endings.holders()
    with Reader.open(home) as reader:
        assert leftovers(home, reader, home.path / "none", grace_s=0.0) == []
    for force in (False, True):
        endings.launcher.cancel(worker, force=force)
    assert identity(worker.pid) == worker


@pytest.mark.processes
def test_a_backup_restored_elsewhere_owns_no_process_of_the_original_home(
    home: Home, store: Store, add: Callable[..., int], worker: ProcessIdentity, tmp_path: Path
) -> None:
    run_id, queued = add(), add()
    works(store, worker, run_id)
    made, other = back_up(home, by="ada"), Home(tmp_path / "other")
    done = restore(other, made.path, by="ada")
    assert (done.lost, done.queued) == ([run_id], [queued])
    with Store.open(other) as theirs:
        run = theirs.read.runs.one(run_id)
        assert (run.status, run.worker, runner_process(other)) == ("lost", None, None)
        assert "a backup made while this run was active" in run.cause
        assert theirs.read.runs.one(queued).status == "queued"
        nothing_of_the_original_ends(other, theirs, run_id, worker)
    assert store.read.runs.one(run_id).status == "running"


@pytest.mark.processes
def test_a_copied_home_owns_no_process_of_the_original(
    home: Home, store: Store, add: Callable[..., int], worker: ProcessIdentity, tmp_path: Path
) -> None:
    run_id, other_id = add(), add()
    for each in (run_id, other_id):
        works(store, worker, each)
    shutil.copytree(home.path, tmp_path / "other")
    other = Home(tmp_path / "other")
    assert runner_process(home) == worker and runner_process(other) is None
    with Store.open(other) as theirs:
        nothing_of_the_original_ends(other, theirs, run_id, worker)
        assert theirs.read.runs.one(run_id).status == "cancelled"
        lost = theirs.read.runs.one(other_id)
        assert (lost.status, lost.cause.partition(",")[0]) == ("lost", "This home is a copy of another one")
    endings = Endings(store, LocalLauncher(home))
    assert len(endings.holders()) == 2, "the original has both"


def test_a_checkpoint_that_the_restored_store_has_no_points_for_is_not_resumed(
    home: Home, store: Store, running: Running
) -> None:
    run_id = running(experiment="reference")
    store.worker.write(run_id, [RankBatch(0, [Point("train/loss", 1, 0.5, 0.1)], last_step=1)])
    made = back_up(home, by="ada")
    store.worker.write(run_id, [RankBatch(0, [Point("train/loss", 2, 0.4, 0.2)], last_step=2)])
    lay(home.run_folder(run_id), 2, run=store.read.runs.one(run_id).uid, steps={0: 2})
    store.claims.end(run_id, "cancelled", "Cancelled by ada.")
    assert store.read.runs.why_behind(run_id, {0: 2}) == ""
    store.close()
    restore(home, made.path, by="ada")
    with Store.open(home) as again:
        lose(again, again.read.runs.one(run_id), "It is gone.")
        assert f"run {run_id} is lost: " in again.db.home.runner_log.read_text()
    with pytest.raises(NoCheckpoint, match=r"its checkpoint is of step 2 and its curves end at step 1.*Retry it"):
        resume(home, run_id, owner="ada")


def test_a_lost_run_with_a_checkpoint_is_to_be_resumed_first(home: Home, store: Store, running: Running) -> None:
    run_id, other = running(experiment="reference"), running(experiment="reference")
    for each in (run_id, other):
        store.worker.write(each, [RankBatch(0, [Point("train/loss", 2, 0.5, 0.1)], last_step=2)])
    lay(home.run_folder(run_id), 2, run=store.read.runs.one(run_id).uid, steps={0: 2})
    for each, cure in ((run_id, "Resume it from its last checkpoint, or retry it."), (other, "Retry it.")):
        lose(store, store.read.runs.one(each), "It is gone.")
        assert store.read.runs.one(each).cause == f"It is gone. {cure}"


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
