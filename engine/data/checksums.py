"""SHA-256 of the files of a data set, read through once and kept by size and time: so a run can say exactly what it
learned from. Torch-free.
"""

import json
import os
from hashlib import file_digest
from pathlib import Path
from typing import Any

from engine.data.catalogue import data_set
from engine.home import Home


def checksum(path: Path, home: Home) -> str:
    """Return a file's SHA-256; raises OSError where it is not there."""
    found = path.stat()
    stamp, key = [found.st_size, found.st_mtime_ns], str(path.resolve())
    known = _kept(home)
    if isinstance(entry := known.get(key), list) and entry[:2] == stamp and isinstance(entry[-1], str):
        return entry[-1]
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    _keep(home, known | {key: [*stamp, digest]})
    return digest


def files_used(name: str, home: Home) -> dict[str, str]:
    """Return size and checksum of each file of a data set, by its path below the data folder; empty for one that has
    none, or is not whole.
    """
    found = {}
    for path, _ in data_set(name, home).files:
        file = home.data / path
        if not file.is_file():
            return {}
        found[path] = f"{file.stat().st_size} bytes, SHA-256 {checksum(file, home)}"
    return found


def _kept(home: Home) -> dict[str, Any]:
    """Return what is kept; nothing where the file is not there or not ours: it only saves time."""
    try:
        found = json.loads(home.checksums.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(home: Home, known: dict[str, Any]) -> None:
    aside = home.create().checksums.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(known) + "\n")
    aside.replace(home.checksums)
