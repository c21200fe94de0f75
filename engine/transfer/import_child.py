"""The process of one import: reads its request from standard input, limits itself, and answers in JSON on standard
output.

Started by `engine.transfer.import_process`. A hostile file can crash only this process, not the console or the command
line.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import psutil

from engine.access.quotas import limits
from engine.errors import EngineError, ImportRefused, LimitReached
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.quotas import over_disk
from engine.store.imports.external_import import ExternalRun, take_in
from engine.store.imports.mlflow_database import MlflowDatabase, opened_database
from engine.system.processes import die_with_parent
from engine.transfer.archives import DamagedMember, Folder, Members, members, shown, without_damaged
from engine.transfer.bundles.bundle import ImportResult, import_bundle
from engine.transfer.bundles.rows import NAME
from engine.transfer.readers.mlflow import read_mlflow, run_folders
from engine.transfer.readers.tensorboard import event_files, read_tensorboard

MOST_NOTES = 1_000


def main() -> None:
    """Execute the import request from standard input."""
    asked = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not reach the answer
    die_with_parent(asked["parent"])
    _limit(asked["memory_bytes"], asked["time_s"])
    json.dump(_carry_out(asked), answer)
    answer.close()


def _carry_out(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        with Store.open(Home(Path(asked["home"]))) as store:
            found = import_path(store, Path(asked["path"]), by=asked["by"], name=asked["name"])
    except EngineError as error:
        return {"error": type(error).__name__, "sentence": str(error), "may": getattr(error, "may", ())}
    except MemoryError:
        needs = (
            f"{shown(asked['name'])} needs more than the import's memory limit of "
            f"{asked['memory_bytes'] / 1e9:,.2g} GB."
        )
        return {"error": "ImportRefused", "sentence": f"{needs} Nothing was imported. Import fewer runs at a time."}
    notes = [
        *found.notes[:MOST_NOTES],
        *([f"{len(found.notes) - MOST_NOTES:,} more notes omitted."] if len(found.notes) > MOST_NOTES else []),
    ]
    return {"ids": found.ids, "known": dict(found.known), "notes": notes, "sweeps": found.sweeps}


def _limit(memory_bytes: int, time_s: float) -> None:
    """Limit this process's memory, beyond its current use, and its CPU time; on systems without such limits, only the
    parent's timeout applies.
    """
    seconds = math.ceil(time_s) + 1
    for kind, most in (
        (resource.RLIMIT_AS, psutil.Process().memory_info().vms + memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


# ------------------------------------------------------------------------------------------------------------------
# Import a file or folder of runs of any supported format: a bundle, TensorBoard's event files, MLflow's folder of
# runs and its database.

MOST_RUNS = 10_000
DATABASES = (".db", ".sqlite", ".sqlite3")
"""How the names of MLflow's databases end."""


def import_path(store: Store, path: Path, *, by: str, name: str = "") -> ImportResult:
    """Import all new runs at a path; raises ImportRefused for one without runs. `name` is the file's display name."""
    store.access.permit("import", by=by, detail=name or path.name, is_recorded=False)

    def permit_bytes(more: int) -> None:
        if sentence := over_disk(limits(store.db.home).of(by), by, store.read.quotas.held(by), more):
            raise LimitReached(sentence)

    permit_bytes(0)
    called = (name or path.resolve().name)[:200]
    with members(path) as source, ExitStack() as opened:
        if NAME in source.names:
            return import_bundle(store, source, file=called, by=by, permit_bytes=permit_bytes)
        databases = _databases(source, opened)
        try:
            runs, notes = _recorded(source, called, databases)
        except DamagedMember:
            source = without_damaged(source)
            if not run_folders(source.names) and not event_files(source.names):
                raise
            runs, notes = _recorded(source, called, databases)
        notes = [*source.notes, *notes]
        return _taken(store, runs, notes, file=called, by=by, permit_bytes=permit_bytes)


def _databases(source: Members, opened: ExitStack) -> list[MlflowDatabase]:
    """Open the databases of MLflow among the files of a folder; `opened` closes them."""
    if not isinstance(source, Folder):
        return []
    paths = [source.path / place for name, place in source.files.items() if name.lower().endswith(DATABASES)]
    return [found for path in paths if (found := opened.enter_context(opened_database(path)))]


def _recorded(source: Members, called: str, databases: Sequence[MlflowDatabase]) -> tuple[list[ExternalRun], list[str]]:
    """Return the runs recorded by another program, and notes on skipped contents."""
    held = [(each, folders) for each in (source, *databases) if (folders := run_folders(each.names))]
    if held:
        _bound(sum(len(folders) for _, folders in held))
        read = [read_mlflow(each, folders, source) for each, folders in held]
        return [run for runs, _ in read for run in runs], [note for _, notes in read for note in notes]
    if files := event_files(source.names):
        _bound(len(files))
        return read_tensorboard(source, files, top=called)
    raise ImportRefused(
        f"{called} has nothing to import. Supported: a bundle of this program (a zip with {NAME}), "
        "TensorBoard event files (with 'tfevents' in their names; a folder or zip for several runs), and "
        "MLflow's folder mlruns, also as a zip, and its database mlflow.db, not in a zip."
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
        for run in sorted(runs, key=attrgetter("created_at")):
            here = reader.origins.run_of(run.fingerprint)
            if here is not None:
                known[run.original_id] = here
            else:
                fresh.setdefault(run.fingerprint, run)
    if not fresh:
        if known:
            return ImportResult((), known, tuple(notes))
        raise ImportRefused(f"Nothing was imported from {file}. {' '.join(notes)}")
    permit_bytes(sum(run.size_bytes for run in fresh.values()))
    ids, left_out = take_in(store, list(fresh.values()), file=file, by=by)
    return ImportResult(tuple(ids), known, (*notes, *left_out))


def _bound(count: int) -> None:
    if count > MOST_RUNS:
        raise ImportRefused(
            f"Too many runs: {count:,}; at most {MOST_RUNS:,} can be imported at once. Import fewer at a time."
        )


if __name__ == "__main__":
    main()
