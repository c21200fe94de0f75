"""A folder of files in MNIST's format as an admin adds it: looked at whole, so that no run meets a surprise.
Torch-free.
"""

from pathlib import Path

import numpy as np

from engine.catalogue import FILES, Listed, Lying
from engine.data.checksums import checksum
from engine.errors import DataError
from engine.home import Home

SIDE, CLASSES = 28, 10
MOST_IMAGES = 1_000_000
"""Of one part; as normalized tensors they take 3 KB each."""
HEADS = {"images": (0x803, 16), "labels": (0x801, 8)}
"""The magic number of each kind of file, and how long its head is."""


def look_at(home: Home, folder: str, title: str) -> Listed:
    """Return what lies in a folder below the data folder; raises DataError where that is no data set that can be
    trained on.
    """
    place = home.data / folder
    if not place.resolve().is_relative_to(home.data.resolve()):
        raise DataError(
            f"{place} leads out of the data folder {home.data}. Copy the files there; links to elsewhere are "
            "not followed."
        )
    counts = {}
    for name in FILES:
        counts[name] = _count(place / name)
    for images, labels in (FILES[:2], FILES[2:]):
        if counts[images] != counts[labels]:
            raise DataError(
                f"{place} has {counts[images]:,} images in {images} and {counts[labels]:,} labels in {labels}. "
                "They must be as many."
            )
        _look_at_labels(place / labels)
    files = {name: Lying(bytes=(place / name).stat().st_size, sha256=checksum(place / name, home)) for name in FILES}
    return Listed.model_validate(
        {"folder": folder, "title": title, "train": counts[FILES[0]], "test": counts[FILES[2]], "files": files}
    )


def _count(path: Path) -> int:
    """Return how many images or labels a file has, from its head, its size held against it."""
    if not path.is_file():
        raise DataError(
            f"{path} is not there. A data set is a folder with the four files {', '.join(FILES)}, unpacked."
        )
    magic, head = HEADS["images" if "images" in path.name else "labels"]
    with path.open("rb") as file:
        numbers = np.frombuffer(file.read(head), ">u4")
    size = path.stat().st_size
    if len(numbers) < head // 4 or numbers[0] != magic:
        raise DataError(
            f"{path} is no file of {'images' if head == 16 else 'labels'} in MNIST's format (it does not begin "
            f"with {magic:#010x}); is it packed?"
        )
    count, *sides = map(int, numbers[1:])
    if sides and sides != [SIDE, SIDE]:
        raise DataError(
            f"{path} has images of {sides[0]:,}x{sides[1]:,} pixels; the nets here take {SIDE}x{SIDE}. Scale "
            "them first."
        )
    if not 1 <= count <= MOST_IMAGES:
        raise DataError(f"{path} says that it has {count:,} entries; 1 to {MOST_IMAGES:,} are possible.")
    if size != head + count * (SIDE * SIDE if sides else 1):
        raise DataError(f"{path} has {size:,} bytes, which are not those of {count:,} entries. Copy it again.")
    return count


def _look_at_labels(path: Path) -> None:
    found = np.unique(np.fromfile(path, np.uint8, offset=8))
    if found[-1] >= CLASSES or len(found) < 2:
        raise DataError(
            f"{path} has labels from {found[0]} to {found[-1]}; the nets here tell {CLASSES} classes apart, 0 "
            f"to {CLASSES - 1}, and need two."
        )
