"""Check a folder of files in MNIST's format before an admin adds it, so that it can't fail in a run. Torch-free."""

from pathlib import Path

import numpy as np

from engine.catalogue import FILES, Listed, Lying
from engine.data.checksums import checksum
from engine.errors import DataError
from engine.home import Home

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
        counts[name] = _count(place / name)
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


def _count(path: Path) -> int:
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
