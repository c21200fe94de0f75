"""Every data set by name, ready to train on: as raw pixels, and as normalized tensors in shared memory.

Files are read without the packages that ship or download them, scikit-learn and torchvision, which take 1 and 3 s to
import.
"""

import io
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor
from torch.nn.functional import interpolate

from engine.catalogue import FILES, catalogue
from engine.data.added_files import checksum, entries
from engine.data.catalogue import DATA_SETS, damaged_files, data_set, state
from engine.data.stdlib import BYTES, WINDOW, checked, standard_library
from engine.data.tensors import check_room, shared
from engine.errors import DataError
from engine.home import GIVEN, PRIVATE, Home, make_folder, set_mode

log = logging.getLogger(__name__)

CHUNK = 1000
"""Images normalized at a time: few enough that both forms fit in the cache."""


def read(name: str, home: Home | None = None) -> "PixelSet":
    """Return the data set's pixels and labels; raises UnknownName, or DataError if it isn't available."""
    home = home or Home.find()
    built_in = data_set(name, home).name in DATA_SETS
    return _reader(name)(home) if built_in else _added(name, home)


def load(name: str, home: Home | None = None) -> "ImageSet":
    """Return the data set ready to train on, as tensors in shared memory; raises as `read` does."""
    if data_set(name, home).kind == "text":
        return _text(name)
    return shared_images(read(name, home))


def _reader(name: str) -> "Callable[[Home], PixelSet]":
    if name in ("digits", "synthetic"):
        return _digits if name == "digits" else _synthetic
    return SOURCES[name].read


@dataclass(frozen=True)
class PixelSet:
    """Images as pixels 0 to 255 (uint8 [N, 28, 28]) with labels (int64 [N]), and their normalization."""

    name: str
    train_pixels: Tensor
    train_labels: Tensor
    test_pixels: Tensor
    test_labels: Tensor
    mean: float
    """Of the training part, on a scale of 0 to 1."""
    deviation: float
    classes: int = 10


@dataclass(frozen=True)
class ImageSet:
    """Normalized images (float32 [N, 1, 28, 28]) with labels (int64 [N]); or, in their place, windows of text (uint8
    [N, 128]) and the byte after each of their bytes (int64 [N, 128]).

    With one channel, channels-last and the default order are the same in memory, so these tensors are both.
    """

    name: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: int = 10

    @property
    def size(self) -> int:
        """The number of training samples, which is the size of one pass."""
        return len(self.train_labels)

    def to(self, device: torch.device) -> "ImageSet":
        """Return the set in that device's memory; the same object if it is already there."""
        return replace(
            self,
            train_images=self.train_images.to(device),
            train_labels=self.train_labels.to(device),
            test_images=self.test_images.to(device),
            test_labels=self.test_labels.to(device),
        )


def shared_images(pixels: PixelSet) -> ImageSet:
    """Return the set normalized, in shared memory; raises DataError if that is too small."""
    check_room(f"Data set {pixels.name}", 4 * (pixels.train_pixels.numel() + pixels.test_pixels.numel()))
    return ImageSet(
        pixels.name,
        _normalized(pixels.train_pixels, pixels.mean, pixels.deviation),
        shared(pixels.train_labels),
        _normalized(pixels.test_pixels, pixels.mean, pixels.deviation),
        shared(pixels.test_labels),
        pixels.classes,
    )


def mean_and_deviation(pixels: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of pixels on a scale of 0 to 1."""
    scaled = pixels.double().div_(255)
    return float(scaled.mean()), float(scaled.std(correction=0))


def _normalized(pixels: Tensor, mean: float, deviation: float) -> Tensor:
    # Shared while empty and then filled chunk by chunk: half the time of normalizing first and copying afterwards.
    images = shared(torch.empty(len(pixels), 1, *pixels.shape[1:]))
    for source, target in zip(torch.split(pixels, CHUNK), torch.split(images, CHUNK), strict=True):
        torch.div(source.unsqueeze(1), 255, out=target).sub_(mean).div_(deviation)
    return images


# ---- Digits: those included in scikit-learn, real, small, and available without a network --------------------------

SPLIT_SEED = 0
"""Selects the test images; fixed, so that accuracies of different runs use the same ones."""
INK = 16
"""Maximum pixel value in the source."""


def _digits(home: Home) -> PixelSet:
    """Return the digits, split into 1,437 to train and 360 to test, stratified by digit; raises DataError without
    scikit-learn.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError(
            "Data set digits is part of scikit-learn, which is missing. Install the requirements (make install), or "
            "choose another dataset."
        )
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(file, dtype=np.int64, delimiter=",")  # 64 pixels and the digit
    train, test = _stratified(rows[:, -1], DATA_SETS["digits"].test)
    pixels, labels = scaled_digits(torch.from_numpy(rows[:, :-1]).view(-1, 8, 8)), torch.from_numpy(rows[:, -1])
    return PixelSet(
        "digits", pixels[train], labels[train], pixels[test], labels[test], *mean_and_deviation(pixels[train])
    )


def _stratified(labels: np.ndarray[Any, Any], tested: int) -> tuple[Tensor, Tensor]:
    """Return the samples to train on and to test, as scikit-learn's `train_test_split` draws them from SPLIT_SEED."""
    random = np.random.RandomState(SPLIT_SEED)
    counts = np.bincount(labels)
    exact = counts * (1 - tested / len(labels))
    kept = np.floor(exact).astype(int)
    for remainder in np.unique(exact - kept)[::-1]:  # the largest remainders get one more, ties by lot
        tied = np.flatnonzero(exact - np.floor(exact) == remainder)
        left = len(labels) - tested - int(kept.sum())
        if left:
            kept[random.choice(tied, min(len(tied), left), replace=False)] += 1
    shuffled = [np.flatnonzero(labels == label)[random.permutation(count)] for label, count in enumerate(counts)]
    train = np.concatenate([each[:count] for each, count in zip(shuffled, kept, strict=True)])
    test = np.concatenate([each[count:] for each, count in zip(shuffled, kept, strict=True)])
    return torch.from_numpy(random.permutation(train)), torch.from_numpy(random.permutation(test))


def scaled_digits(images: Tensor) -> Tensor:
    """Return images [N, 8, 8] of 0 to 16 as pixels [N, 28, 28] of 0 to 255, bilinearly interpolated."""
    larger = interpolate(images.float().unsqueeze(1) * (255 / INK), size=(28, 28), mode="bilinear", align_corners=False)
    return larger.squeeze(1).round().to(torch.uint8)


# ---- Synthetic: random images with random labels, for timing only --------------------------------------------------

SYNTHETIC_SEED = 0
"""Fixed: every run gets the same images, whatever its seed."""


def _synthetic(home: Home) -> PixelSet:
    """Return the random images, the same on each call."""
    random = torch.Generator().manual_seed(SYNTHETIC_SEED)
    counts = DATA_SETS["synthetic"].train, DATA_SETS["synthetic"].test
    train, test = (torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=random) for count in counts)
    train_labels, test_labels = (torch.randint(0, 10, (count,), generator=random) for count in counts)
    return PixelSet("synthetic", train, train_labels, test, test_labels, *mean_and_deviation(train))


# ---- Text: windows of the standard library's sources, evenly spaced over all of them -------------------------------


def _text(name: str) -> ImageSet:
    """Return windows of the sources; raises DataError if there are too few."""
    found, text = data_set(name), standard_library()
    parts = (
        _windows(checked(found.title, part, count), count)
        for part, count in ((text.train, found.train), (text.test, found.test))
    )
    return ImageSet(name, *next(parts), *next(parts), classes=BYTES)


def _windows(text: bytes, count: int) -> tuple[Tensor, Tensor]:
    """Return that many windows [count, 128] and the bytes that follow each of their bytes."""
    first = torch.arange(count) * ((len(text) - 1) // count)
    cut = torch.from_numpy(np.frombuffer(text, np.uint8).copy())[first.unsqueeze(1) + torch.arange(WINDOW + 1)]
    return shared(cut[:, :-1].contiguous()), shared(cut[:, 1:].long().contiguous())


# ---- Data sets added by an admin: four files in MNIST's format, checked again before a run uses them ---------------

IMAGES_HEAD, LABELS_HEAD = 16, 8


def _added(name: str, home: Home) -> PixelSet:
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
    train, train_labels, test, test_labels = (_idx_numbers(home.data / listed.folder / file) for file in FILES)
    return PixelSet(name, train, train_labels.long(), test, test_labels.long(), *mean_and_deviation(train))


def _idx_numbers(path: Path) -> Tensor:
    """Return the bytes of a file after its header: uint8 [N, 28, 28] of images, [N] of labels."""
    is_images = "images" in path.name
    found = torch.from_numpy(np.fromfile(path, np.uint8, offset=IMAGES_HEAD if is_images else LABELS_HEAD))
    return found.view(-1, 28, 28) if is_images else found


# ---- MNIST and Fashion-MNIST: read from the data folder, or downloaded there once by torchvision's loaders ---------
# Complete downloads are moved into place, so an interrupted one leaves no partial data set.

SILENCE_S = 30.0
"""Seconds without data from a server before the download fails."""


@dataclass(frozen=True)
class Source:
    """The source of one data set, and its normalization."""

    name: str
    """Title in the catalogue."""
    subfolder: str
    """Of the data folder; the name of torchvision's class."""
    packed_mb: float
    """Total size of the four compressed files."""
    normalization: tuple[float, float] | None = None
    """Fixed mean and deviation; otherwise computed from the training part."""

    @property
    def title(self) -> str:
        return data_set(self.name).title

    @property
    def loader(self) -> Any:
        """Torchvision's class, which takes three seconds to import."""
        from torchvision import datasets

        return getattr(datasets, self.subfolder)

    def folder(self, home: Home) -> Path:
        """Return the folder of the four files."""
        return home.data / self.subfolder / "raw"

    def read(self, home: Home) -> PixelSet:
        """Return the data set; raises DataError if it is damaged, or missing and can't be downloaded."""
        if state(self.name, home) == "missing":
            _download(self, home)
        _check_sizes(self, home)
        (train, train_labels), (test, test_labels) = _parts(self, home)
        return PixelSet(
            self.name, train, train_labels, test, test_labels, *(self.normalization or mean_and_deviation(train))
        )


def _parts(source: Source, home: Home) -> list[tuple[Tensor, Tensor]]:
    """Return pixels and labels of the training part, then of the test part."""
    folder, found, parts = source.folder(home), data_set(source.name), []
    cure = "Delete that folder; the next run downloads it again."
    for count, files in ((found.train, FILES[:2]), (found.test, FILES[2:])):
        try:
            right = all(entries(folder / file) == count for file in files)
        except DataError as error:
            raise DataError(f"{source.title} in {folder} can't be read ({error}) {cure}") from error
        pixels, labels = (_idx_numbers(folder / file) for file in files)
        if not right or int(labels.max()) > 9:
            raise DataError(f"{source.title} in {folder} has labels other than {count:,} digits from 0 to 9. {cure}")
        parts.append((pixels, labels.long()))
    return parts


def _check_sizes(source: Source, home: Home) -> None:
    sizes = {home.data / path: size for path, size in data_set(source.name).files}
    for path in damaged_files(source.name, home):
        raise DataError(
            f"{path} is damaged: it has {path.stat().st_size:,} bytes instead of {sizes[path]:,}. "
            f"Delete it (the next run downloads {source.title} again), set PARALLAB_DATA to another "
            "folder, or choose dataset digits, which needs no network."
        )


def _download(source: Source, home: Home) -> None:
    """Download the set into the data folder; a second process waits for the first."""
    try:
        make_folder(home.data, _mask(home))
        with FileLock(home.data / f".{source.name}.lock", mode=0o666 & ~_mask(home)):
            if state(source.name, home) == "missing":
                _fetch(source, home)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{source.title} is not in {source.folder(home)} and could not be downloaded there "
            f"({reason}). Put its four files into that folder, set PARALLAB_DATA to the folder that "
            f"holds {source.subfolder}/raw, or choose dataset digits, which needs no network."
        ) from error


def _mask(home: Home) -> int:
    """Return the umask for a data set: the user's own if `PARALLAB_DATA` names a shared folder, a private one in the
    home.
    """
    return PRIVATE if home.data.is_relative_to(home.path) else GIVEN


def _fetch(source: Source, home: Home) -> None:
    log.info("%s is not in %s: downloading it from %s", source.title, source.folder(home), source.loader.mirrors[0])
    with (
        TemporaryDirectory(prefix=f".{source.name}-", dir=home.data) as folder,
        _silence_ends_it(),
        redirect_stderr(_ProgressLog(source, Path(folder))),
    ):
        source.loader(folder, download=True)
        make_folder(source.folder(home), _mask(home))
        for path, _ in data_set(source.name).files:
            set_mode(Path(folder) / path, _mask(home))
            (Path(folder) / path).replace(home.data / path)
    log.info("%s is complete in %s", source.title, source.folder(home))


@contextmanager
def _silence_ends_it() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


class _ProgressLog(io.StringIO):
    """Replaces the loader's progress bar by log lines, at most one per second."""

    def __init__(self, source: Source, folder: Path) -> None:
        super().__init__()
        self._source = source
        self._folder = folder
        self._next_at = 0.0

    def write(self, text: str) -> int:
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + 1.0
            arrived = sum(file.stat().st_size for file in self._folder.rglob("*.gz")) / 1e6
            log.info("Downloading %s: %.1f of %.1f MB", self._source.title, arrived, self._source.packed_mb)
        return len(text)


SOURCES = {
    "mnist": Source(
        "mnist", "MNIST", packed_mb=11.6, normalization=(0.1307, 0.3081)
    ),  # as the published codes normalize
    "fashion_mnist": Source("fashion_mnist", "FashionMNIST", packed_mb=30.9),
}
