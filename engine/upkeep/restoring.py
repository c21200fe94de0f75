"""The way back from a backup: nothing of what it replaces is deleted, and nothing is replaced while anyone works on it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.access.permitting import permit
from engine.errors import RunnerError, StoreError, WrongStatus
from engine.home import Home
from engine.runtime.processes import is_alive
from engine.store import ALIVE, Reader, Store
from engine.store.clock import now
from engine.store.copying import examine_copy, run_ids
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

    `unchecked` takes a file without its checksum; schema and integrity are examined all the same. Everyone has to sign in again: what was signed out
    since the backup was made must not come back with it. Raises Forbidden, StoreError where the file is not
    sound, StoreTooNew, RunnerError while a runner serves the home, WrongStatus while a worker carries out a run.
    """
    if not unchecked:
        check_sum(backup)
    runs = examine_copy(backup)
    permit(home, "restore", by=by, detail=backup.name, damaged=True)
    with _alone(home):
        _no_run_is_on(home)
        aside = home.aside / f"restore-{now().replace(':', '-')}"
        part = home.path / f"{home.database.name}.part"
        try:
            shutil.copyfile(backup, part)
            part.chmod(0o600)
            flush(part)
            _swap(home, part, aside)
        finally:
            part.unlink(missing_ok=True)
        folders = _put_aside_strangers(home, aside)
    with Store.open(home) as store:  # brings an older schema up to date
        store.note_restored(backup.name, by=by)
    return Restored(runs, aside, folders)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Keep runners, and whoever would change the schema, out for the block."""
    home.create()
    try:
        with FileLock(home.runner_lock).acquire(timeout=TAKE_S), FileLock(home.schema_lock).acquire(timeout=SCHEMA_S):
            yield
    except Timeout as error:
        raise RunnerError(f"A runner serves {home.path}, so its store can't be replaced. End it first: python -m engine stop --cancel-runs.") from error


def _no_run_is_on(home: Home) -> None:
    try:
        with Reader.open(home) as reader:
            on = [row.id for row in reader.runs(statuses=ALIVE) if (worker := reader.run(row.id).worker) and is_alive(worker)]
    except StoreError:  # a store too damaged to ask is what a restore is for
        return
    if on:
        raise WrongStatus(f"Run {on[0]} is still carried out, so the store can't be replaced. Start a runner, cancel the run, and end the runner.")


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
