"""Facts about every data set as it is trained on: counts, shares, normalization, memory."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.data import tensors as shared_tensors
from engine.data.catalogue import DATA_SETS
from engine.data.sets import ImageSet, load, mean_and_deviation, read
from engine.errors import DataError, UnknownName
from engine.home import Home

BUNDLED = ["digits", "synthetic"]


@pytest.fixture(params=[*BUNDLED, "mnist"])
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "mnist":
        request.getfixturevalue("mnist")
    return str(request.param)


def tensors(data: ImageSet) -> list[Tensor]:
    return [data.train_images, data.train_labels, data.test_images, data.test_labels]


def test_counts_are_those_of_the_catalogue(name: str) -> None:
    data = load(name)
    assert (data.size, len(data.test_labels)) == (DATA_SETS[name].train, DATA_SETS[name].test)
    assert data.train_images.shape == (data.size, 1, 28, 28)
    assert data.test_images.shape == (len(data.test_labels), 1, 28, 28)
    assert data.train_images.dtype == torch.float32
    assert data.train_labels.unique().tolist() == data.test_labels.unique().tolist() == list(range(data.classes))


def test_tensors_lie_in_shared_memory_channels_last(name: str) -> None:
    data = load(name)
    assert all(tensor.is_shared() for tensor in tensors(data))
    assert data.train_images.is_contiguous(memory_format=torch.channels_last)
    assert data.to(torch.device("cpu")).train_images.data_ptr() == data.train_images.data_ptr()


def test_two_loads_give_the_same_images(name: str) -> None:
    assert all(torch.equal(a, b) for a, b in zip(tensors(load(name)), tensors(load(name)), strict=True))


@pytest.mark.parametrize("name", BUNDLED)
def test_normalization_is_that_of_the_training_part(name: str) -> None:
    pixels = read(name)
    assert (pixels.mean, pixels.deviation) == mean_and_deviation(pixels.train_pixels)
    train = load(name).train_images.double()
    assert abs(float(train.mean())) < 1e-5
    assert abs(float(train.std()) - 1) < 1e-4


def test_mnist_is_normalized_as_published(mnist: Path) -> None:
    pixels = read("mnist")
    assert (pixels.mean, pixels.deviation) == (0.1307, 0.3081)
    image = torch.div(pixels.test_pixels[7], 255).sub(0.1307).div(0.3081)
    assert torch.equal(load("mnist").test_images[7, 0], image)


def test_digits_are_split_as_scikit_learn_splits_them() -> None:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from engine.data.sets import scaled_digits

    source = load_digits()
    pixels = read("digits")
    parts = train_test_split(range(1797), test_size=360, random_state=0, stratify=source.target)
    drawings, labels = scaled_digits(torch.from_numpy(source.images)), torch.from_numpy(source.target)
    ours = ((pixels.train_pixels, pixels.train_labels), (pixels.test_pixels, pixels.test_labels))
    for (images, digits), part in zip(ours, parts, strict=True):
        assert torch.equal(images, drawings[part]) and torch.equal(digits, labels[part])


def test_each_digit_has_the_same_share_in_training_and_test() -> None:
    pixels = read("digits")
    train, test = pixels.train_labels.bincount(), pixels.test_labels.bincount()
    wanted = (train + test) * 360 / 1797
    assert float((test - wanted).abs().max()) <= 1


def test_a_scaled_digit_keeps_its_brightness() -> None:
    from sklearn.datasets import load_digits

    from engine.data.sets import scaled_digits

    one = torch.from_numpy(load_digits().images[:1])
    scaled = scaled_digits(one)
    assert scaled.shape == (1, 28, 28)
    assert int(scaled.max()) <= 255
    assert abs(float(scaled.float().mean()) / 255 - float(one.mean()) / 16) < 0.02
    assert scaled_digits(torch.full((1, 8, 8), 16.0)).unique().tolist() == [255]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'digits'"):
        load("digit")


def test_too_little_shared_memory_is_a_sentence_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(64_000_000, 63_000_000, 1_000_000))
    monkeypatch.setattr(shared_tensors, "SHARED_MEMORY", Path(os.devnull).parent)
    with pytest.raises(DataError, match=r"Data set digits needs 6 MB of shared memory, but .* has 1 MB free"):
        load("digits")


def test_data_folder_is_the_homes_own_where_none_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAB_DATA", raising=False)
    assert home.data == home.path / "data"
