"""The text of a run's logs: by offset for the live view, whole for the download. No path from outside reaches the disk
unchecked.
"""

from dataclasses import dataclass
from pathlib import Path

from engine.errors import StoreError
from engine.home import Home
from engine.store import Reader
from engine.system import log_files

CHUNK = 256 * 1024
"""Bytes of one answer, and of the end of a log that a first look shows."""


LAB_LOGS = {"runner": "runner.log", "spare": "spare.log"}
"""Logs that belong to no run: the runner's, and that of the last spare worker before it had a run; files of the home.
"""


@dataclass(frozen=True)
class LogPiece:
    """A piece of a log: `start` and `end` are byte offsets in the file, `size` is its length at the moment."""

    text: str
    start: int
    end: int
    size: int


def log_path(home: Home, run_id: int, source: str) -> Path:
    """Return the file of one log of a run; raises StoreError where the run has no such log."""
    with Reader.open(home) as reader:
        reader.runs.one(run_id)
        known = dict(reader.details.logs(run_id))
    if source not in known:
        raise StoreError(f"Run {run_id} has no log named '{source}'. Known: {', '.join(known) or 'none yet'}.")
    folder = home.run_folder(run_id).resolve()
    path = (folder / known[source]).resolve()
    if not path.is_relative_to(folder):
        raise StoreError(f"The log '{source}' of run {run_id} does not lie in the run's folder, so it is not shown.")
    return path


def lab_log_path(home: Home, source: str) -> Path:
    """Return the file of a log that belongs to no run; raises StoreError where there is none of that name."""
    if source not in LAB_LOGS:
        raise StoreError(
            f"No log is named '{source}'. Known: {', '.join(LAB_LOGS)}; those of a run are asked for with its number."
        )
    return home.path / LAB_LOGS[source]


def tail(path: Path, offset: int | None) -> LogPiece:
    """Return what follows byte `offset` (None: the last `CHUNK` bytes), cut at a line's end where more is to come."""
    if not path.is_file():
        return LogPiece("", 0, 0, 0)
    size = path.stat().st_size
    found = log_files.piece(
        path, max(0, size - CHUNK) if offset is None else log_files.offset_now(path, max(0, offset)), CHUNK
    )
    start, block, dropped = found.start, found.data, found.dropped
    if offset is None and start > 0:
        skipped = block.find(b"\n") + 1
        block, start, dropped = block[skipped:], start + skipped, 0
    whole = block[: block.rfind(b"\n") + 1] or (block if len(block) == CHUNK or found.end < size else b"")
    text = log_files.Piece(start, whole, dropped if whole else 0).text
    return LogPiece(text.decode("utf-8", "replace"), start, start + len(whole), size)
