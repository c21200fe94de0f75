"""Data sets in MNIST's format by torchvision's loaders: read from the data folder, or downloaded there once.

Complete downloads are moved into place, so an interrupted one leaves no partial data set.
"""

import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from torch import Tensor
from torchvision.datasets import MNIST

from engine.data import catalogue
from engine.data.sets.images import PixelSet, mean_and_deviation
from engine.errors import DataError
from engine.home import GIVEN, PRIVATE, Home, make_folder, set_mode

SILENCE_S = 30.0
"""Seconds without data from a server before the download fails."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """The source of one data set, and its normalization."""

    name: str
    """Title in the catalogue."""
    loader: type[MNIST]
    """Torchvision's class; its name is the subfolder of the data folder."""
    packed_mb: float
    """Total size of the four compressed files."""
    normalization: tuple[float, float] | None = None
    """Fixed mean and deviation; otherwise computed from the training part."""

    @property
    def title(self) -> str:
        return catalogue.data_set(self.name).title

    def folder(self, home: Home) -> Path:
        """Return the folder of the four files."""
        return home.data / self.loader.__name__ / "raw"

    def read(self, home: Home) -> PixelSet:
        """Return the data set; raises DataError if it is damaged, or missing and can't be downloaded."""
        if catalogue.state(self.name, home) == "missing":
            _download(self, home)
        _check_sizes(self, home)
        (train, train_labels), (test, test_labels) = _parts(self, home)
        return PixelSet(
            self.name, train, train_labels, test, test_labels, *(self.normalization or mean_and_deviation(train))
        )


def _parts(source: Source, home: Home) -> list[tuple[Tensor, Tensor]]:
    """Return pixels and labels of the training part, then of the test part."""
    title, folder, found = source.title, source.folder(home), catalogue.data_set(source.name)
    try:
        parts = [source.loader(home.data, train=part, download=False) for part in (True, False)]
    except (AssertionError, RuntimeError, OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{title} in {folder} can't be read ({str(error) or type(error).__name__}). Delete that "
            "folder; the next run downloads it again."
        ) from error
    for part, count in zip(parts, (found.train, found.test), strict=True):
        if len(part.targets) != count or not 0 <= int(part.targets.min()) <= int(part.targets.max()) <= 9:
            raise DataError(
                f"{title} in {folder} has labels other than {count:,} digits from 0 to 9. Delete that "
                "folder; the next run downloads it again."
            )
    return [(part.data, part.targets) for part in parts]


def _check_sizes(source: Source, home: Home) -> None:
    sizes = {home.data / path: size for path, size in catalogue.data_set(source.name).files}
    for path in catalogue.damaged_files(source.name, home):
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
            if catalogue.state(source.name, home) == "missing":
                _fetch(source, home)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{source.title} is not in {source.folder(home)} and could not be downloaded there "
            f"({reason}). Put its four files into that folder, set PARALLAB_DATA to the folder that "
            f"holds {source.loader.__name__}/raw, or choose dataset digits, which needs no network."
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
        for path, _ in catalogue.data_set(source.name).files:
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
