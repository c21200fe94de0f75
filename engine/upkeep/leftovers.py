"""What ended processes leave behind: how it is found, judged and removed."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import psutil
from filelock import FileLock, Timeout

from engine.commands.lab_settings import permit
from engine.errors import EngineError
from engine.home import Home
from engine.store import ENDED, Reader, Store
from engine.store.curves.ingest import hidden
from engine.store.maintenance.integrity import Stint, stints_of_pids
from engine.store.records import ProcessIdentity, Status
from engine.store.timestamps import now, seconds_since
from engine.system.cleanup import SHARED, Cleared, held, maker_of, tree
from engine.system.processes import age_s, boot_id, end_these, identity, is_alive, is_foreign, mark_of, pid_namespace
from engine.system.run_files import ASIDE, is_scrap, note_for_runner, put_aside
from engine.upkeep.backups import LOCK, PART, SUM

# ---- One leftover: kind, reason, and whether it certainly belongs to this home -------------------------------------

Kind = Literal["process", "folder", "shared memory", "file"]


@dataclass(frozen=True)
class Leftover:
    """A process, file or segment that no live run needs."""

    kind: Kind
    name: str
    """The pid, or the path."""
    why: str
    """Origin, and the reason why it is a leftover."""
    size_bytes: int | None = None
    is_ours: bool = True
    """Whether it certainly belongs to this home and may be removed; others are only shown."""
    run_id: int | None = None
    """Its run, if known."""
    process: ProcessIdentity | None = None

    @property
    def key(self) -> tuple[str, str, ProcessIdentity | None]:
        """Unique key, which distinguishes a reused pid or a recreated folder."""
        return self.kind, self.name, self.process

    @property
    def words(self) -> str:
        """Short description: `process 77 of run 4`."""
        return f"{self.kind} {self.name}{f' of run {self.run_id}' if self.run_id else ''}"


# ---- Find the leftovers of ended processes, and remove them on behalf of a person ----------------------------------

GRACE_S = 10.0
"""Anything younger, or of a run that ended more recently, may still be in use."""
TERMINATE_S, KILL_S = 1.0, 2.0
"""Time for processes to exit after each of the two signals."""
NOTE_S = 2.0
"""Time to wait for a busy store to record the cleanup; afterwards only the runner's log records it."""
Outcome = tuple[Leftover, str]
"""A leftover, and the reason why its removal failed; empty after success."""


def leftovers(
    home: Home, reader: Reader, shared_memory: Path = SHARED, *, grace_s: float | None = None
) -> list[Leftover]:
    """Return the leftovers of this home's runs, and similar ones of unknown origin; nothing that a live run could need.

    Anything that ended or was created less than `grace_s` (default: `GRACE_S`) ago is excluded.
    """
    grace_s = GRACE_S if grace_s is None else grace_s
    with_job = reader.cluster_jobs.run_ids()  # the runner still copies their files
    return [
        *left_processes(home, reader, grace_s),
        *left_folders(home, reader),
        *left_segments(reader, shared_memory, grace_s),
        *left_files(home, {id: status for id, status in reader.runs.statuses().items() if id not in with_job}),
    ]


def clean(
    home: Home, listed: Iterable[Leftover], *, by: str, shared_memory: Path = SHARED, grace_s: float | None = None
) -> Cleared:
    """Remove listed leftovers of ours: end processes, move orphan folders aside, delete the rest.

    Each is checked again first; those that are gone or in use are skipped. Memory mapped only by the ended processes is
    freed. The runner's log and the runs' events record the person. Raises Forbidden, StoreError if the store can't be
    read.
    """
    permit(home, "clean up", by=by)
    wanted = {one.key for one in listed}
    with Reader.open(home) as reader:
        there = [
            one for one in leftovers(home, reader, shared_memory, grace_s=grace_s) if one.is_ours and one.key in wanted
        ]
        outcomes = list(_end([one for one in there if one.kind == "process"]))
        runs = {one.run_id for one, _ in outcomes if one.run_id}
        freed = (
            [one for one in left_segments(reader, shared_memory, 0.0) if one.run_id in runs and one not in there]
            if runs
            else []
        )
    outcomes += _put_aside(home, [one for one in there if one.kind == "folder"])
    outcomes += [_tried(one, Path.unlink) for one in (*there, *freed) if one.kind in ("shared memory", "file")]
    _note(home, outcomes, by)
    return _told(outcomes)


def _end(found: list[Leftover]) -> Iterator[Outcome]:
    left = end_these([one.process for one in found if one.process], TERMINATE_S, KILL_S)
    return ((one, "it survived SIGKILL" if one.process in left else "") for one in found)


def _put_aside(home: Home, found: list[Leftover]) -> list[Outcome]:
    if not found:
        return []
    occasion = f"orphans-{now().replace(':', '-')}"
    return [_tried(one, lambda path: put_aside(home, path, occasion)) for one in found]


def _tried(one: Leftover, change: Callable[[Path], object]) -> Outcome:
    try:
        change(Path(one.name))
    except FileNotFoundError:
        return one, ""
    except OSError as error:
        return one, error.strerror or str(error)
    return one, ""


def _told(outcomes: Iterable[Outcome]) -> Cleared:
    told = list(outcomes)
    return Cleared([f"{one.words} ({why})" for one, why in told if why], [one.words for one, why in told if not why])


def _note(home: Home, outcomes: list[Outcome], by: str) -> None:
    """Record the actions and the person."""
    said = _told(outcomes)
    for words, kind in ((said.removed, "cleaned up"), (said.left, "could not clean up")):
        if words:
            note_for_runner(home, f"{by} {kind}: {', '.join(words)}")
    for run_id in sorted({one.run_id for one, _ in outcomes if one.run_id}):
        of_run = _told((one, why) for one, why in outcomes if one.run_id == run_id)
        try:
            with Store.open(home, timeout_s=NOTE_S) as store:
                if of_run.removed:
                    store.runs.add_event(run_id, "cleaned up", by, ", ".join(of_run.removed))
                if of_run.left:
                    store.runs.add_event(run_id, "left behind", by, f"Could not be removed: {', '.join(of_run.left)}.")
        except EngineError as error:
            note_for_runner(home, f"could not record the event for run {run_id}: {error}")


# ---- Find leftover files of ended processes: folders, partial files, sockets, locks, shared memory -----------------
# Read-only. Leftovers that certainly belong to this home's ended runs are distinguished from similar ones.

SLACK_S = 5.0
"""Tolerated difference between the clocks of files and of the store."""
RECENT_S = 60.0
"""Folders and partial stores modified more recently are not leftovers."""


def left_folders(home: Home, reader: Reader) -> Iterator[Leftover]:
    """Yield entries of the runs folder without a run in the store; a folder named by a number is ours."""
    found = _listed(home.path / "runs")  # before reading the ids, as a later folder belongs to a new run
    known = {str(run_id) for ids in [reader.runs.statuses(), *hidden(reader.db)] for run_id in ids}
    for path in found:
        if path.name in known or path.name == ASIDE or not _is_old(path):
            continue
        if path.name.isdecimal() and path.is_dir():
            yield Leftover("folder", str(path), "No run of this store uses this folder.", _size_of(path))
        else:
            why = "In the runs folder, but not named like a run."
            yield Leftover("folder" if path.is_dir() else "file", str(path), why, _size_of(path), is_ours=False)


def left_segments(reader: Reader, folder: Path, grace_s: float) -> Iterator[Leftover]:
    """Yield this user's segments of torch whose creator is gone and that no process has mapped or open.

    A segment is ours if its creator belongs to an ended run of this boot in the store, and it was created during that
    run. Segments that may belong to a live run, or to a run in another PID namespace, are not listed.
    """
    found = dict(_abandoned_segments(folder, grace_s))
    if not found:
        return
    stints, in_use = stints_of_pids(reader, boot_id()), held(folder)
    for path, about in found.items():
        maker = maker_of(path)
        of = [stint for stint in stints.get(maker or 0, []) if _covers(stint, about.st_mtime)]
        if path in in_use or any(stint.ended_at is None or is_foreign(stint.worker) for stint in of):
            continue
        if of:
            why = f"Created by process {maker} of run {of[-1].run_id}, which has ended; not mapped by any process."
            yield Leftover("shared memory", str(path), why, about.st_size, run_id=of[-1].run_id)
        else:
            why = (
                f"Created by process {maker}, which is gone and belonged to no run of this store; not mapped by "
                "any process."
            )
            yield Leftover("shared memory", str(path), why, about.st_size, is_ours=False)


def left_files(home: Home, statuses: Mapping[int, Status]) -> Iterator[Leftover]:
    """Yield partial checkpoints, sockets, locks and rendezvous files in the folders of ended runs, and partial stores
    and backups.
    """
    for folder in _listed(home.path / "runs"):
        run_id = int(folder.name) if folder.name.isdecimal() else 0
        if statuses.get(run_id) in ENDED:
            yield from (
                _file(path, f"In the folder of run {run_id}, which has ended.", run_id)
                for path in _listed(folder)
                if _is_scrap(path)
            )
    yield from (_file(path, "Partially written store.") for path in sorted(home.path.glob(f"*{PART}")) if _is_old(path))
    yield from (_file(path, "Partially written backup.") for path in _unfinished_backups(home))


def _abandoned_segments(folder: Path, grace_s: float) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield segments of torch older than `grace_s` whose creator is gone, with their file status."""
    for path in _listed(folder):
        pid = maker_of(path)
        if pid is None or psutil.pid_exists(pid):
            continue
        with suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and time.time() - about.st_mtime > grace_s:
                yield path, about


def _covers(stint: Stint, moment: float) -> bool:
    begun, ended = (
        datetime.fromisoformat(stint.begun_at).timestamp(),
        datetime.fromisoformat(stint.ended_at).timestamp() if stint.ended_at else time.time(),
    )
    return begun - SLACK_S <= moment <= ended + SLACK_S


def _is_scrap(path: Path) -> bool:
    with suppress(OSError):
        mode = path.lstat().st_mode
        return not stat.S_ISDIR(mode) and (is_scrap(path) or stat.S_ISSOCK(mode))
    return False


def _unfinished_backups(home: Home) -> list[Path]:
    """Return partial backups and checksums without a backup; empty while a backup is in progress."""
    if not _half_backups(home):
        return []
    try:
        with FileLock(home.backups / LOCK).acquire(timeout=0):
            return _half_backups(home)
    except Timeout:
        return []


def _half_backups(home: Home) -> list[Path]:
    alone = [path for path in home.backups.glob(f"*{SUM}") if not path.with_suffix("").exists()]
    return sorted([*home.backups.glob(f"*{PART}"), *home.backups.glob(f"*{PART}-journal"), *alone])


def _file(path: Path, why: str, run_id: int | None = None) -> Leftover:
    return Leftover("file", str(path), why, _size_of(path), run_id=run_id)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(
            folder.iterdir(), key=lambda path: (len(path.name), path.name) if path.name.isdecimal() else (0, path.name)
        )
    except OSError:
        return []


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > RECENT_S
    except OSError:
        return False


def _size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    size = 0
    with suppress(OSError):
        for each in path.rglob("*") if path.is_dir() else [path]:
            size += 0 if each.is_dir() else each.lstat().st_size
    return size


# ------------------------------------------------------------------------------------------------------------------
# Find leftover processes: those of workers whose runs have ended, and workers without a run or a runner. Read-only.


def left_processes(home: Home, reader: Reader, grace_s: float) -> Iterator[Leftover]:
    """Yield the processes of runs that ended more than `grace_s` ago: their workers' sessions, processes with their
    mark, and children of both.
    """
    known = [found for found in reader.runner.workers(boot_id(), _candidates()) if not is_foreign(found[2])]
    newest = {worker.pid: (run_id, ended_at, worker) for run_id, ended_at, worker in known}
    for run_id, ended_at, worker in newest.values():
        if ended_at is not None and seconds_since(ended_at) >= grace_s:
            yield from (
                _left(process, f"Belongs to run {run_id}, which has ended: {_command(process.pid)}", run_id)
                for process in _alive(tree(worker, home.path))
            )
    runner = reader.runner.current()
    serving = runner.process.pid if runner and is_alive(runner.process) else None
    with_run = {worker for _, _, worker in newest.values()}
    for process, parent in _workers_of(home, grace_s):
        if process not in with_run and parent != serving:
            yield _left(process, "Worker without a run, whose runner is gone.")


def _candidates() -> set[int]:
    """Return the pids of possible workers: session leaders, and those in a mark of this boot."""
    found = set()
    for pid in psutil.pids():
        with suppress(OSError):
            found.add(os.getsid(pid))
        boot, _, rest = mark_of(pid).partition("/")
        if boot == boot_id() and (worker := rest.partition("/")[0]).isdecimal():
            found.add(int(worker))
    return found


def _workers_of(home: Home, grace_s: float) -> Iterator[tuple[ProcessIdentity, int]]:
    """Yield this home's worker processes in this PID namespace with their parents' pids, except very recent ones."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            words = process.cmdline()
            is_worker = (
                "engine.worker" in words
                and "--home" in words
                and words[words.index("--home") + 1 :][:1] == [str(home.path)]
            )
            if is_worker and os.getsid(process.pid) == process.pid and pid_namespace(process.pid) == pid_namespace():
                yield from ((known, process.ppid()) for known in _alive([process.pid]) if age_s(known) >= grace_s)


def _alive(pids: list[int]) -> Iterator[ProcessIdentity]:
    return (found for pid in pids if (found := identity(pid)) is not None)


def _left(process: ProcessIdentity, why: str, run_id: int | None = None) -> Leftover:
    return Leftover("process", str(process.pid), why, _memory_of(process.pid), run_id=run_id, process=process)


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120] or "a kernel thread."
    except psutil.Error:
        return "it has just ended."


def _memory_of(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
