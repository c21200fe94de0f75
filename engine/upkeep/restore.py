"""The way back from a backup: nothing of what it replaces is deleted, and nothing is replaced while anyone
works on it.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.commands.authorize import permit
from engine.errors import RunnerError, StoreError, WrongStatus
from engine.home import Home
from engine.store import ALIVE, Reader, Store
from engine.store.access.accounts_mark import is_marked, mark
from engine.store.access.people import Account
from engine.store.maintenance.backup_copy import examine_copy, run_ids
from engine.store.timestamps import now
from engine.system.liveness_lock import lives
from engine.upkeep.backups import check_sum, flush

TAKE_S = 0.5
SCHEMA_S = 30.0


@dataclass(frozen=True)
class Restored:
    """What a restore did."""

    runs: int
    aside: Path
    """Where the store that was there before lies now, with the folders of runs that the backup does not know."""
    folders: int
    """How many such folders."""


def restore(home: Home, backup: Path, *, by: str, unchecked: bool = False) -> Restored:
    """Put a copy of a backup in the place of the store.

    `unchecked` takes a file without its checksum; schema and integrity are examined all the same. Runs come back,
    access does not: everyone has to sign in again, and accounts stay as they are in the store that is replaced, where
    that can still be read. Raises Forbidden, StoreError where the file is not sound, StoreTooNew, RunnerError while a
    runner serves the home, WrongStatus while a worker carries out a run.
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
                mark(home)  # before its accounts are here
            _swap(home, made.database, aside)
        finally:
            shutil.rmtree(made.path, ignore_errors=True)
        folders = _put_aside_strangers(home, aside)
    return Restored(runs, aside, folders)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Keep runners, and whoever would change the schema, out for the block."""
    home.create()
    try:
        with FileLock(home.runner_lock).acquire(timeout=TAKE_S), FileLock(home.schema_lock).acquire(timeout=SCHEMA_S):
            yield
    except Timeout as error:
        raise RunnerError(
            f"A runner serves {home.path}, so its store can't be replaced. End it first: python -m engine stop "
            "--cancel-runs."
        ) from error


def _no_run_is_on(home: Home) -> None:
    try:
        with Reader.open(home) as reader:
            on = [
                row.id
                for row in reader.runs.find(statuses=ALIVE)
                if (worker := reader.runs.one(row.id).worker) and lives(home, worker)
            ]
    except StoreError:  # a store too damaged to ask is what a restore is for
        return
    if on:
        raise WrongStatus(
            f"Run {on[0]} is still carried out, so the store can't be replaced. Start a runner, cancel the "
            "run, and end the runner."
        )


def _accounts(home: Home) -> list[Account]:
    """Return the accounts of the store as it is now; none where it is not there or too damaged to ask, and then those
    of the backup hold.
    """
    with suppress(StoreError), Reader.open(home) as reader:
        return reader.people.accounts()
    return []


def _prepare(made: Home, backup: Path, by: str, accounts: Sequence[Account]) -> None:
    """Copy the backup into a home of its own and end its sign-ins there: not for a moment is it the lab's store with
    them.
    """
    shutil.rmtree(made.path, ignore_errors=True)
    shutil.copyfile(backup, made.create().database)
    made.database.chmod(0o600)
    with Store.open(made) as store:  # brings an older schema up to date
        store.people.note_restored(backup.name, by=by, accounts=accounts)
    flush(made.database)


def _swap(home: Home, new: Path, aside: Path) -> None:
    """Move the store and its write-ahead log aside together, then give the new one its name."""
    aside.mkdir(mode=0o700, parents=True)
    for old in (home.database.with_name(home.database.name + end) for end in ("", "-wal", "-shm")):
        if old.exists():
            old.rename(aside / old.name)
    new.rename(home.database)
    flush(home.path)


def _put_aside_strangers(home: Home, aside: Path) -> int:
    """Move the folders of runs that the restored store does not know: their numbers will be given out again."""
    known = run_ids(home.database)
    folders = [path for path in (home.path / "runs").glob("*") if path.name.isdecimal() and int(path.name) not in known]
    for folder in folders:
        (aside / "runs").mkdir(exist_ok=True)
        folder.rename(aside / "runs" / folder.name)
    return len(folders)
