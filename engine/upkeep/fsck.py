"""Looks for what crashes can leave, in the store and beside it, and mends what can be mended without a guess."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from engine.errors import EngineError, StoreBusy, StoreError, StoreTooNew
from engine.home import Home
from engine.runtime.processes import is_alive
from engine.runtime.runner import is_running
from engine.store import ALIVE, ENDED, Reader, Run, Store, checks
from engine.store.clock import now
from engine.upkeep.leftovers import orphan_folders, scraps, segments

MANY = 1_000_000
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

    Runs that are on are left out wherever what they write could look unfinished. Raises StoreBusy, StoreTooNew.
    """
    if not home.database.exists():
        return
    if broken := _damage(home):
        yield Trouble("damage", broken, "Restore the newest good backup: python -m engine backup --list, then python -m engine restore FILE.")
        return
    with Reader.open(home, timeout_s=PATIENCE_S) as reader:
        yield from _rows(home, reader)
        yield from _files(home, reader)


def _damage(home: Home) -> str:
    """Return what SQLite itself finds wrong with the store, as a sentence; empty for a sound one."""
    try:
        with Reader.open(home, timeout_s=PATIENCE_S) as reader:
            broken = checks.damage(reader)
    except (StoreBusy, StoreTooNew):
        raise
    except StoreError as error:
        return str(error)
    return f"The store {home.database} is damaged: {'; '.join(broken)}." if broken else ""


def _rows(home: Home, reader: Reader) -> Iterator[Trouble]:
    for table, other, count in checks.strangers(reader):
        sentence = f"{count:,} rows of {table} refer to rows of {other} that are not there."
        yield Trouble("foreign keys", sentence, "Those rows are deleted, links to runs and sweeps cut.", mend=lambda: _with(home, checks.remove_strangers))
    for run in _forsaken(home, reader):
        pid = run.worker.pid if run.worker else "none"
        sentence = f"Run {run.id} is {run.status}, but its worker (pid {pid}) is gone and no runner is there to say so."
        yield Trouble("lost run", sentence, "It becomes lost; what it had recorded is kept.", mend=partial(_lose, home, run))
    if runs := checks.behind(reader):
        sentence = f"Runs {_ids(runs)} count fewer points than they have."
        yield Trouble("point ids", sentence, "They count on from their last point.", mend=lambda: _with(home, lambda store: checks.mend_behind(store, runs)))
    for unlike in checks.unlike_summaries(reader):
        of = f"{unlike.name} of run {unlike.run_id}" + ("" if unlike.rank is None else f", rank {unlike.rank}")
        sentence = f"The summary of {of} says {unlike.says}; its points say {unlike.holds}."
        cure = "It is written anew from the points."
        yield Trouble("summary", sentence, cure, mend=partial(_with, home, partial(_summarize, unlike)))
    if metrics := checks.unlike_corners(reader):
        sentence = f"{len(metrics):,} curves have corners that do not cover their points."
        yield Trouble("corners", sentence, "They are written anew.", mend=lambda: _with(home, lambda store: checks.mend_corners(store, metrics)))


def _files(home: Home, reader: Reader) -> Iterator[Trouble]:
    strays = orphan_folders(home, [])
    known = {row.id: row.status for row in reader.runs(limit=MANY)}
    if strays := [path for path in strays if int(path.name) not in known]:
        sentence = f"The folders of runs {_ids([int(path.name) for path in strays])} belong to no run of the store."
        yield Trouble("orphan folders", sentence, f"They are moved to {home.aside}.", mend=lambda: _put_aside(home, strays))
    for run_id, count in checks.logs_of(reader).items():
        if not home.run_folder(run_id).is_dir():
            sentence = f"Run {run_id} has no folder any more: its {count} logs, and any checkpoint, are gone."
            yield Trouble("missing folder", sentence, "The store stops naming its logs.", mend=partial(_with, home, partial(_forget, run_id)))
    if found := scraps(home, [run_id for run_id, status in known.items() if status in ENDED]):
        sentence = f"{len(found):,} sockets, locks and half-written files of processes that have ended: {_names(found)}."
        yield Trouble("leftovers", sentence, "They are deleted.", harmless=True, mend=lambda: _delete(found))
    if parts := segments(reader):
        size = sum(path.stat().st_size for path in parts)
        sentence = f"{len(parts):,} segments of shared memory ({size / 1e6:,.1f} MB) of ranks that are gone: {_names(parts)}."
        yield Trouble("shared memory", sentence, "They are deleted.", mend=lambda: _delete(parts))


def _forsaken(home: Home, reader: Reader) -> list[Run]:
    """Return the runs that should have a worker and have none; empty where a runner serves the home, who sees to them."""
    runs = [reader.run(row.id) for row in reader.runs(statuses=ALIVE)]
    gone = [run for run in runs if run.worker is None or not is_alive(run.worker)]
    return gone if gone and not is_running(home) else []


def _with(home: Home, change: Callable[[Store], None]) -> None:
    with Store.open(home) as store:
        change(store)


def _forget(run_id: int, store: Store) -> None:
    checks.forget_logs(store, run_id)


def _summarize(unlike: checks.Unlike, store: Store) -> None:
    checks.mend_summaries(store, [unlike])


def _lose(home: Home, run: Run) -> None:
    if is_running(home):
        raise EngineError(f"A runner has come to serve {home.path}; it looks after run {run.id}.")
    with Store.open(home) as store:
        if run.stop_requested_by:
            store.end(run.id, "cancelled", f"Cancelled by {run.stop_requested_by}.", who="fsck")
        else:
            store.end(run.id, "lost", "Its worker was gone when the store was checked. What it had recorded is kept; launch it again.", who="fsck")


def _put_aside(home: Home, folders: list[Path]) -> None:
    aside = home.aside / f"orphans-{now().replace(':', '-')}"
    aside.mkdir(mode=0o700, parents=True)
    for folder in folders:
        folder.rename(aside / folder.name)


def _delete(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _ids(run_ids: list[int]) -> str:
    return ", ".join(map(str, run_ids[:NAMED])) + (f" and {len(run_ids) - NAMED:,} more" if len(run_ids) > NAMED else "")


def _names(paths: list[Path]) -> str:
    return ", ".join(f"{path.parent.name}/{path.name}" for path in paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
