"""Data sets added by an admin: four files in MNIST's format, checked again before a run uses them."""

import numpy as np
import torch
from torch import Tensor

from engine.catalogue import FILES, catalogue
from engine.data.added_files import checksum
from engine.data.catalogue import data_set
from engine.data.sets.images import PixelSet, mean_and_deviation
from engine.errors import DataError
from engine.home import Home

IMAGES_HEAD, LABELS_HEAD = 16, 8


def read(name: str, home: Home) -> PixelSet:
    """Return the data set; raises DataError if a file is missing or differs from the one that was added, UnknownName if
    it isn't in the catalogue.
    """
    data_set(name, home)
    listed = catalogue(home).datasets[name]
    for file, lying in listed.files.items():
        path = home.data / listed.folder / file
        if not path.is_file():
            raise DataError(
                f"{listed.title} can't be read: {path} doesn't exist. Restore it, ask an admin to "
                f"remove {name} from the catalogue, or choose another dataset."
            )
        if path.stat().st_size != lying.bytes or checksum(path, home) != lying.sha256:
            raise DataError(
                f"{listed.title} can't be read: {path} is not the file that was added. Restore it, or "
                "ask an admin to add the data set again: python -m engine catalogue add-dataset "
                f"{name} --folder {listed.folder}"
            )
    train, train_labels, test, test_labels = (_numbers(home, listed.folder, file) for file in FILES)
    return PixelSet(name, train, train_labels.long(), test, test_labels.long(), *mean_and_deviation(train))


def _numbers(home: Home, folder: str, file: str) -> Tensor:
    """Return the bytes of a file after its header: uint8 [N, 28, 28] of images, [N] of labels."""
    path, is_images = home.data / folder / file, "images" in file
    found = torch.from_numpy(np.fromfile(path, np.uint8, offset=IMAGES_HEAD if is_images else LABELS_HEAD))
    return found.view(-1, 28, 28) if is_images else found
