"""Import a file or folder of runs of any supported format: a bundle, TensorBoard's event files, MLflow's folder of
runs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.access.quotas import limits
from engine.errors import ImportRefused, LimitReached
from engine.store import Reader, Store
from engine.store.access.quotas import over_disk
from engine.store.imports.external_import import ExternalRun, take_in
from engine.transfer.archives import DamagedMember, Members, members, without_damaged
from engine.transfer.bundles.bundle import ImportResult, import_bundle
from engine.transfer.bundles.manifest import NAME
from engine.transfer.readers.mlflow import read_mlflow, run_folders
from engine.transfer.readers.tensorboard import event_files, read_tensorboard

MOST_RUNS = 10_000


def import_path(store: Store, path: Path, *, by: str, name: str = "") -> ImportResult:
    """Import all new runs at a path, or raise ImportRefused and import none. `name` is the file's display name."""
    store.access.permit("import", by=by, detail=name or path.name)

    def permit_bytes(more: int) -> None:
        if sentence := over_disk(limits(store.db.home).of(by), by, store.read.quotas.held(by), more):
            raise LimitReached(sentence)

    permit_bytes(0)
    called = (name or path.resolve().name)[:200]
    with members(path) as source:
        if NAME in source.names:
            return import_bundle(store, source, file=called, by=by, permit_bytes=permit_bytes)
        try:
            runs, notes = _recorded(source, called)
        except DamagedMember:
            source = without_damaged(source)
            if not run_folders(source.names) and not event_files(source.names):
                raise
            runs, notes = _recorded(source, called)
        notes = [*source.notes, *notes]
    return _taken(store, runs, notes, file=called, by=by, permit_bytes=permit_bytes)


def _recorded(source: Members, called: str) -> tuple[list[ExternalRun], list[str]]:
    """Return the runs recorded by another program, and notes on skipped contents."""
    if folders := run_folders(source.names):
        _bound(len(folders))
        return read_mlflow(source, folders)
    if files := event_files(source.names):
        _bound(len(files))
        return read_tensorboard(source, files, top=called)
    raise ImportRefused(
        f"{called} has nothing to import. Supported: a bundle of this program (a zip with {NAME}), "
        "TensorBoard event files (with 'tfevents' in their names; a folder or zip for several runs), and "
        "MLflow's folder mlruns, also as a zip."
    )


def _taken(
    store: Store,
    runs: Sequence[ExternalRun],
    notes: Sequence[str],
    *,
    file: str,
    by: str,
    permit_bytes: Callable[[int], None],
) -> ImportResult:
    known: dict[str, int] = {}
    fresh: dict[str, ExternalRun] = {}
    with Reader.open(store.db.home) as reader:
        for run in runs:
            here = reader.origins.run_of(run.fingerprint)
            if here is not None:
                known[run.original_id] = here
            else:
                fresh.setdefault(run.fingerprint, run)
    if not fresh:
        there = ", ".join(map(str, sorted(set(known.values()))))
        why = f"All its runs already exist here, as {there}." if known else " ".join(notes)
        raise ImportRefused(f"Nothing was imported from {file}. {why}")
    permit_bytes(sum(run.size_bytes for run in fresh.values()))
    return ImportResult(tuple(take_in(store, list(fresh.values()), file=file, by=by)), known, tuple(notes))


def _bound(count: int) -> None:
    if count > MOST_RUNS:
        raise ImportRefused(
            f"Too many runs: {count:,}; at most {MOST_RUNS:,} can be imported at once. Import fewer at a time."
        )
