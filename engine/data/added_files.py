"""Files of data sets: their checksums, and the check of a folder before an admin adds it."""

import json
import os
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np

from engine.catalogue import FILES, Listed, Lying
from engine.data.catalogue import data_set
from engine.data.stdlib import standard_library
from engine.errors import DataError
from engine.home import Home

# ------------------------------------------------------------------------------------------------------------------
# SHA-256 of a data set's files, cached by size and time, so that a run records exactly what it was trained on.
# Torch-free.


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
    is incomplete. Text is named as a whole: it differs between versions of Python.
    """
    if data_set(name, home).kind == "text":
        return {name: standard_library().in_words}
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


# ---- Check a folder of files in MNIST's format before an admin adds it, so that it can't fail in a run -------------
# Torch-free.

SIDE, CLASSES = 28, 10
MOST_IMAGES = 1_000_000
"""Per part; as normalized tensors they take 3 KB each."""
HEADS = {"images": (0x803, 16), "labels": (0x801, 8)}
"""The magic number and the header length of each kind of file."""


def look_at(home: Home, folder: str, title: str) -> Listed:
    """Return the data set in a folder below the data folder; raises DataError if it can't be trained on."""
    place = home.data / folder
    if not place.resolve().is_relative_to(home.data.resolve()):
        raise DataError(
            f"{place} is outside the data folder {home.data}. Copy the files there; links to other "
            "places are not followed."
        )
    counts = {}
    for name in FILES:
        counts[name] = entries(place / name)
    for images, labels in (FILES[:2], FILES[2:]):
        if counts[images] != counts[labels]:
            raise DataError(
                f"{place} has {counts[images]:,} images in {images} and {counts[labels]:,} labels in "
                f"{labels}. The counts must match."
            )
        _look_at_labels(place / labels)
    files = {name: Lying(bytes=(place / name).stat().st_size, sha256=checksum(place / name, home)) for name in FILES}
    return Listed.model_validate(
        {"folder": folder, "title": title, "train": counts[FILES[0]], "test": counts[FILES[2]], "files": files}
    )


def entries(path: Path) -> int:
    """Return the number of images or labels in a file's header, checked against its size."""
    if not path.is_file():
        raise DataError(
            f"{path} doesn't exist. A data set is a folder with the four files {', '.join(FILES)}, uncompressed."
        )
    magic, head = HEADS["images" if "images" in path.name else "labels"]
    with path.open("rb") as file:
        numbers = np.frombuffer(file.read(head), ">u4")
    size = path.stat().st_size
    if len(numbers) < head // 4 or numbers[0] != magic:
        raise DataError(
            f"{path} is not a file of {'images' if head == 16 else 'labels'} in MNIST's format (it "
            f"does not begin with {magic:#010x}). If it is compressed, uncompress it."
        )
    count, *sides = map(int, numbers[1:])
    if sides and sides != [SIDE, SIDE]:
        raise DataError(
            f"{path} has images of {sides[0]:,}x{sides[1]:,} pixels; the nets need {SIDE}x{SIDE}. Scale them first."
        )
    if not 1 <= count <= MOST_IMAGES:
        raise DataError(f"{path} declares {count:,} entries; the count must be 1 to {MOST_IMAGES:,}.")
    if size != head + count * (SIDE * SIDE if sides else 1):
        raise DataError(f"{path} has {size:,} bytes, which does not match {count:,} entries. Copy it again.")
    return count


def _look_at_labels(path: Path) -> None:
    found = np.unique(np.fromfile(path, np.uint8, offset=8))
    if found[-1] >= CLASSES or len(found) < 2:
        raise DataError(
            f"{path} has labels from {found[0]} to {found[-1]}; the nets classify {CLASSES} classes, "
            f"0 to {CLASSES - 1}, and need at least two."
        )
