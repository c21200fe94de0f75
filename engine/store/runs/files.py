"""Files that runs keep, and those of other runs that they used: their rows, and their content in the home.

Equal content is there once, under its SHA-256 hash. It is published and removed while the store is locked for writing,
so a row always has its content; content whose row is gone is removed, or found by `fsck`.
"""

import errno
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO
from uuid import uuid4

from engine.access.confusables import is_shown
from engine.access.quotas import size
from engine.errors import ConfigError, LimitReached, NoSuchFile, StoreFull, counted
from engine.home import Home, flush
from engine.store.access.authorization import command, storable
from engine.store.access.quotas import QuotaChecks
from engine.store.connection import Connection, WriteConnection
from engine.store.runs.reader import RunReader
from engine.store.timestamps import now

LARGEST_FILE, MOST_OF_RUN = 2 << 30, 10 << 30
"""Bytes of a file, and of all files of a run."""
MOST_FILES, MOST_USES = 1_000, 1_000
"""Of one run."""
LONGEST_NAME = 200
PART = ".part"
"""Suffix of content that is being written."""
ABANDONED_S = 3_600.0
"""Age of such content whose writer is taken to be dead."""
PIECE = 1 << 20
HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class KeptFile:
    """A file that a run keeps."""

    run_id: int
    name: str
    sha256: str
    bytes: int
    at: str
    who: str


@dataclass(frozen=True)
class UsedFile:
    """A file of other runs that a run used; `name` as it was then."""

    run_id: int
    sha256: str
    name: str
    at: str
    who: str


def content_path(home: Home, digest: str) -> Path:
    """Return where content of a hash is."""
    return home.files / digest[:2] / digest


def checked_file_name(name: str) -> str:
    """Return the name of a file; raises ConfigError for one that a folder could not have, or that does not look like
    what it is.
    """
    wrong = (
        "must have a character that is no blank"
        if not name.strip()
        else "must not have / or \\"
        if set(name) & {"/", "\\"}
        else "must not be . or .."
        if name in (".", "..")
        else "must have visible characters only"
        if not is_shown(name)
        else f"must have at most {LONGEST_NAME} characters"
        if len(storable(name)) > LONGEST_NAME or storable(name) != name
        else ""
    )
    if wrong:
        shown = storable(name[:60]).encode("ascii", "backslashreplace").decode()
        raise ConfigError.of("name", f"The name of a file {wrong}; got '{shown}'. Choose another one.")
    return name


class FileContent:
    """Content on its way into the home, private to the lab's user; not visible until a command takes it."""

    def __init__(self, home: Home, most: int = LARGEST_FILE) -> None:
        home.files.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.home, self.most, self.bytes = home, most, 0
        self._digest = sha256()
        self._path = home.files / f"{uuid4().hex}{PART}"
        self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Append bytes; raises ConfigError above the limit, StoreFull."""
        self.bytes += len(data)
        if self.bytes > self.most:
            raise too_large(self.bytes)
        self._digest.update(data)
        with _of_disk():
            self._file.write(data)

    def publish(self) -> None:
        """Give it its place, on disk; within a change, which adds its row."""
        with _of_disk():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            path = content_path(self.home, self.sha256)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._path.replace(path)
            flush(path.parent)

    def discard(self) -> None:
        """Remove it unless it was published."""
        self._file.close()
        self._path.unlink(missing_ok=True)


@contextmanager
def arriving_content(home: Home, source: IO[bytes] | None = None) -> Iterator[FileContent]:
    """Give content to write, or with that of a source; what no command has taken at the end is removed."""
    content = FileContent(home)
    try:
        while source and (piece := source.read(PIECE)):
            content.write(piece)
        yield content
    finally:
        with suppress(OSError):
            content.discard()


def too_large(bytes_: int) -> ConfigError:
    """Return the error for a file above the limit."""
    most = f"A file can have at most {size(LARGEST_FILE)}; this one has {size(bytes_)} or more."
    return ConfigError.of("", f"{most} Keep it elsewhere, and its place in the run's note.")


@contextmanager
def _of_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull("The disk of the lab's home is full: the file was not kept. Free space on it.") from error
        raise


class FileReader:
    """Queries of kept and used files."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def of(self, run_ids: Iterable[int]) -> list[KeptFile]:
        """Return the files of some runs, by run and name."""
        return self.db.records(
            KeptFile,
            "SELECT run_id, name, sha256, bytes, at, who FROM files WHERE run_id IN (SELECT value FROM json_each(?)) "
            "ORDER BY run_id, name",
            [_listed(run_ids)],
        )

    def one(self, run_id: int, name: str) -> KeptFile:
        """Return a file; raises NoSuchRun, NoSuchFile."""
        RunReader(self.db).one(run_id)
        found = next((each for each in self.of([run_id]) if each.name == name), None)
        if found is None:
            shown = storable(name[:60])
            raise NoSuchFile(f"Run {run_id} keeps no file '{shown}'. Its page and GET /runs/{run_id}/files list them.")
        return found

    def used(self, run_id: int) -> list[UsedFile]:
        """Return the files that a run used, by name."""
        sql = "SELECT run_id, sha256, name, at, who FROM file_uses WHERE run_id = ? ORDER BY name, sha256"
        return self.db.records(UsedFile, sql, [run_id])

    def makers(self, digests: Iterable[str]) -> dict[str, list[int]]:
        """Return the runs that keep each content."""
        return self._runs("files", digests)

    def users(self, digests: Iterable[str]) -> dict[str, list[int]]:
        """Return the runs that used each content."""
        return self._runs("file_uses", digests)

    def bytes_only_of(self, run_ids: Iterable[int]) -> int:
        """Return the bytes of content that no other runs keep."""
        among = "run_id IN (SELECT value FROM json_each(?1))"
        sql = (
            f"SELECT sum(bytes) FROM (SELECT DISTINCT sha256, bytes FROM files WHERE {among} AND sha256 NOT IN (SELECT "
            f"sha256 FROM files WHERE NOT {among}))"
        )
        return self.db.number(sql, [_listed(run_ids)])

    def all(self) -> list[KeptFile]:
        """Return all files of the lab, also those of runs that are still being imported."""
        return self.db.records(KeptFile, "SELECT run_id, name, sha256, bytes, at, who FROM files ORDER BY run_id, name")

    def _runs(self, table: str, digests: Iterable[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        sql = (
            f"SELECT DISTINCT sha256, run_id FROM {table} JOIN runs ON runs.id = run_id WHERE sha256 IN (SELECT value "
            "FROM json_each(?)) ORDER BY run_id"
        )
        for digest, run_id in self.db.tuples(sql, [_listed(digests)]):
            found.setdefault(digest, []).append(run_id)
        return found


class FileCommands:
    """Commands of kept and used files."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._files = FileReader(db)
        self._quotas = QuotaChecks(db)
        self._runs = RunReader(db)

    @command("keep file", "run", is_recorded=lambda _: False)
    def check(self, run_id: int, name: str, bytes_: int, *, by: str) -> None:
        """Raise what `keep` would for a file of that size, before it arrives: Forbidden, LimitReached, NoSuchRun,
        ConfigError.
        """
        self._require(run_id, checked_file_name(name), bytes_)

    @command("keep file", "run")
    def keep(self, run_id: int, name: str, content: FileContent, *, by: str) -> tuple[KeptFile, KeptFile | None]:
        """Keep content under a name of a run, in place of what had that name; return both. The content of the former
        one stays until `drop`. Raises as `check`.
        """
        name = checked_file_name(name)
        with self.db.change():
            self._require(run_id, name, content.bytes)
            before = next((each for each in self._files.of([run_id]) if each.name == name), None)
            content.publish()
            if before and before.sha256 == content.sha256:
                return before, before
            kept = KeptFile(run_id, name, content.sha256, content.bytes, now(), str(by))
            self.add([kept])
        return kept, before

    @command("remove file", "run")
    def remove(self, run_id: int, name: str, *, by: str) -> KeptFile:
        """Remove a file of a run and return it; its content stays until `drop`. Raises NoSuchRun, NoSuchFile."""
        with self.db.change() as connection:
            found = self._files.one(run_id, name)
            connection.execute("DELETE FROM files WHERE run_id = ? AND name = ?", [run_id, name])
            self.db.touch(run_id)
        return found

    @command("use file", "run")
    def use(self, run_id: int, digest: str, *, by: str) -> UsedFile:
        """Record that a run used content that another run keeps; again changes nothing. Raises NoSuchRun, NoSuchFile,
        LimitReached.
        """
        with self.db.change() as connection:
            self._runs.one(run_id)
            made = next((each for each in self._files.makers([digest]).get(digest, []) if each != run_id), None)
            if made is None:
                raise NoSuchFile(f"No other run keeps a file with the SHA-256 hash {storable(digest[:64])}.")
            name = next(each.name for each in self._files.of([made]) if each.sha256 == digest)
            if len(self._files.used(run_id)) >= MOST_USES:
                raise LimitReached(f"A run can have used at most {MOST_USES:,} files.")
            connection.execute(
                "INSERT OR IGNORE INTO file_uses (run_id, sha256, name, at, who) VALUES (?, ?, ?, ?, ?)",
                [run_id, digest, name, now(), str(by)],
            )
            self.db.touch(run_id)
            return next(each for each in self._files.used(run_id) if each.sha256 == digest)

    def add(self, files: Iterable[KeptFile]) -> None:
        """Write the rows of files whose content is published, within a change."""
        for each in files:
            columns = ", ".join(vars(each))
            self.db.connection.execute(
                f"INSERT OR REPLACE INTO files ({columns}) VALUES (?, ?, ?, ?, ?, ?)", [*vars(each).values()]
            )
            self.db.touch(each.run_id)

    def drop(self, digest: str) -> None:
        """Remove content unless a run keeps it; after the change that removed a row."""
        _removed(self.db, content_path(self.db.home, digest))

    def sweep(self) -> int:
        """Remove content that no run keeps, and content whose writer died; return its bytes. While an import adds
        runs, nothing is removed.
        """
        return sum(size_ for path, size_ in unkept(self.db) if _removed(self.db, path))

    def forget(self, files: Sequence[KeptFile]) -> None:
        """Remove rows whose content is missing or damaged."""
        with self.db.change() as connection:
            for each in files:
                connection.execute("DELETE FROM files WHERE run_id = ? AND name = ?", [each.run_id, each.name])
                self.db.touch(each.run_id)

    def _require(self, run_id: int, name: str, bytes_: int) -> None:
        run = self._runs.one(run_id)
        files = self._files.of([run_id])
        require_room(f"run {run_id}", [each.bytes for each in files if each.name != name], bytes_)
        self._quotas.require_files(run.owner, bytes_ - sum(each.bytes for each in files if each.name == name))


def require_room(run: str, others: Sequence[int], bytes_: int) -> None:
    """Raise ConfigError or LimitReached if a run, whose other files have so many bytes each, can't keep one more."""
    if bytes_ > LARGEST_FILE:
        raise too_large(bytes_)
    if len(others) >= MOST_FILES:
        most = f"A run can keep at most {counted(MOST_FILES, 'file')}; {run} has as many."
        raise LimitReached(f"{most} Remove some, or pack several into one.")
    if sum(others) + bytes_ > MOST_OF_RUN:
        most = f"The files of a run can have at most {size(MOST_OF_RUN)}; those of {run} have {size(sum(others))}"
        raise LimitReached(f"{most}, and this one {size(bytes_)}. Remove some.")


def unkept(db: Connection) -> list[tuple[Path, int]]:
    """Return content that no run keeps, and content whose writer died, with its bytes; nothing during an import."""
    if db.exists("SELECT 1 FROM arrivals LIMIT 1"):
        return []
    kept = set(db.column("SELECT DISTINCT sha256 FROM files"))
    found = []
    for path in (*db.home.files.glob("??/*"), *db.home.files.glob(f"*{PART}")):
        with suppress(FileNotFoundError):
            about = path.lstat()
            is_part = path.suffix == PART
            if time.time() - about.st_mtime > ABANDONED_S if is_part else path.name not in kept:
                found.append((path, about.st_size))
    return found


def _removed(db: WriteConnection, path: Path) -> bool:
    """Remove content unless a run keeps it by now."""
    with db.change():
        if db.exists("SELECT 1 FROM arrivals LIMIT 1") or db.exists(
            "SELECT 1 FROM files WHERE sha256 = ?", [path.name]
        ):
            return False
        path.unlink(missing_ok=True)
    return True


def _listed(values: Iterable[object]) -> str:
    return json.dumps([*values])
