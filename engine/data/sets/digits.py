"""The digits included in scikit-learn: real, small, and available without a network."""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.nn.functional import interpolate

from engine.data.catalogue import DATA_SETS
from engine.data.sets.images import PixelSet, mean_and_deviation
from engine.home import Home

SPLIT_SEED = 0
"""Selects the test images; fixed, so that accuracies of different runs use the same ones."""
INK = 16
"""Maximum pixel value in the source."""


def read(home: Home) -> PixelSet:
    """Return the digits, split into 1,437 to train and 360 to test, stratified by digit."""
    source = load_digits()
    train, test = train_test_split(
        range(len(source.target)), test_size=DATA_SETS["digits"].test, random_state=SPLIT_SEED, stratify=source.target
    )
    pixels, labels = _scaled(torch.from_numpy(source.images)), torch.from_numpy(source.target)
    return PixelSet(
        "digits", pixels[train], labels[train], pixels[test], labels[test], *mean_and_deviation(pixels[train])
    )


def _scaled(images: Tensor) -> Tensor:
    """Return images [N, 8, 8] of 0 to 16 as pixels [N, 28, 28] of 0 to 255, bilinearly interpolated."""
    larger = interpolate(images.float().unsqueeze(1) * (255 / INK), size=(28, 28), mode="bilinear", align_corners=False)
    return larger.squeeze(1).round().to(torch.uint8)
