"""The tutorial variant reads image by image, and sees what the engine variant sees."""

import torch

from engine.data.datasets import load, read
from engine.data.pil_images import PilImages


def test_both_variants_see_the_same_images() -> None:
    pixels, data = read("digits"), load("digits")
    one_by_one = PilImages(pixels.test_pixels, pixels.test_labels, pixels.mean, pixels.deviation)
    assert len(one_by_one) == 360
    images, labels = zip(*(one_by_one[index] for index in range(360)), strict=True)
    assert torch.equal(torch.stack(images), data.test_images)
    assert list(labels) == data.test_labels.tolist()
