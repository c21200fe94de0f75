"""Data sets in MNIST's format by torchvision's loaders: found in the data folder, or downloaded there once.

What arrives is moved into place whole, so an interrupted download leaves nothing that looks like data.
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
from engine.home import Home
from engine.umask import GIVEN, PRIVATE, make_folder, set_mode

SILENCE_S = 30.0
"""So long a server may say nothing before the download is given up."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Where one data set comes from, and what normalizes it."""

    name: str
    """As the catalogue has it."""
    loader: type[MNIST]
    """Torchvision's class; the data folder's part for this set bears its name."""
    packed_mb: float
    """What the four packed files come to."""
    normalization: tuple[float, float] | None = None
    """Mean and deviation, where they are fixed; else the training part's own are taken."""

    @property
    def title(self) -> str:
        return catalogue.data_set(self.name).title

    def folder(self, home: Home) -> Path:
        """Return where the four files lie."""
        return home.data / self.loader.__name__ / "raw"

    def read(self, home: Home) -> PixelSet:
        """Return the data set; raises DataError where it is damaged, or missing and can't be downloaded."""
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
            f"{title} in {folder} can't be read ({str(error) or type(error).__name__}). Delete that folder; "
            "the next run downloads it anew."
        ) from error
    for part, count in zip(parts, (found.train, found.test), strict=True):
        if len(part.targets) != count or not 0 <= int(part.targets.min()) <= int(part.targets.max()) <= 9:
            raise DataError(
                f"{title} in {folder} has labels other than {count:,} digits from 0 to 9. Delete that folder; "
                "the next run downloads it anew."
            )
    return [(part.data, part.targets) for part in parts]


def _check_sizes(source: Source, home: Home) -> None:
    sizes = {home.data / path: size for path, size in catalogue.data_set(source.name).files}
    for path in catalogue.damaged_files(source.name, home):
        raise DataError(
            f"{path} is damaged: it has {path.stat().st_size:,} bytes instead of {sizes[path]:,}. "
            f"Delete it (the next run downloads {source.title} anew), launch with another folder in PARALLAB_DATA, "
            "or choose dataset digits, which needs no network."
        )


def _download(source: Source, home: Home) -> None:
    """Bring the set into the data folder; a second process waits for the first and finds it there."""
    try:
        make_folder(home.data, _mask(home))
        with FileLock(home.data / f".{source.name}.lock", mode=0o666 & ~_mask(home)):
            if catalogue.state(source.name, home) == "missing":
                _fetch(source, home)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{source.title} is not in {source.folder(home)} and could not be downloaded there ({reason}). Put "
            "its four files into that folder, "
            f"launch with the folder that holds {source.loader.__name__}/raw in PARALLAB_DATA, or choose "
            "dataset digits, which needs no network."
        ) from error


def _mask(home: Home) -> int:
    """Return the umask for a data set: the user's own where `PARALLAB_DATA` names a place for others too, a private one
    in the home.
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
    """Stands where the loader writes its progress bar and writes to the log instead, at most a line each second."""

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
