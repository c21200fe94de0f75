"""Bundles: runs with all their stored data and their sweeps, as one zip of JSON lines with a checksum per member.

Another store imports either all runs that it doesn't have yet, with their logs, or none.
"""

import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from engine import __version__
from engine.access.quotas import size
from engine.errors import ConfigError, ImportRefused, WrongStatus, counted
from engine.home import Home
from engine.store import Reader, Store
from engine.store.curves.ingest import POINT_BYTES, arriving_runs
from engine.store.imports.bundle_import import admit, origin_of
from engine.store.imports.bundle_tables import OPTIONAL, TABLES, TableRows, parts_of
from engine.store.runs.files import HASH, arriving_content, checked_file_name, content_path
from engine.store.timestamps import now
from engine.system.run_files import has_hole, pieces, vacate
from engine.transfer.archives import MOST_BYTES, Members, opened, shown
from engine.transfer.bundles.checks import match_runs
from engine.transfer.bundles.rows import (
    NAME,
    DigestWriter,
    Log,
    Manifest,
    Sheet,
    check_digest,
    manifest_of,
    read_sheet,
    refusal,
    write_sheet,
)
from engine.transfer.tables import complete_file

FILES = "files/"
"""Folder of the members with the content of kept files, each under its SHA-256 hash."""
SWEEPS_SINCE = 2
"""First bundle version with sweeps."""
MOST_OF_FILES = MOST_BYTES // 4 * 3
"""Bytes of all kept files in a bundle, so that the rest still fits."""
MOST_LOG = 64 << 20
"""Longer logs are cut to their end."""
MOST_NAMED = 20
"""Runs that the outcome of an import names."""


@dataclass(frozen=True)
class ImportResult:
    """Outcome of an import."""

    ids: tuple[int, ...]
    """The new runs."""
    known: Mapping[str, int] = field(default_factory=dict)
    """Runs that already existed: ids in the file, and here."""
    notes: tuple[str, ...] = ()
    """Notes on skipped contents."""
    sweeps: tuple[int, ...] = ()
    """Sweeps of the new runs, by their ids here."""

    @property
    def sentence(self) -> str:
        """Return the outcome as text, with the ids of the new runs."""
        return self.in_words()

    @property
    def found(self) -> tuple[int, ...]:
        """Return the new runs, or without any those that were here."""
        return self.ids or tuple(sorted(set(self.known.values())))

    @property
    def filter(self) -> str:
        """Return the filter that finds exactly the runs of `found`."""
        ids = sorted(self.found)
        if len(ids) > 2 and ids[-1] - ids[0] + 1 == len(ids):  # an import gives numbers in a row
            return f"id >= {ids[0]} and id <= {ids[-1]}"
        return f"id in ({', '.join(map(str, ids))})" if len(ids) > 1 else f"id == {ids[0]}"

    def in_words(self, *, with_ids: bool = True) -> str:
        """Return the outcome as text."""
        if not self.ids:
            return self._all_known(with_ids)
        if with_ids:
            named = _named(self.ids)
            said = f"Run {named} imported." if len(self.ids) == 1 else f"{len(self.ids):,} runs imported: {named}."
        else:
            said = f"{counted(len(self.ids), 'run')} imported."
        if self.sweeps:
            where = f"{'sweep' if len(self.sweeps) == 1 else 'sweeps'} {', '.join(map(str, self.sweeps[:20]))}"
            said += f" Part of {where} here."
        if self.known:
            said += f" Skipped {len(self.known):,} more, already here as {_named(sorted(set(self.known.values())))}."
        return said

    def _all_known(self, with_ids: bool) -> str:
        here = self.found
        if len(here) == 1:
            return f"Nothing new: its run is already here{f', as run {here[0]}' if with_ids else ''}."
        return f"Nothing new: all {len(here):,} runs are already here{f', as {_named(here)}' if with_ids else ''}."


def _named(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:MOST_NAMED])) + (
        f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    )


def write_bundle(reader: Reader, run_ids: Sequence[int], file: Path | IO[bytes], *, by: str) -> int:
    """Write a bundle of ended runs and return its number of points; raises NoSuchRun, WrongStatus, ConfigError without
    runs, or for files too large to be imported.
    """
    run_ids = sorted(set(run_ids))
    with reader.db.snapshot():
        _check_ended(reader, run_ids)
        if (bytes_ := sum({each.sha256: each.bytes for each in reader.files.of(run_ids)}.values())) > MOST_OF_FILES:
            most = f"the files in a bundle can have at most {size(MOST_OF_FILES)}"
            raise ConfigError.of(
                "runs", f"These runs keep files of {size(bytes_)}; {most}. Export fewer runs at a time."
            )
        if isinstance(file, Path):
            with complete_file(file) as part:
                return _write(reader, run_ids, part, by)
        return _write(reader, run_ids, file, by)


def _check_ended(reader: Reader, run_ids: Sequence[int]) -> None:
    if not run_ids:
        raise ConfigError.of("runs", "A bundle needs at least one run; got none.")
    for run_id in run_ids:
        if (run := reader.runs.one(run_id)).active:
            raise WrongStatus(
                f"Run {run_id} is {run.status}; a bundle holds only runs that have ended. Wait for it, cancel it, "
                "or omit it."
            )


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
        for digest in sorted({each.sha256 for each in reader.files.of(run_ids)}):
            _write_content(content_path(reader.db.home, digest), digest, packed)
        about = Manifest(
            parallab=__version__, made_at=now(), made_by=by, host=socket.gethostname(), tables=sheets, logs=tuple(logs)
        )
        packed.writestr(NAME, about.model_dump_json(indent=1))
    return sheets["points"].rows


def _write_content(path: Path, digest: str, packed: zipfile.ZipFile) -> None:
    """Write the content of kept files as it is: compressed, zeros would look like a zip bomb."""
    try:
        packed.write(path, f"{FILES}{digest}", zipfile.ZIP_STORED)
    except FileNotFoundError:
        raise ConfigError.of(
            "runs", f"The content {digest} of a kept file is missing. Run fsck, then export again."
        ) from None


def _write_logs(home: Home, part: TableRows, packed: zipfile.ZipFile) -> Iterator[Log]:
    """Write the existing logs; skip logs that are missing or outside their run's folder."""
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
    """Import the new runs of a bundle; raises ImportRefused if anything in the bundle is invalid.

    `permit_bytes` raises if that many more bytes exceed the quota.
    """
    about = manifest_of(source)
    _check_members(source, about)
    with Reader.open(store.db.home) as reader:
        found = match_runs(reader, source, about)
    known = {str(old): here for old, here in found.known.items()}
    if not found.fresh:
        return ImportResult((), known)
    permit_bytes(_size(source, about) * len(found.fresh) // (len(found.fresh) + len(found.known)))
    with arriving_runs(store.db, len(found.fresh)) as here:
        ids = dict(zip(found.fresh, here.ids, strict=True))
        for run_id in here.ids:
            vacate(store.db.home, run_id)
        origins = {ids[old]: origin_of(origin, file, by) for old, origin in found.fresh.items()}
        _write_texts(store.db.home, source, about, ids)
        contents = _write_contents(store.db.home, source)
        sweeps = admit(store, here, _parts(source, about, contents), {**dict.fromkeys(found.known), **ids}, origins)
    return ImportResult(tuple(ids.values()), known, sweeps=sweeps)


def _size(source: Members, about: Manifest) -> int:
    """Return the approximate size of a bundle's runs here (bytes): points, texts and logs."""
    return (
        POINT_BYTES * about.tables["points"].rows
        + source.size("runs.jsonl")
        + sum(source.size(log.member) for log in about.logs)
        + sum(source.size(name) for name in source.names if name.startswith(FILES))
    )


def _check_members(source: Members, about: Manifest) -> None:
    """Raise ImportRefused for a missing table, an unknown table or a damaged member."""
    tables = {name for name in TABLES if name != "logs"} - ({"sweeps"} if about.version < SWEEPS_SINCE else set())
    if missing := sorted(tables - {*OPTIONAL} - set(about.tables)):
        raise ImportRefused(f"The bundle is incomplete: table '{missing[0]}' is missing. Export it again.")
    if unknown := sorted(set(about.tables) - tables):
        raise ImportRefused(
            f"The bundle is from a newer Parallab: unknown table '{unknown[0]}'. Update Parallab, then import it again."
        )
    for table, sheet in about.tables.items():
        check_digest(source, f"{table}.jsonl", sheet.sha256)
    for log in about.logs:
        check_digest(source, log.member, log.sha256)


def _write_contents(home: Home, source: Members) -> dict[str, int]:
    """Write the content of kept files into the home, where the running import keeps it from being removed; return its
    bytes by hash. Raises ImportRefused if a hash is another one.
    """
    found = dict[str, int]()
    for name in source.names:
        if not name.startswith(FILES):
            continue
        with opened(source, name) as file, arriving_content(home, file) as content:
            if content.sha256 != name.removeprefix(FILES):
                raise ImportRefused(
                    f"The bundle is damaged: '{shown(name)}' has the hash {content.sha256}. Copy it again."
                )
            content.publish()
            found[content.sha256] = content.bytes
    return found


def _checked_files(part: TableRows, contents: Mapping[str, int]) -> TableRows:
    """Return the rows of kept and used files; raises ImportRefused for a name or a hash that can't be, and for a kept
    file without its content.
    """

    def rows() -> Iterator[Sequence[Any]]:
        for number, row in enumerate(part.rows, 1):
            told = dict(zip(part.columns, row, strict=True))
            name, digest = told.get("name"), told.get("sha256")
            try:
                checked_file_name(name if isinstance(name, str) else "")
            except ConfigError as error:
                raise refusal(part.table, number, str(error)) from error
            if not isinstance(digest, str) or not HASH.fullmatch(digest):
                raise refusal(part.table, number, "sha256 is not a SHA-256 hash")
            if part.table == "files" and contents.get(digest) != told.get("bytes"):
                raise refusal(part.table, number, f"the content of '{name}' is missing or has another size")
            yield row

    return TableRows(part.table, part.columns, rows())


def _parts(source: Members, about: Manifest, contents: Mapping[str, int]) -> Iterator[TableRows]:
    for table in [*(name for name in TABLES if name not in ("sweeps", "runs")), "sweeps", "runs"]:
        if table == "logs":
            rows: list[Sequence[Any]] = [(log.run_id, log.source, _log_path(log)) for log in about.logs]
            yield TableRows("logs", ("run_id", "source", "path"), iter(rows))
        elif table in about.tables:
            part = read_sheet(source, table, about.tables[table])
            yield _checked_files(part, contents) if table in OPTIONAL else part


def _write_texts(home: Home, source: Members, about: Manifest, ids: Mapping[int, int]) -> None:
    """Write the logs of the new runs into their folders, under generated names."""
    for log in about.logs:
        if (run_id := ids.get(log.run_id)) is None:
            continue
        path = home.run_folder(run_id) / _log_path(log)
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened(source, log.member) as text, path.open("wb") as file:
            shutil.copyfileobj(text, file)


def _log_path(log: Log) -> str:
    return f"logs/{log.source}.log"
