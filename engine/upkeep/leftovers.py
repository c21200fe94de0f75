"""Find the leftovers of ended processes, and remove them on behalf of a person."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from engine.commands.authorize import permit
from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.timestamps import now
from engine.system.cleanup import Cleared
from engine.system.logs import note_for_runner
from engine.system.processes import end_these
from engine.system.run_files import put_aside
from engine.system.shm_segments import SHARED
from engine.upkeep.left_files import left_files, left_folders, left_segments
from engine.upkeep.left_processes import left_processes
from engine.upkeep.leftover import Leftover

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
