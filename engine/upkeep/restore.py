"""Restore a backup: replaced files are kept, and nothing is replaced while in use."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.commands.authorize import permit
from engine.errors import RunnerError, StoreError, WrongStatus
from engine.home import Home, flush
from engine.store import ALIVE, ENDED, Reader, Store
from engine.store.access.accounts import Account
from engine.store.access.accounts_mark import is_marked, mark
from engine.store.maintenance.backup_copy import examine_copy, run_ids
from engine.store.timestamps import now
from engine.system.liveness_lock import lives
from engine.upkeep.backups import check_sum

TAKE_S = 0.5
SCHEMA_S = 30.0


@dataclass(frozen=True)
class Restored:
    """Outcome of a restore."""

    runs: int
    aside: Path
    """Folder with the previous store, and the folders of runs that are not in the backup."""
    folders: int
    """Number of these run folders."""


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
        aside = home.aside / f"restore-{now().replace(':', '-')}"
        made = Home(home.restoring)
        try:
            _prepare(made, backup, by, accounts)
            if is_marked(made):
                mark(home)  # before its accounts are replaced
            _swap(home, made.database, aside)
        finally:
            shutil.rmtree(made.path, ignore_errors=True)
        folders = _put_aside_strangers(home, aside)
    return Restored(runs, aside, folders)


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


def _prepare(made: Home, backup: Path, by: str, accounts: Sequence[Account]) -> None:
    """Copy the backup into a temporary home and end its sessions there, before it becomes the lab's store."""
    shutil.rmtree(made.path, ignore_errors=True)
    shutil.copyfile(backup, made.create().database)
    made.database.chmod(0o600)
    with Store.open(made) as store:  # migrates an older schema
        store.people.note_restored(backup.name, by=by, accounts=accounts)
    flush(made.database)


def _swap(home: Home, new: Path, aside: Path) -> None:
    """Move the store and its write-ahead log aside, then rename the new one."""
    aside.mkdir(mode=0o700, parents=True)
    for old in (home.database.with_name(home.database.name + end) for end in ("", "-wal", "-shm")):
        if old.exists():
            old.rename(aside / old.name)
    new.rename(home.database)
    flush(home.path)


def _put_aside_strangers(home: Home, aside: Path) -> int:
    """Move aside the folders of runs that are not in the restored store, as their ids will be reused."""
    known = run_ids(home.database)
    folders = [path for path in (home.path / "runs").glob("*") if path.name.isdecimal() and int(path.name) not in known]
    for folder in folders:
        (aside / "runs").mkdir(exist_ok=True)
        folder.rename(aside / "runs" / folder.name)
    return len(folders)
