"""What a cluster's job leaves: its records for the store, and its files for the home."""

import errno
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from engine.home import flush
from engine.runtime.worker.records import Ended, JobSink, Line
from engine.runtime.worker.sink import stop_reason
from engine.store import Store
from engine.store.queue.cluster_jobs import ClusterJob
from engine.store.timestamps import recorded_at
from engine.store.worker_writes import StoreSink
from engine.system.run_files import PART, is_scrap, opened_within

# ---- The store's side of a job's records: writes them to its run ---------------------------------------------------
# Torch-free.

log = logging.getLogger(__name__)


class StoredRun(StoreSink):
    """Writes the reports of a job's worker to the store."""

    def __init__(self, store: Store, job: ClusterJob) -> None:
        super().__init__(store.db, job.run_id)
        self._store = store
        self._cluster = job.cluster
        self.lost = ""
        """Why the worker ended as lost: the runner need not wait for Slurm to notice."""

    def begin(self, environment: dict[str, Any], cores: Sequence[int], gpus: Sequence[int], pid: int) -> None:
        detail = f"on {environment.get('host', 'a node')} of {self._cluster}, worker pid {pid}"
        self._store.cluster_jobs.begin(
            self._run_id, detail, json.dumps(environment), json.dumps([*cores]), json.dumps([*gpus])
        )

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        run = self._store.read.runs.one(self._run_id)
        if status == "lost" and not run.stop_requested_by:
            self.lost = cause
            return
        if status == "cancelled" and not run.stop_requested_by:
            return  # by the cluster, which says why: scancel, a time limit, preemption, a lost node
        if run.stop_requested_by and status != "finished":
            status, cause = "cancelled", stop_reason(run)
        self._store.claims.end(
            self._run_id, status, cause, error=error, execution_time_s=execution_time_s, who="worker"
        )


def apply(line: Line, sink: JobSink) -> None:
    """Report the record of a line to a sink, with its time; raises ValueError for one that is none."""
    record = line.record()
    with recorded_at(line.at):
        record.apply(sink)


# ---- Copies a run's files from the job's folder to the home: those that grow as they do, others when replaced ------
# Torch-free. A folder of a job is written by programs of other machines. Each of its files is opened from its
# folder's descriptor, and no link in it is followed, also where one takes a file's or a folder's place meanwhile.

COMPARED = 1024
"""Bytes before the end of our copy of a growing file that must be the same in the original, or all of it is copied."""


def mirror(source: Path, target: Path) -> None:
    """Bring the copy of a folder up to date. A file that is replaced meanwhile is left for the next time. Links and
    special files are skipped; nothing is deleted.
    """
    for path, file in _files(source):
        copy = target / path
        if _grows(path):
            _follow(file, copy)
        elif _is_other(os.fstat(file.fileno()), copy):
            _replace(source / path, file, copy)


def _files(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yield the regular files below a folder, each opened, with its path there."""
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # not there yet, or a link
            return
        raise
    try:
        for place, _, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            for name in sorted(names):
                path = Path(place) / name
                if not is_scrap(path):
                    with suppress(FileNotFoundError), opened_within(descriptor, name) as file:
                        yield path, file
    finally:
        os.close(top)


def _grows(path: Path) -> bool:
    """Return whether programs append to a file: a log, or what a script records."""
    return path.suffix in (".log", ".jsonl") or "tfevents" in path.name


def _replace(path: Path, file: IO[bytes], copy: Path) -> None:
    about = os.fstat(file.fileno())
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = copy.with_name(f"{copy.name}{PART}")
    with part.open("wb") as into:
        shutil.copyfileobj(file, into)
    os.utime(part, ns=(about.st_atime_ns, about.st_mtime_ns))
    if _is_same(path, about):
        flush(part)
        part.replace(copy)
    else:
        part.unlink()


def _is_other(about: os.stat_result, copy: Path) -> bool:
    """Return whether our copy is not of a file's present state."""
    try:
        ours = copy.stat()
    except FileNotFoundError:
        return True
    return (ours.st_size, ours.st_mtime_ns) != (about.st_size, about.st_mtime_ns)


def _is_same(path: Path, about: os.stat_result) -> bool:
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (found.st_ino, found.st_size, found.st_mtime_ns) == (about.st_ino, about.st_size, about.st_mtime_ns)


def _follow(original: IO[bytes], copy: Path) -> None:
    """Append what a growing file has more than our copy; copy all of it if it was shortened."""
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.touch(mode=0o600)
    have, size = copy.stat().st_size, os.fstat(original.fileno()).st_size
    if size == have:
        return
    with copy.open("r+b") as ours:
        begin = max(0, have - COMPARED)
        original.seek(begin)
        ours.seek(begin)
        if size < have or original.read(have - begin) != ours.read(have - begin):
            original.seek(0)
            ours.seek(0)
            ours.truncate()
        shutil.copyfileobj(original, ours)
