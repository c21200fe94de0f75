"""Random images with random labels, for timing only."""

import torch

from engine.data.catalogue import DATA_SETS
from engine.data.sets.images import PixelSet, mean_and_deviation
from engine.home import Home

SEED = 0
"""Fixed: every run gets the same images, whatever its seed."""


def read(home: Home) -> PixelSet:
    """Return the random images, the same on each call."""
    random = torch.Generator().manual_seed(SEED)
    counts = DATA_SETS["synthetic"].train, DATA_SETS["synthetic"].test
    train, test = (torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=random) for count in counts)
    train_labels, test_labels = (torch.randint(0, 10, (count,), generator=random) for count in counts)
    return PixelSet("synthetic", train, train_labels, test, test_labels, *mean_and_deviation(train))
