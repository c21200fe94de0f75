"""Looks for what crashes can leave, in the store and beside it, and mends what can be mended without a guess."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from engine.access.rules import Program
from engine.errors import EngineError, StoreDamaged, StoreDenied
from engine.home import Home
from engine.store import ALIVE, Reader, Run, Store
from engine.store.maintenance import integrity
from engine.system.liveness_lock import lives
from engine.system.runner_process import is_running
from engine.upkeep.leftover import Kind, Leftover
from engine.upkeep.leftovers import clean, leftovers

PATIENCE_S = 30.0
NAMED = 10


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong."""

    kind: str
    sentence: str
    cure: str
    """What `mend` does, or what a person has to do where there is none."""
    harmless: bool = False
    """It only takes room."""
    mend: Callable[[], None] | None = field(default=None, repr=False, compare=False)


def examine(home: Home) -> Iterator[Trouble]:
    """Yield what is wrong in a home, the worst first. A store that is damaged is looked at no further.

    Runs that are on are left out wherever what they write could look unfinished. Raises StoreBusy, StoreTooNew,
    StoreError for one that is older.
    """
    try:
        if not home.database.exists():
            return
        broken = _damage(home)
    except (StoreDenied, OSError) as error:
        yield Trouble(
            "access",
            str(error) if isinstance(error, StoreDenied) else f"{error.filename} can't be read: {error.strerror}.",
            _as_whom(home),
        )
        return
    if broken:
        yield Trouble(
            "damage",
            broken,
            "Restore the newest good backup: python -m engine backup --list, then python -m engine restore FILE.",
        )
        return
    with Reader.open(home, timeout_s=PATIENCE_S) as reader:
        yield from _rows(home, reader)
        yield from _files(home, reader)


def _damage(home: Home) -> str:
    """Return what SQLite itself finds wrong with the store, as a sentence; empty for a sound one."""
    try:
        with Reader.open(home, timeout_s=PATIENCE_S) as reader:
            broken = integrity.damage(reader)
    except StoreDamaged as error:
        return str(error)
    return f"The store {home.database} is damaged: {'; '.join(broken)}." if broken else ""


def _as_whom(home: Home) -> str:
    """Return what to do where a store can't be opened, which says nothing of what it holds."""
    try:
        owner = f"{home.path.owner()}, who owns {home.path}"
    except (OSError, KeyError):
        owner = f"the user who owns {home.path}"
    return (
        f"Run it as {owner}, or let this user write there: SQLite keeps files of its own beside an open store. "
        "The store was not checked; "
        "this is no reason to restore a backup."
    )


def _rows(home: Home, reader: Reader) -> Iterator[Trouble]:
    for table, other, count in integrity.strangers(reader):
        sentence = f"{count:,} rows of {table} refer to rows of {other} that are not there."
        yield Trouble(
            "foreign keys",
            sentence,
            "Those rows are deleted, links to runs and sweeps cut.",
            mend=lambda: _with(home, integrity.remove_strangers),
        )
    for run in _forsaken(home, reader):
        pid = run.worker.pid if run.worker else "none"
        sentence = f"Run {run.id} is {run.status}, but its worker (pid {pid}) is gone and no runner is there to say so."
        yield Trouble(
            "lost run", sentence, "It becomes lost; what it had recorded is kept.", mend=partial(_lose, home, run)
        )
    if runs := integrity.behind(reader):
        sentence = f"Runs {_ids(runs)} count fewer points than they have."
        yield Trouble(
            "point ids",
            sentence,
            "They count on from their last point.",
            mend=lambda: _with(home, lambda store: integrity.mend_behind(store, runs)),
        )
    for unlike in integrity.unlike_summaries(reader):
        of = f"{unlike.name} of run {unlike.run_id}" + ("" if unlike.rank is None else f", rank {unlike.rank}")
        sentence = f"The summary of {of} says {unlike.says}; its points say {unlike.holds}."
        cure = "It is written anew from the points."
        yield Trouble("summary", sentence, cure, mend=partial(_with, home, partial(_summarize, unlike)))
    if metrics := integrity.unlike_corners(reader):
        sentence = f"{len(metrics):,} curves have corners that do not cover their points."
        yield Trouble(
            "corners",
            sentence,
            "They are written anew.",
            mend=lambda: _with(home, lambda store: integrity.mend_corners(store, metrics)),
        )


def _files(home: Home, reader: Reader) -> Iterator[Trouble]:
    found: dict[Kind, list[Leftover]] = {}
    for one in leftovers(home, reader):
        if one.is_ours:
            found.setdefault(one.kind, []).append(one)
    if left := found.get("process"):
        named = ", ".join(f"{one.name} ({f'run {one.run_id}' if one.run_id else 'no run'})" for one in left[:NAMED])
        sentence = f"Processes that no live run needs are still there: {named}{_more(left, NAMED)}."
        yield Trouble("processes", sentence, "They are ended.", mend=partial(_clean, home, left))
    if strays := found.get("folder"):
        sentence = (
            f"The folders of runs {_ids([int(Path(one.name).name) for one in strays])} belong to no run of the store."
        )
        yield Trouble(
            "orphan folders", sentence, f"They are moved to {home.aside}.", mend=partial(_clean, home, strays)
        )
    for run_id, count in integrity.logs_of(reader).items():
        if not home.run_folder(run_id).is_dir():
            sentence = f"Run {run_id} has no folder any more: its {count} logs, and any checkpoint, are gone."
            yield Trouble(
                "missing folder",
                sentence,
                "The store stops naming its logs.",
                mend=partial(_with, home, partial(_forget, run_id)),
            )
    if scraps := found.get("file"):
        sentence = (
            f"{len(scraps):,} sockets, locks and half-written files of processes that have ended: {_names(scraps)}."
        )
        yield Trouble("leftovers", sentence, "They are deleted.", harmless=True, mend=partial(_clean, home, scraps))
    if parts := found.get("shared memory"):
        size = sum(one.size_bytes or 0 for one in parts)
        sentence = (
            f"{len(parts):,} segments of shared memory ({size / 1e6:,.1f} MB) of ranks that are gone: {_names(parts)}."
        )
        yield Trouble("shared memory", sentence, "They are deleted.", mend=partial(_clean, home, parts))


def _forsaken(home: Home, reader: Reader) -> list[Run]:
    """Return the runs that should have a worker and have none; empty where a runner serves the home, who
    sees to them.
    """
    runs = [reader.runs.one(row.id) for row in reader.runs.find(statuses=ALIVE)]
    gone = [run for run in runs if run.worker is None or not lives(home, run.worker)]
    return gone if gone and not is_running(home) else []


def _with(home: Home, change: Callable[[Store], None]) -> None:
    with Store.open(home) as store:
        change(store)


def _forget(run_id: int, store: Store) -> None:
    integrity.forget_logs(store, run_id)


def _summarize(unlike: integrity.Unlike, store: Store) -> None:
    integrity.mend_summaries(store, [unlike])


def _lose(home: Home, run: Run) -> None:
    if is_running(home):
        raise EngineError(f"A runner has come to serve {home.path}; it looks after run {run.id}.")
    with Store.open(home) as store:
        if run.stop_requested_by:
            store.claims.end(run.id, "cancelled", f"Cancelled by {run.stop_requested_by}.", who="fsck")
        else:
            store.claims.end(
                run.id,
                "lost",
                "Its worker was gone when the store was checked. What it had recorded is kept; launch it again.",
                who="fsck",
            )


def _clean(home: Home, found: list[Leftover]) -> None:
    if left := clean(home, found, by=Program("fsck")).left:
        raise EngineError(f"Could not be removed: {', '.join(left)}.")


def _ids(run_ids: list[int]) -> str:
    return f"{', '.join(map(str, run_ids[:NAMED]))}{_more(run_ids, NAMED)}"


def _names(found: Sequence[Leftover]) -> str:
    return ", ".join("/".join(Path(one.name).parts[-2:]) for one in found[:3]) + _more(found, 3)


def _more(found: Sequence[object], named: int) -> str:
    return f" and {len(found) - named:,} more" if len(found) > named else ""
