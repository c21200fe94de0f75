"""SHA-256 of a data set's files, cached by size and time, so that a run records exactly what it was trained on.
Torch-free.
"""

import json
import os
from hashlib import file_digest
from pathlib import Path
from typing import Any

from engine.data.catalogue import data_set
from engine.home import Home


def checksum(path: Path, home: Home) -> str:
    """Return a file's SHA-256; raises OSError if it doesn't exist."""
    found = path.stat()
    stamp, key = [found.st_size, found.st_mtime_ns], str(path.resolve())
    known = _cached(home)
    if isinstance(entry := known.get(key), list) and entry[:2] == stamp and isinstance(entry[-1], str):
        return entry[-1]
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    _keep(home, known | {key: [*stamp, digest]})
    return digest


def files_used(name: str, home: Home) -> dict[str, str]:
    """Return size and checksum of each file of a data set, by its path below the data folder; empty if it has none or
    is incomplete.
    """
    found = {}
    for path, _ in data_set(name, home).files:
        file = home.data / path
        if not file.is_file():
            return {}
        found[path] = f"{file.stat().st_size} bytes, SHA-256 {checksum(file, home)}"
    return found


def _cached(home: Home) -> dict[str, Any]:
    """Return the cache; empty if the file is missing or invalid."""
    try:
        found = json.loads(home.checksums.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(home: Home, known: dict[str, Any]) -> None:
    aside = home.create().checksums.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(known) + "\n")
    aside.replace(home.checksums)
