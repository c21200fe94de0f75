"""The text of a run's logs: by offset for the live view, complete for the download. Paths from requests are always
validated.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from engine.errors import StoreError
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run
from engine.system import run_files

CHUNK = 256 * 1024
"""Maximum number of bytes in one answer, and of the tail shown first."""


LAB_LOGS = {"runner": "runner.log", "spare": "spare.log"}
"""Logs that belong to no run: the runner's, and the last spare worker's before it had a run. Files in the home folder.
"""


@dataclass(frozen=True)
class LogPiece:
    """A piece of a log: `start` and `end` are byte offsets in the file, `size` is its current length."""

    text: str
    start: int
    end: int
    size: int


def sources(home: Home, run: Run, reader: Reader) -> list[str]:
    """Return the run's logs, the one to open first: those with text before empty ones; of a failed run the log of the
    rank that its cause names, then those of other failed ranks, the last written first; then ranks, then the worker.
    """
    failed = {row.role for row in reader.details.ranks(run.id) if row.state == "failed" or row.exit_code}
    order = {row.role: row.rank for row in reader.details.ranks(run.id)}

    def place(log: tuple[str, str]) -> tuple[bool, bool, bool, float, bool, int, str]:
        source, path = log
        try:
            found = (home.run_folder(run.id) / path).stat()
            size, written_at = found.st_size, found.st_mtime
        except OSError:
            size, written_at = 0, 0.0
        is_failed = run.status != "finished" and source in failed
        is_cause = re.match(rf"{re.escape(source)}\b", run.cause or "") is not None and run.status != "finished"
        return (
            size == 0,
            not is_cause,
            not is_failed,
            -written_at if is_failed else 0.0,
            source not in order,
            order.get(source, 0),
            source,
        )

    return [source for source, _ in sorted(reader.details.logs(run.id), key=place)]


def log_path(home: Home, run_id: int, source: str) -> Path:
    """Return the file of one log of a run; raises StoreError if the run has no such log."""
    with Reader.open(home) as reader:
        reader.runs.one(run_id)
        known = dict(reader.details.logs(run_id))
    if source not in known:
        raise StoreError(f"Run {run_id} has no log named '{source}'. Available: {', '.join(known) or 'none yet'}.")
    folder = home.run_folder(run_id).resolve()
    path = (folder / known[source]).resolve()
    if not path.is_relative_to(folder):
        raise StoreError(f"Can't show log '{source}' of run {run_id}: the file is outside the run's folder.")
    return path


def lab_log_path(home: Home, source: str) -> Path:
    """Return the file of a log that belongs to no run; raises StoreError if there is no such log."""
    if source not in LAB_LOGS:
        raise StoreError(
            f"There is no log named '{source}'. Available: {', '.join(LAB_LOGS)}; for a run's log, add its run number."
        )
    return home.path / LAB_LOGS[source]


def tail(path: Path, offset: int | None) -> LogPiece:
    """Return the text from byte `offset` (None: the last `CHUNK` bytes), cut at a line end if more text follows."""
    if not path.is_file():
        return LogPiece("", 0, 0, 0)
    size = path.stat().st_size
    found = run_files.piece(
        path, max(0, size - CHUNK) if offset is None else run_files.offset_now(path, max(0, offset)), CHUNK
    )
    start, block, dropped = found.start, found.data, found.dropped
    if offset is None and start > 0:
        skipped = block.find(b"\n") + 1
        block, start, dropped = block[skipped:], start + skipped, 0
    whole = block[: block.rfind(b"\n") + 1] or (block if len(block) == CHUNK or found.end < size else b"")
    text = run_files.Piece(start, whole, dropped if whole else 0).text
    return LogPiece(text.decode("utf-8", "replace"), start, start + len(whole), size)
