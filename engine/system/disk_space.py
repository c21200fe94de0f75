"""Free disk space: the home's disk, the store with its write-ahead log, the data sets' folder. Torch-free."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.home import Home


@dataclass(frozen=True)
class Storage:
    """Sizes in bytes."""

    disk_free: int
    disk_total: int
    store: int
    write_ahead_log: int
    data_free: int
    """Free on the disk of the data sets' folder."""
    has_data: bool
    """Whether that folder exists."""


def storage(home: Home) -> Storage:
    """Measure disk space; missing folders count as empty, on the disk of the nearest parent."""
    here, there = shutil.disk_usage(_nearest(home.path)), shutil.disk_usage(_nearest(home.data))
    log = home.database.with_name(f"{home.database.name}-wal")
    return Storage(here.free, here.total, _size(home.database), _size(log), there.free, home.data.is_dir())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _nearest(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
