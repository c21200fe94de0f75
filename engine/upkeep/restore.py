"""Restore a backup: replaced files are kept, and nothing is replaced while in use."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.commands.lab_settings import permit
from engine.errors import RunnerError, StoreError, WrongStatus
from engine.home import Home, flush
from engine.store import ALIVE, ENDED, Reader, Store
from engine.store.access.accounts import Account
from engine.store.access.authorization import is_marked, mark
from engine.store.curves.ingest import count_from, last_id
from engine.store.maintenance.backup_copy import empty_log, examine_copy, run_ids
from engine.store.timestamps import now
from engine.system.run_files import put_aside
from engine.system.runner_process import lives
from engine.upkeep.backups import check_sum

TAKE_S = 0.5
SCHEMA_S = 30.0
DIGITS = 15
"""Most digits of a number that a run can have had."""


@dataclass(frozen=True)
class Restored:
    """Outcome of a restore."""

    runs: int
    aside: Path
    """Folder with the previous store."""
    folders: int
    """Number of folders of runs that are not in the backup."""
    folders_in: Path | None
    """Where they are now; None if there are none."""


def restore(home: Home, backup: Path, *, by: str, unchecked: bool = False) -> Restored:
    """Replace the store by a copy of a backup.

    `unchecked` accepts a file without a checksum; schema and integrity are still checked. Runs are restored, access is
    not: everyone has to sign in again, and the accounts of the replaced store are kept if it is readable. Raises
    Forbidden, StoreError for a damaged file, StoreTooNew, RunnerError while a runner is running, WrongStatus while a
    run is active or has a job on a cluster.
    """
    if not unchecked:
        check_sum(backup)
    runs = examine_copy(backup)
    permit(home, "restore", by=by, detail=backup.name, damaged=True)
    with _alone(home):
        _no_run_is_on(home)
        accounts = _accounts(home)
        occasion = f"restore-{now().replace(':', '-')}"
        made = Home(home.restoring)
        try:
            _prepare(made, backup, by, accounts, _highest_number(home))
            with (
                _store_kept(home, occasion) as aside,
                _strangers_aside(home, made.database, occasion) as moved,
            ):
                if is_marked(made):
                    mark(home)  # before its accounts are replaced
                _switch(home, made.database, aside)
        except OSError as error:
            raise StoreError(
                f"{error.filename} can't be moved or copied: {error.strerror}. The store and the run folders are as "
                "before; mend that, and restore again."
            ) from error
        finally:
            shutil.rmtree(made.path, ignore_errors=True)
    return Restored(runs, aside, len(moved), moved[0].parent if moved else None)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Lock out runners and migrations for the block."""
    home.create()
    try:
        with FileLock(home.runner_lock).acquire(timeout=TAKE_S), FileLock(home.schema_lock).acquire(timeout=SCHEMA_S):
            yield
    except Timeout as error:
        raise RunnerError(
            f"The store can't be replaced while a runner is running for {home.path}. Stop it first: python -m "
            "engine stop --cancel-runs."
        ) from error


def _no_run_is_on(home: Home) -> None:
    try:
        with Reader.open(home) as reader:
            on = [
                row.id
                for row in reader.runs.find(statuses=ALIVE)
                if (worker := reader.runs.one(row.id).worker) and lives(home, worker)
            ]
            on += [job.run_id for job in reader.cluster_jobs.all() if reader.runs.one(job.run_id).status not in ENDED]
    except StoreError:  # restore must work for a damaged store
        return
    if on:
        raise WrongStatus(
            f"The store can't be replaced while run {on[0]} is active. Start a runner, cancel the run, and stop "
            "the runner."
        )


def _accounts(home: Home) -> list[Account]:
    """Return the accounts of the current store; empty if it is missing or unreadable, in which case the backup's
    accounts are used.
    """
    with suppress(StoreError), Reader.open(home) as reader:
        return reader.people.accounts()
    return []


def _highest_number(home: Home) -> int:
    """Return the highest number that any run of the home has had, by its store and its folders: none is used again."""
    numbers = [int(path.name) for path in _numbered(home) if len(path.name) <= DIGITS]
    with suppress(StoreError), Reader.open(home) as reader:
        numbers.append(last_id(reader.db))
    return max(numbers, default=0)


def _numbered(home: Home) -> list[Path]:
    return [path for path in (home.path / "runs").glob("*") if path.name.isdecimal()]


def _prepare(made: Home, backup: Path, by: str, accounts: Sequence[Account], highest: int) -> None:
    """Copy the backup into a temporary home and end its sessions there, before it becomes the lab's store."""
    shutil.rmtree(made.path, ignore_errors=True)
    shutil.copyfile(backup, made.create().database)
    made.database.chmod(0o600)
    with Store.open(made) as store:  # migrates an older schema
        store.people.note_restored(backup.name, by=by, accounts=accounts)
        count_from(store.db, highest)
    flush(made.database)


@contextmanager
def _store_kept(home: Home, occasion: str) -> Iterator[Path]:
    """Keep the store in a folder, which is removed if the block fails: by a link if its write-ahead log is empty, else
    as a copy.
    """
    aside, links = home.aside / occasion, home.database.exists() and empty_log(home.database)
    aside.mkdir(mode=0o700, parents=True)
    try:
        for old in filter(Path.exists, _files_of(home)):
            try:
                if not links or old != home.database:
                    raise OSError  # a link to the store and a copy of its log would not belong together
                (aside / old.name).hardlink_to(old)
            except OSError:
                shutil.copy2(old, aside / old.name)
                flush(aside / old.name)
        flush(aside)
        yield aside
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def _strangers_aside(home: Home, new: Path, occasion: str) -> Iterator[list[Path]]:
    """Move aside the folders of runs that are not in the new store, and back if the block fails."""
    known, moved = run_ids(new), list[Path]()
    try:
        strangers = [folder for folder in _numbered(home) if int(folder.name) not in known]
        moved.extend(put_aside(home, folder, f"{occasion}/runs") for folder in strangers)
        yield moved
    except BaseException:
        for path in moved:
            path.rename(home.run_folder(int(path.name)))
        raise


def _switch(home: Home, new: Path, aside: Path) -> None:
    """Put the new store in place of the old one, whose write-ahead log must not outlive it."""
    log, index = _files_of(home)[1:]
    for old in (log, index):
        old.unlink(missing_ok=True)
    try:
        new.replace(home.database)
    except OSError:
        if (aside / log.name).exists():
            shutil.copy2(aside / log.name, log)
        raise
    flush(home.path)


def _files_of(home: Home) -> list[Path]:
    return [home.database.with_name(home.database.name + end) for end in ("", "-wal", "-shm")]
