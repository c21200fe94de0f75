"""Backups of the store: by command, or by the runner's schedule."""

import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.access.quotas import NONE, read_limits, set_limits
from engine.access.rules import Program
from engine.commands.lab_settings import permit
from engine.errors import EngineError, NoSuchRun, RunnerError, StoreBusy, StoreError, WrongStatus
from engine.home import Home, flush
from engine.store import ALIVE, ENDED, Reader, Store
from engine.store.access.accounts import Account
from engine.store.access.authorization import is_marked, mark
from engine.store.curves.ingest import count_from, last_id
from engine.store.maintenance.backup_copy import copy_store, empty_log, examine_copy, run_ids
from engine.store.records import Run
from engine.store.timestamps import now, seconds_since
from engine.system.run_files import put_aside
from engine.system.runner_process import lives, lose

# ---- Backups of the store, by command or by the runner: one file each, with a checksum file and the quotas ---------

LOCK = "backup.lock"
SUM = ".sha256"
PART = ".part"
LIMITS = ".limits.json"
IN_A_BACKUP = "runs with curves and events, sweeps, marks and notes, accounts, the audit log and the quotas"
NOT_IN_A_BACKUP = (
    "logs and checkpoints (runs/), the content of files that runs keep (files/), own methods (experiments/, methods/), "
    "exercises/, catalogue.json, clusters.toml and notices.toml"
)
CHUNK = 1 << 20


@dataclass(frozen=True)
class Backup:
    """One copy of the store."""

    path: Path
    size: int
    """Bytes."""
    made_at: str
    """UTC ISO 8601, from the file name."""


def back_up(home: Home, *, by: str, keep: int | None = None) -> Backup:
    """Copy the store, and the quotas, into the home's backup folder while others write; then delete all but the newest
    `keep` (at least 1), if given.

    The file is written under a temporary name, flushed and renamed after its checksum: a file with its final name is
    complete. Raises Forbidden, StoreError, StoreBusy during another backup.
    """
    permit(home, "back up", by=by)
    target = home.backups / f"parallab-{now().replace(':', '-')}.db"
    part = target.with_name(target.name + PART)
    with _translated_errors(home):
        home.backups.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(home.backups / LOCK).acquire(timeout=0):
            try:
                copy_store(home, part)
                with suppress(FileNotFoundError):
                    shutil.copyfile(home.limits, _limits_beside(target))
                _seal(part, target)
            finally:
                part.unlink(missing_ok=True)
            if keep is not None:
                _delete(backups(home)[max(1, keep) :])
    return _backup(target)


def backups(home: Home) -> list[Backup]:
    """Return the backups of a home, newest first."""
    return [_backup(path) for path in sorted(home.backups.glob("parallab-*.db"), reverse=True)]


def check_sum(path: Path) -> None:
    """Verify a backup's checksum; raises StoreError if it is missing or wrong."""
    if not path.is_file():
        raise StoreError(f"{path} doesn't exist. List the backups with: python -m engine backup --list")
    beside = path.with_name(path.name + SUM)
    try:
        first, *rest = beside.read_text().split()[::2]
    except (OSError, ValueError) as error:
        raise StoreError(
            f"The checksum file {beside.name} of {path} is missing. Copy it too, or restore with --unchecked."
        ) from error
    for file, sum_ in zip((path, _limits_beside(path)), (first, *rest), strict=False):
        if file.is_file() and _sum(file) != sum_:
            raise StoreError(f"{file} is damaged: its SHA-256 doesn't match {beside.name}. Use another backup.")


def check(path: Path) -> int:
    """Return the number of runs of a backup after the checks of `restore`: checksum, schema, integrity; change nothing.
    Raises StoreError, StoreTooNew.
    """
    check_sum(path)
    return examine_copy(path)


@contextmanager
def _translated_errors(home: Home) -> Iterator[None]:
    """Translate errors of the system and the lock into ours."""
    try:
        yield
    except Timeout as error:
        raise StoreBusy(f"Another backup is being made in {home.backups}. Wait for it to end.") from error
    except OSError as error:
        raise StoreError(
            f"Can't write a backup to {home.backups}: {error.strerror}. Free disk space, or correct the "
            "folder's owner and mode."
        ) from error


def _seal(part: Path, target: Path) -> None:
    """Write the checksum of a finished copy, then rename the copy, so that no crash leaves an unverifiable one."""
    beside, limits = target.with_name(target.name + SUM), _limits_beside(target)
    copies = {part: target.name, **({limits: limits.name} if limits.exists() else {})}
    beside.write_text("".join(f"{_sum(path)}  {name}\n" for path, name in copies.items()))
    for path in (*copies, beside):
        path.chmod(0o600)
        flush(path)
    part.replace(target)
    flush(target.parent)


def _limits_beside(backup: Path) -> Path:
    return backup.with_name(backup.name + LIMITS)


def _sum(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _delete(old: Iterable[Backup]) -> None:
    for backup in old:
        backup.path.unlink(missing_ok=True)
        for end in (SUM, LIMITS):
            backup.path.with_name(backup.path.name + end).unlink(missing_ok=True)


def _backup(path: Path) -> Backup:
    day, _, time = path.stem.removeprefix("parallab-").partition("T")
    return Backup(path, path.stat().st_size, f"{day}T{time.replace('-', ':')}")


# ------------------------------------------------------------------------------------------------------------------
# Scheduled backups: the runner checks whether one is due and makes it in a thread, so that no run waits for it.

log = logging.getLogger(__name__)

EVERY, KEEP = "PARALLAB_BACKUP_EVERY_H", "PARALLAB_BACKUP_KEEP"
EVERY_H, KEPT = 24.0, 7
LOOK_S = 60.0
"""Interval of checks; also the wait after a failed backup."""


class Schedule:
    """Makes a backup if the newest is older than `every_h` hours (0: never), and keeps the newest `keep`."""

    def __init__(self, home: Home, every_h: float = EVERY_H, keep: int = KEPT, look_s: float = LOOK_S) -> None:
        self._home = home
        self._every_s = every_h * 3600
        self._keep = keep
        self._look_s = look_s
        self._looked_at = -look_s
        self._thread: threading.Thread | None = None

    @classmethod
    def from_environment(cls, home: Home) -> "Schedule":
        """Return the schedule of `PARALLAB_BACKUP_EVERY_H` and `PARALLAB_BACKUP_KEEP`; raises RunnerError for invalid
        numbers.
        """
        return cls(home, _number(EVERY, EVERY_H, 0), int(_number(KEEP, KEPT, 1)))

    def look(self) -> None:
        """Start a backup if one is due; never blocks. Call often."""
        if (
            not self._every_s
            or time.monotonic() - self._looked_at < self._look_s
            or (self._thread and self._thread.is_alive())
        ):
            return
        self._looked_at = time.monotonic()
        if self._due():
            self._thread = threading.Thread(target=self._make, name="backup", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait for a backup in progress."""
        if self._thread:
            self._thread.join()

    def _due(self) -> bool:
        """Return whether the newest backup, or without one the oldest run, is old enough."""
        try:
            with Reader.open(self._home) as reader:
                first = reader.runs.began_at()
        except EngineError:
            return False
        made = [backup.made_at for backup in backups(self._home)[:1]]
        return first is not None and seconds_since((made or [first])[0]) >= self._every_s

    def _make(self) -> None:
        began = time.monotonic()
        try:
            made = back_up(self._home, by=Program("runner"), keep=self._keep)
            log.info("backup %s: %.1f MB in %.1f s", made.path.name, made.size / 1e6, time.monotonic() - began)
        except EngineError as error:
            log.warning("backup failed: %s", error)


def _number(name: str, otherwise: float, least: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        found = float(text) if text else otherwise
    except ValueError:
        found = -1.0
    if not least <= found < 1e6:
        raise RunnerError(
            f"{name} must be a number of at least {least:g}; got '{text}'. Correct it, or unset it for the "
            f"default of {otherwise:g}."
        )
    return found


# ---- Restore a backup: replaced files are kept, and nothing is replaced while in use -------------------------------

TAKE_S = 0.5
SCHEMA_S = 30.0
DIGITS = 15
"""Most digits of a number that a run can have had."""


@dataclass(frozen=True)
class Restored:
    """Outcome of a restore."""

    runs: int
    aside: Path | None
    """Folder with the previous store; None if there was none."""
    folders: int
    """Number of folders of runs that are not in the backup."""
    folders_in: Path | None
    """Where they are now; None if there are none."""
    lost: list[int]
    """The runs that were active when the backup was made."""
    queued: list[int]
    """The runs that the next runner starts."""
    quotas: bool
    """Whether the quotas are those of the backup: the home had none."""


def restore(home: Home, backup: Path, *, by: str, unchecked: bool = False) -> Restored:
    """Replace the store by a copy of a backup.

    `unchecked` accepts a file without a checksum; schema and integrity are still checked. Runs are restored, access is
    not: everyone has to sign in again, and the accounts of the replaced store are kept if it is readable. So are quotas
    that the home has; only without any are they the backup's. Runs that the backup has as active are lost: their
    processes, if there still are any, may be those of another home. Raises Forbidden, StoreError for a damaged file,
    StoreTooNew, ConfigError for invalid quotas, RunnerError while a runner is running, WrongStatus while a run is
    active or has a job on a cluster.
    """
    runs, quotas = examine_copy(backup) if unchecked else check(backup), read_limits(_limits_beside(backup))
    permit(home, "restore", by=by, detail=backup.name, damaged=True)
    with _alone(home):
        _no_run_is_on(home)
        accounts = _accounts(home)
        occasion = f"restore-{now().replace(':', '-')}"
        made = Home(home.restoring)
        try:
            lost, queued = _prepare(made, home, backup, by, accounts)
            if takes_quotas := quotas != NONE and not home.limits.exists():
                set_limits(made, quotas)
            with (
                _store_kept(home, occasion) as aside,
                _strangers_aside(home, made.database, occasion) as moved,
            ):
                if is_marked(made):
                    mark(home)  # before its accounts are replaced
                _switch(home, made.database, aside)
                if takes_quotas:
                    made.limits.replace(home.limits)
        except OSError as error:
            raise StoreError(
                f"{error.filename} can't be moved or copied: {error.strerror}. The store and the run folders are as "
                "before; mend that, and restore again."
            ) from error
        finally:
            shutil.rmtree(made.path, ignore_errors=True)
    if had_none := not any(path.name != "runs" for path in aside.iterdir()):
        with suppress(OSError):  # it holds folders of runs
            aside.rmdir()
    folders_in = moved[0].parent if moved else None
    return Restored(runs, None if had_none else aside, len(moved), folders_in, lost, queued, takes_quotas)


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


def _prepare(made: Home, home: Home, backup: Path, by: str, accounts: Sequence[Account]) -> tuple[list[int], list[int]]:
    """Copy the backup into a temporary home and end its sessions and its active runs there, before it becomes the lab's
    store; return the runs that are lost, and those that are queued.
    """
    shutil.rmtree(made.path, ignore_errors=True)
    shutil.copyfile(backup, made.create().database)
    made.database.chmod(0o600)
    with Store.open(made) as store:  # migrates an older schema
        store.people.note_restored(backup.name, by=by, accounts=accounts)
        count_from(store.db, _highest_number(home))
        for job in (job for job in store.read.cluster_jobs.all() if not _is_of(home, store.read.runs.one(job.run_id))):
            store.cluster_jobs.remove(job)
        with_job = store.read.cluster_jobs.run_ids()
        alive = (row.id for row in store.read.runs.find(statuses=ALIVE) if not row.reported)  # those may report again
        lost = [run_id for run_id in alive if run_id not in with_job]
        store.runner.disown(lost)
        for run_id in lost:
            lose(store, store.read.runs.one(run_id), "It was active when the backup was made.", home)
        queued = sorted(row.id for row in store.read.runs.find(statuses=("queued",)))
    flush(made.database)
    return lost, queued


def _is_of(home: Home, run: Run) -> bool:
    """Return whether the current store has the run of a backup, whose job on a cluster is thus this home's; a store
    that can't be read is taken to.
    """
    if not home.database.exists():
        return False
    try:
        with Reader.open(home) as reader:
            return reader.runs.one(run.id).uid == run.uid
    except NoSuchRun:
        return False
    except StoreError:
        return True


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
