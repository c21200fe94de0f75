"""A bundle: runs with all that a store knows of them and of their sweeps, as one zip of JSON lines with a checksum for
each member.

Another store imports it: either all of its runs that are not here yet come in, with their logs, or none does.
"""

import os
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from engine import __version__
from engine.errors import ConfigError, ImportRefused, Problem, WrongStatus
from engine.home import Home
from engine.store import Reader, Store
from engine.store.curves.ingest import POINT_BYTES
from engine.store.imports.bundle_import import admit, origin_of
from engine.store.imports.bundle_tables import TABLES, TableRows, parts_of
from engine.store.imports.run_ids import reserve
from engine.store.timestamps import now
from engine.system.log_files import has_hole, pieces
from engine.transfer.archives import Members, opened
from engine.transfer.bundles.dedup import MatchedRuns, match_runs
from engine.transfer.bundles.manifest import NAME, Log, Manifest, Sheet, manifest_of
from engine.transfer.bundles.rows import DigestWriter, check_digest, read_sheet, write_sheet

SWEEPS_SINCE = 2
"""The version from which on a bundle holds sweeps."""
MOST_LOG = 64 << 20
"""Of a longer log its end is taken."""


@dataclass(frozen=True)
class ImportResult:
    """What an import came to."""

    ids: tuple[int, ...]
    """The new runs."""
    known: Mapping[str, int] = field(default_factory=dict)
    """The runs that were here already: their ids in the file, and here."""
    notes: tuple[str, ...] = ()
    """What was not taken in, in sentences."""
    sweeps: tuple[int, ...] = ()
    """The sweeps here that the new runs are part of."""

    @property
    def sentence(self) -> str:
        """Return what came of it as one reads it."""
        named = ", ".join(map(str, self.ids[:20])) + (f" and {len(self.ids) - 20:,} more" if len(self.ids) > 20 else "")
        said = f"Run {named} was imported." if len(self.ids) == 1 else f"{len(self.ids):,} runs were imported: {named}."
        if self.sweeps:
            where = f"{'sweep' if len(self.sweeps) == 1 else 'sweeps'} {', '.join(map(str, self.sweeps[:20]))}"
            said += f" {'It is' if len(self.ids) == 1 else 'They are'} part of {where} here."
        if self.known:
            here = ", ".join(map(str, sorted(set(self.known.values()))[:20]))
            said += f" {len(self.known):,} more {'was' if len(self.known) == 1 else 'were'} here already, as {here}."
        return said


def write_bundle(reader: Reader, run_ids: Sequence[int], file: Path | IO[bytes], *, by: str) -> int:
    """Write a bundle of runs that have ended and return how many points it holds; raises NoSuchRun, WrongStatus,
    ConfigError for none.
    """
    run_ids = sorted(set(run_ids))
    with reader.db.snapshot():
        _check_ended(reader, run_ids)
        if isinstance(file, Path):
            with _aside(file) as part:
                return _write(reader, run_ids, part, by)
        return _write(reader, run_ids, file, by)


def _check_ended(reader: Reader, run_ids: Sequence[int]) -> None:
    if not run_ids:
        raise ConfigError([Problem("runs", "A bundle holds one run at least, got none.")])
    for run_id in run_ids:
        if (run := reader.runs.one(run_id)).active:
            raise WrongStatus(
                f"Run {run_id} is {run.status}; a bundle holds runs that ended. Wait for it, cancel it, or "
                "leave it out."
            )


@contextmanager
def _aside(path: Path) -> Iterator[IO[bytes]]:
    """Write aside, then rename: whatever carries the name is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write(reader: Reader, run_ids: Sequence[int], file: IO[bytes], by: str) -> int:
    sheets: dict[str, Sheet] = {}
    logs: list[Log] = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for part in parts_of(reader, run_ids):
            if part.table == "logs":
                logs = list(_write_logs(reader.db.home, part, packed))
                continue
            with packed.open(f"{part.table}.jsonl", "w", force_zip64=True) as member:
                sheets[part.table] = write_sheet(part, member)
        about = Manifest(
            parallab=__version__, made_at=now(), made_by=by, host=socket.gethostname(), tables=sheets, logs=tuple(logs)
        )
        packed.writestr(NAME, about.model_dump_json(indent=1))
    return sheets["points"].rows


def _write_logs(home: Home, part: TableRows, packed: zipfile.ZipFile) -> Iterator[Log]:
    """Write the logs that are there; one that is gone, or lies outside its run's folder, is left out."""
    for number, (run_id, source, path) in enumerate(part.rows):
        folder = home.run_folder(run_id).resolve()
        found = (folder / path).resolve()
        if not found.is_relative_to(folder) or not found.is_file():
            continue
        name = f"logs/{number}.txt"
        with packed.open(name, "w") as member:
            into = DigestWriter(member)
            for piece in pieces(found, 0 if has_hole(found) else max(0, found.stat().st_size - MOST_LOG)):
                into.write(piece.text)
        yield Log(run_id=run_id, source=source, member=name, sha256=into.digest.hexdigest())


def import_bundle(
    store: Store, source: Members, *, file: str, by: str, permit_bytes: Callable[[int], None]
) -> ImportResult:
    """Take in the runs of a bundle that are not here yet; raises ImportRefused where all are, or where anything about
    it is wrong.

    `permit_bytes` raises where about so many bytes more may not be kept.
    """
    about = manifest_of(source)
    _check_members(source, about)
    with Reader.open(store.db.home) as reader:
        found = match_runs(reader, source, about)
    if not found.fresh:
        raise ImportRefused(_all_here(found, file))
    permit_bytes(_size(source, about) * len(found.fresh) // (len(found.fresh) + len(found.known)))
    ids = dict(zip(found.fresh, reserve(store, len(found.fresh)), strict=True))
    origins = {ids[old]: origin_of(origin, file, by) for old, origin in found.fresh.items()}
    try:
        _write_texts(store.db.home, source, about, ids)
        sweeps = admit(store, _parts(source, about), {**dict.fromkeys(found.known), **ids}, origins)
    except BaseException:
        for run_id in ids.values():
            shutil.rmtree(store.db.home.run_folder(run_id), ignore_errors=True)
        raise
    return ImportResult(tuple(ids.values()), {str(old): here for old, here in found.known.items()}, sweeps=sweeps)


def _size(source: Members, about: Manifest) -> int:
    """Return about what all of a bundle's runs take here (bytes): their points, texts and logs."""
    return (
        POINT_BYTES * about.tables["points"].rows
        + source.size("runs.jsonl")
        + sum(source.size(log.member) for log in about.logs)
    )


def _check_members(source: Members, about: Manifest) -> None:
    """Raise ImportRefused where the bundle lacks a table, has one that this code does not know, or a member
    is damaged.
    """
    tables = {name for name in TABLES if name != "logs"} - ({"sweeps"} if about.version < SWEEPS_SINCE else set())
    if missing := sorted(tables - set(about.tables)):
        raise ImportRefused(f"The bundle is not whole: it lacks the table '{missing[0]}'. Have it exported again.")
    if unknown := sorted(set(about.tables) - tables):
        raise ImportRefused(
            f"The bundle was made by a newer Parallab: it has a table '{unknown[0]}'. Update this checkout, "
            "then import it again."
        )
    for table, sheet in about.tables.items():
        check_digest(source, f"{table}.jsonl", sheet.sha256)
    for log in about.logs:
        check_digest(source, log.member, log.sha256)


def _parts(source: Members, about: Manifest) -> Iterator[TableRows]:
    for table in TABLES:
        if table == "logs":
            rows: list[Sequence[Any]] = [(log.run_id, log.source, _log_path(log)) for log in about.logs]
            yield TableRows("logs", ("run_id", "source", "path"), iter(rows))
        elif table in about.tables:
            yield read_sheet(source, table, about.tables[table])


def _write_texts(home: Home, source: Members, about: Manifest, ids: Mapping[int, int]) -> None:
    """Put the logs of the new runs into their folders, under names of our own."""
    for log in about.logs:
        if (run_id := ids.get(log.run_id)) is None:
            continue
        path = home.run_folder(run_id) / _log_path(log)
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened(source, log.member) as text, path.open("wb") as file:
            shutil.copyfileobj(text, file)


def _log_path(log: Log) -> str:
    return f"logs/{log.source}.log"


def _all_here(found: MatchedRuns, file: str) -> str:
    here = ", ".join(str(run_id) for run_id in sorted(set(found.known.values())))
    if len(found.known) == 1:
        return f"The run in {file} is here already, as run {here}. Nothing was imported."
    return f"All {len(found.known)} runs in {file} are here already, as runs {here}. Nothing was imported."
