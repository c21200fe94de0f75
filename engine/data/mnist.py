"""MNIST by torchvision's loader: found in the data folder, or downloaded there once.

What arrives is moved into place whole, so an interrupted download leaves nothing that looks like data.
"""

import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from torchvision.datasets import MNIST

from engine.data import catalogue
from engine.data.images import PixelSet
from engine.errors import DataError
from engine.home import Home

MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's training part, as the published codes have them."""
DOWNLOAD_MB = 11.6
"""What its four packed files come to."""
SILENCE_S = 30.0
"""So long a server may say nothing before the download is given up."""

log = logging.getLogger(__name__)


def read(home: Home) -> PixelSet:
    """Return MNIST; raises DataError where it is damaged, or missing and can't be downloaded."""
    if catalogue.state("mnist", home) == "missing":
        _download(home)
    _check_sizes(home)
    try:
        train, test = (MNIST(home.data, train=part, download=False) for part in (True, False))
    except (AssertionError, RuntimeError, OSError, ValueError, KeyError) as error:
        raise DataError(
            f"MNIST in {_folder(home)} can't be read ({str(error) or type(error).__name__}). Delete that folder; the next run downloads it anew."
        ) from error
    for labels, count in ((train.targets, 60_000), (test.targets, 10_000)):
        if len(labels) != count or not 0 <= int(labels.min()) <= int(labels.max()) <= 9:
            raise DataError(f"MNIST in {_folder(home)} has labels other than {count:,} digits from 0 to 9. Delete that folder; the next run downloads it anew.")
    return PixelSet("mnist", train.data, train.targets, test.data, test.targets, MEAN, DEVIATION)


def _folder(home: Home) -> Path:
    return home.data / "MNIST" / "raw"


def _check_sizes(home: Home) -> None:
    sizes = {home.data / path: size for path, size in catalogue.data_set("mnist").files}
    for path in catalogue.damaged_files("mnist", home):
        raise DataError(
            f"{path} is damaged: it has {path.stat().st_size:,} bytes instead of {sizes[path]:,}. "
            "Delete it (the next run downloads MNIST anew), name another folder by PARALLAB_DATA, or choose dataset digits, which needs no network."
        )


def _download(home: Home) -> None:
    """Bring MNIST into the data folder; a second process waits for the first and finds it there."""
    try:
        home.data.mkdir(parents=True, exist_ok=True)
        with FileLock(home.data / ".mnist.lock"):
            if catalogue.state("mnist", home) == "missing":
                _fetch(home)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"MNIST is not in {_folder(home)} and could not be downloaded there ({reason}). Put its four files into that folder, "
            "name the folder that holds MNIST/raw by PARALLAB_DATA, or choose dataset digits, which needs no network."
        ) from error


def _fetch(home: Home) -> None:
    log.info("MNIST is not in %s: downloading it from %s", _folder(home), MNIST.mirrors[0])
    with TemporaryDirectory(prefix=".mnist-", dir=home.data) as folder, _silence_ends_it(), redirect_stderr(_ProgressLog(Path(folder))):
        MNIST(folder, download=True)
        _folder(home).mkdir(parents=True, exist_ok=True)
        for path, _ in catalogue.data_set("mnist").files:
            (Path(folder) / path).replace(home.data / path)
    log.info("MNIST is complete in %s", _folder(home))


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

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._next_at = 0.0

    def write(self, text: str) -> int:
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + 1.0
            log.info("Downloading MNIST: %.1f of %.1f MB", sum(file.stat().st_size for file in self._folder.rglob("*.gz")) / 1e6, DOWNLOAD_MB)
        return len(text)
