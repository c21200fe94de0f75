"""How much of the disk each person's runs hold in their folders: logs, checkpoints, pictures."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from engine.home import Home
from engine.system.log_files import size_on_disk


def disk_use(home: Home, owners: Mapping[int, str]) -> dict[str, int]:
    """Return the bytes of each owner's folders, without those that no run has or that vanish meanwhile; points in the
    store are not counted.
    """
    used: Counter[str] = Counter()
    with suppress(FileNotFoundError), os.scandir(home.run_folder(0).parent) as folders:
        for folder in folders:
            if folder.name.isdecimal() and (owner := owners.get(int(folder.name))) is not None:
                used[owner] += _size(Path(folder.path))
    return dict(used)


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                about = os.lstat(os.path.join(place, name))  # noqa: PTH118 -- a Path each would cost more than the look
                total += size_on_disk(about.st_size, about.st_blocks)
    return total
