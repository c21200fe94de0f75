"""Disk usage of runs, measured by the runner for changed runs only, so that quotas need no full scan. Torch-free."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from engine.home import Home
from engine.store import Store
from engine.system.log_files import size_on_disk

EVERY_S = 20.0
"""Maximum age of a live run's measurement."""
AT_ONCE = 100
"""Runs to measure per round, so that the first scan of a large home blocks nothing."""


class Usage:
    """Measures changed runs, at most once in `EVERY_S`, and immediately again while more are due."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def look(self, store: Store) -> int:
        """Measure due runs and return their number."""
        if time.monotonic() < self._next_at:
            return 0
        changed = store.disk.unmeasured(AT_ONCE)
        if changed:
            store.disk.note([(run, folder_bytes(store.db.home.run_folder(run.run_id))) for run in changed])
        if len(changed) < AT_ONCE:
            self._next_at = time.monotonic() + EVERY_S
        return len(changed)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, without following links; 0 if it doesn't exist. Ignores files
    deleted meanwhile.
    """
    return sum(_sizes(folder))


def disk_use(home: Home, owners: Mapping[int, str]) -> dict[str, int]:
    """Return the bytes of each owner's run folders, without orphan folders; points in the store are not counted."""
    used: Counter[str] = Counter()
    with suppress(FileNotFoundError), os.scandir(home.run_folder(0).parent) as folders:
        for folder in folders:
            if folder.name.isdecimal() and (owner := owners.get(int(folder.name))) is not None:
                used[owner] += folder_bytes(Path(folder.path))
    return dict(used)


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
