"""Backups of the store, by command or by the runner: one file each, with a checksum file."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from engine.commands.authorize import permit
from engine.errors import StoreBusy, StoreError
from engine.home import Home, flush
from engine.store.maintenance.backup_copy import copy_store
from engine.store.timestamps import now

LOCK = "backup.lock"
SUM = ".sha256"
PART = ".part"
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
    """Copy the store into the home's backup folder while others write; then delete all but the newest `keep` (at least
    1), if given.

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
        said = beside.read_text().split()[0]
    except (OSError, IndexError) as error:
        raise StoreError(
            f"The checksum file {beside.name} of {path} is missing. Copy it too, or restore with --unchecked."
        ) from error
    if _sum(path) != said:
        raise StoreError(f"{path} is damaged: its SHA-256 doesn't match {beside.name}. Use another backup.")


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
    beside = target.with_name(target.name + SUM)
    beside.write_text(f"{_sum(part)}  {target.name}\n")
    part.chmod(0o600)
    for path in (part, beside):
        flush(path)
    part.replace(target)
    flush(target.parent)


def _sum(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _delete(old: Iterable[Backup]) -> None:
    for backup in old:
        backup.path.unlink(missing_ok=True)
        backup.path.with_name(backup.path.name + SUM).unlink(missing_ok=True)


def _backup(path: Path) -> Backup:
    day, _, time = path.stem.removeprefix("parallab-").partition("T")
    return Backup(path, path.stat().st_size, f"{day}T{time.replace('-', ':')}")
