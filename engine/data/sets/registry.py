"""Every data set by name, ready to train on.

Readers are imported on use: scikit-learn and torchvision take a second each, and a run needs at most one of them.
"""

from importlib import import_module
from typing import Any

from engine.data.catalogue import DATA_SETS, data_set
from engine.data.sets.images import ImageSet, PixelSet, shared_images
from engine.home import Home


def read(name: str, home: Home | None = None) -> PixelSet:
    """Return the data set's pixels and labels; raises UnknownName, or DataError if it isn't available."""
    home = home or Home.find()
    found = (
        _reader(name).read(home)
        if data_set(name, home).name in DATA_SETS
        else import_module("engine.data.sets.added_sets").read(name, home)
    )
    assert isinstance(found, PixelSet)
    return found


def load(name: str, home: Home | None = None) -> ImageSet:
    """Return the data set normalized, as tensors in shared memory; raises as `read` does."""
    return shared_images(read(name, home))


def preload() -> None:
    """Import every reader now, so that no run waits for it later."""
    for name in DATA_SETS:
        _reader(name)


def _reader(name: str) -> Any:
    """Return the module that reads the data set."""
    return import_module(f"engine.data.sets.{name}")
