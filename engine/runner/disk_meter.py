"""The runner's look at what runs take on the disk: those that were written to since the last look, so that limits can
be held without a walk. Torch-free.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from engine.store import Store
from engine.system.log_files import size_on_disk

EVERY_S = 20.0
"""How old what is known of a live run may be."""
AT_ONCE = 100
"""Runs measured in one round, so that a first look at a large home holds nobody up."""


class Usage:
    """Measures runs that changed, at most once in `EVERY_S`, and at once again while there are more."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def look(self, store: Store) -> int:
        """Measure what is due and return how many runs that was."""
        if time.monotonic() < self._next_at:
            return 0
        changed = store.disk.unmeasured(AT_ONCE)
        if changed:
            store.disk.note([(run, folder_bytes(store.db.home.run_folder(run.run_id))) for run in changed])
        if len(changed) < AT_ONCE:
            self._next_at = time.monotonic() + EVERY_S
        return len(changed)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, links not followed; 0 where there is none. What goes meanwhile
    counts no more.
    """
    return sum(_sizes(folder))


def _sizes(folder: str | Path) -> Iterator[int]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _sizes(entry.path)
            continue
        try:
            about = entry.stat(follow_symlinks=False)
            yield size_on_disk(about.st_size, about.st_blocks)
        except FileNotFoundError:
            continue
