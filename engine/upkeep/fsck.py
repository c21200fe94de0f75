"""Find the traces of crashes, in the store and in the home, and repair those that have an unambiguous fix."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import file_digest
from pathlib import Path

from engine.access.quotas import size
from engine.access.rules import Program
from engine.errors import EngineError, StoreDamaged, StoreDenied, counted
from engine.home import Home
from engine.store import Reader, Run, Store
from engine.store.curves.ingest import unfinished
from engine.store.maintenance import integrity
from engine.store.runs.files import KeptFile, content_path, unkept
from engine.system.run_files import aside_of
from engine.system.runner_process import can_resume, cure_of_loss, is_running, lost_runs
from engine.transfer.import_process import clear_killed, is_importing
from engine.upkeep.leftovers import Kind, Leftover, clean, leftovers

PATIENCE_S = 30.0
NAMED = 10


@dataclass(frozen=True)
class Trouble:
    """One problem."""

    kind: str
    sentence: str
    cure: str
    """The effect of `mend`, or without it, the steps for a person."""
    harmless: bool = False
    """Only takes disk space."""
    mend: Callable[[], None] | None = field(default=None, repr=False, compare=False)


def examine(home: Home) -> Iterator[Trouble]:
    """Yield the problems of a home, worst first. A damaged store is not checked further.

    Active runs are skipped wherever their writes could look unfinished. Raises StoreBusy, StoreTooNew, StoreError for
    an older store.
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
    """Return the result of SQLite's integrity check as a sentence; empty if the store is intact."""
    try:
        with Reader.open(home, timeout_s=PATIENCE_S) as reader:
            broken = integrity.damage(reader)
    except StoreDamaged as error:
        return str(error)
    return f"The store {home.database} is damaged: {'; '.join(broken)}." if broken else ""


def _as_whom(home: Home) -> str:
    """Return the cure for a store that can't be opened; it may be intact."""
    try:
        owner = f"{home.path.owner()}, who owns {home.path}"
    except (OSError, KeyError):
        owner = f"the user who owns {home.path}"
    return (
        f"Run fsck as {owner}, or give this user write access: SQLite keeps extra files next to an open "
        "store. The store was not checked; don't restore a backup because of this."
    )


def _rows(home: Home, reader: Reader) -> Iterator[Trouble]:
    for table, other, count in integrity.strangers(reader):
        sentence = f"The table {table} has {counted(count, 'row')} with references to missing rows of {other}."
        yield Trouble(
            "foreign keys",
            sentence,
            "Deletes those rows, and clears links to missing runs and sweeps.",
            mend=lambda: _with(home, integrity.remove_strangers),
        )
    if unfinished(reader.db) and not is_importing(home):
        yield Trouble(
            "import",
            "A killed import or resumption has left rows that nothing shows.",
            "Deletes them.",
            harmless=True,
            mend=lambda: _with(home, clear_killed),
        )
    for run in lost_runs(home, reader):
        pid = run.worker.pid if run.worker else "none"
        sentence = f"Run {run.id} is {run.status}, but its worker (pid {pid}) is gone and no runner is running."
        yield Trouble(
            "lost run", sentence, "Marks it as lost; its recorded data is kept.", mend=partial(_lose, home, run)
        )
    if runs := integrity.behind(reader):
        sentence = f"The point counters of runs {_ids(runs)} are too low."
        yield Trouble(
            "point ids",
            sentence,
            "Sets the counters to the last point.",
            mend=lambda: _with(home, lambda store: integrity.mend_behind(store, runs)),
        )
    for unlike in integrity.unlike_summaries(reader):
        of = f"{unlike.name} of run {unlike.run_id}" + ("" if unlike.rank is None else f", rank {unlike.rank}")
        sentence = f"The summary of {of} has {unlike.says}; its points have {unlike.holds}."
        cure = "Recomputes it from the points."
        yield Trouble("summary", sentence, cure, mend=partial(_with, home, partial(_summarize, unlike)))
    if metrics := integrity.unlike_corners(reader):
        sentence = f"{len(metrics):,} curves have bounds that don't include their points."
        yield Trouble(
            "corners",
            sentence,
            "Recomputes them.",
            mend=lambda: _with(home, lambda store: integrity.mend_corners(store, metrics)),
        )


def _files(home: Home, reader: Reader) -> Iterator[Trouble]:
    found: dict[Kind, list[Leftover]] = {}
    for one in leftovers(home, reader):
        if one.is_ours:
            found.setdefault(one.kind, []).append(one)
    if left := found.get("process"):
        named = ", ".join(f"{one.name} ({f'run {one.run_id}' if one.run_id else 'no run'})" for one in left[:NAMED])
        sentence = f"Leftover processes: {named}{_more(left, NAMED)}."
        yield Trouble("processes", sentence, "Ends them.", mend=partial(_clean, home, left))
    if strays := found.get("folder"):
        sentence = f"Run folders without a run in the store: {_ids([int(Path(one.name).name) for one in strays])}."
        yield Trouble(
            "orphan folders", sentence, f"Moves them to {aside_of(home)}.", mend=partial(_clean, home, strays)
        )
    with_job = reader.cluster_jobs.run_ids()  # their files are still on the way
    for run_id, count in integrity.logs_of(reader).items():
        if run_id not in with_job and not home.run_folder(run_id).is_dir():
            sentence = f"The folder of run {run_id} is missing, with its {count} logs and any checkpoint."
            yield Trouble(
                "missing folder",
                sentence,
                "Copy runs/ from the original home. --mend: removes its logs from the store.",
                mend=partial(_with, home, partial(_forget, run_id)),
            )
    yield from _kept_files(home, reader)
    if scraps := found.get("file"):
        sentence = f"{len(scraps):,} leftover sockets, locks and partial files of ended processes: {_names(scraps)}."
        yield Trouble("leftovers", sentence, "Deletes them.", harmless=True, mend=partial(_clean, home, scraps))
    if parts := found.get("shared memory"):
        bytes_ = sum(one.size_bytes or 0 for one in parts)
        sentence = (
            f"{len(parts):,} leftover shared memory segments ({bytes_ / 1e6:,.1f} MB) of ended ranks: {_names(parts)}."
        )
        yield Trouble("shared memory", sentence, "Deletes them.", mend=partial(_clean, home, parts))


def _kept_files(home: Home, reader: Reader) -> Iterator[Trouble]:
    """Yield files whose content is missing or has another hash, and content that no run keeps."""
    broken, checked = list[KeptFile](), dict[str, bool]()
    for each in reader.files.all():
        if each.sha256 not in checked:
            checked[each.sha256] = _is_whole(content_path(home, each.sha256), each)
        if not checked[each.sha256]:
            broken.append(each)
    if broken:
        named = ", ".join(f"{each.name} of run {each.run_id}" for each in broken[:NAMED])
        sentence = f"Kept files whose content is missing or damaged: {named}{_more(broken, NAMED)}."
        cure = "Copy files/ from the original home, or keep the files again. --mend: removes them from their runs."
        yield Trouble("kept files", sentence, cure, mend=partial(_with, home, lambda store: store.files.forget(broken)))
    if left := unkept(reader.db):
        sentence = f"{counted(len(left), 'kept file')} without a run ({size(sum(each for _, each in left))})."
        yield Trouble(
            "unkept files",
            sentence,
            "Deletes them.",
            harmless=True,
            mend=partial(_with, home, lambda s: s.files.sweep()),
        )


def _is_whole(path: Path, kept: KeptFile) -> bool:
    try:
        with path.open("rb") as file:
            return (
                os.fstat(file.fileno()).st_size == kept.bytes and file_digest(file, "sha256").hexdigest() == kept.sha256
            )
    except OSError:
        return False


def _with(home: Home, change: Callable[[Store], object]) -> None:
    with Store.open(home) as store:
        change(store)


def _forget(run_id: int, store: Store) -> None:
    integrity.forget_logs(store, run_id)


def _summarize(unlike: integrity.Unlike, store: Store) -> None:
    integrity.mend_summaries(store, [unlike])


def _lose(home: Home, run: Run) -> None:
    if is_running(home):
        raise EngineError(f"A runner has started for {home.path}; it handles run {run.id}.")
    with Store.open(home) as store:
        if run.stop_requested_by:
            store.claims.end(run.id, "cancelled", f"Cancelled by {run.stop_requested_by}.", who="fsck")
        else:
            store.claims.end(
                run.id,
                "lost",
                "fsck found its worker gone. Recorded data is kept. " + cure_of_loss(can_resume(store, run, home)),
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
