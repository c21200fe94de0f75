"""MNIST that is missing, damaged or comes over a network: a real server on loopback, real files."""

import gzip
import hashlib
import logging
import re
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from torchvision.datasets import MNIST

from engine.data.catalogue import at_hand, data_set
from engine.data.datasets import read
from engine.errors import DataError
from engine.home import Home

HEADS = {
    "train-images-idx3-ubyte": struct.pack(">4i", 2051, 60_000, 28, 28),
    "train-labels-idx1-ubyte": struct.pack(">2i", 2049, 60_000),
    "t10k-images-idx3-ubyte": struct.pack(">4i", 2051, 10_000, 28, 28),
    "t10k-labels-idx1-ubyte": struct.pack(">2i", 2049, 10_000),
}
"""Each file's first bytes; all else in it is zero here, which makes it small to send."""
SIZES = {Path(path).name: size for path, size in data_set("mnist").files}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing when the loader hangs up in the middle of a file."""


@pytest.fixture(autouse=True)
def _data_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAB_DATA", raising=False)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MNIST, "mirrors", ["http://127.0.0.1:9/"])  # the discard port: nobody listens


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve blank images in MNIST's format from a folder, and make torchvision's loader ask there."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    resources = []
    for name, head in HEADS.items():
        packed = gzip.compress(head + bytes(SIZES[name] - len(head)), compresslevel=1)
        (folder / f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed, usedforsecurity=False).hexdigest()))
    with QuietServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(MNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
        monkeypatch.setattr(MNIST, "resources", resources)
        yield folder
        server.shutdown()
        thread.join()


@pytest.fixture
def blank(home: Home) -> Callable[..., Path]:
    """Return what lays one of MNIST's files, blank but for its head, and others as they should be."""

    def lay(name: str = "", head: bytes = b"", size: int | None = None, fill: bytes = b"\0") -> Path:
        raw = home.data / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for each, proper in HEADS.items():
            start, length = (head, size or SIZES[each]) if each == name else (proper, SIZES[each])
            (raw / each).write_bytes(start + (fill if each == name else b"\0") * (length - len(start)))
        return raw / name

    return lay


def test_a_download_lands_whole_and_happens_once(home: Home, mirror: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        pixels = read("mnist", home)
    assert len(pixels.train_labels) == 60_000
    assert at_hand("mnist", home)
    assert any(re.fullmatch(r"Downloading MNIST: \d\.\d of 11\.6 MB", line) for line in caplog.messages)
    assert not list(home.data.glob(".mnist-*")), "the download's own folder is left behind"
    for file in mirror.iterdir():
        file.unlink()
    assert len(read("mnist", home).test_labels) == 10_000


def test_a_download_cut_short_leaves_nothing_that_looks_like_data(home: Home, mirror: Path) -> None:
    whole = mirror / "t10k-images-idx3-ubyte.gz"
    whole.write_bytes(whole.read_bytes()[:1000])
    with pytest.raises(DataError, match="could not be downloaded"):
        read("mnist", home)
    assert not list(home.data.rglob("*ubyte*"))


@pytest.mark.usefixtures("no_network")
def test_without_network_the_error_says_three_ways_out(home: Home) -> None:
    with pytest.raises(DataError) as caught:
        read("mnist", home)
    sentence = str(caught.value)
    assert str(home.data / "MNIST" / "raw") in sentence
    for cure in ("PARALLAB_DATA", "choose dataset digits", "Put its four files"):
        assert cure in sentence
    assert "\n" not in sentence


@pytest.mark.usefixtures("no_network")
def test_a_data_folder_that_is_a_file_is_a_sentence(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.path / "file").touch()
    monkeypatch.setenv("PARALLAB_DATA", str(home.path / "file"))
    with pytest.raises(DataError, match="could not be downloaded there"):
        read("mnist", home)


@pytest.mark.usefixtures("no_network")
def test_a_truncated_file_is_named_with_both_sizes(home: Home, blank: Callable[..., Path]) -> None:
    path = blank("train-images-idx3-ubyte", HEADS["train-images-idx3-ubyte"], size=47_040_000)
    with pytest.raises(DataError, match=r"is damaged: it has 47,040,000 bytes instead of 47,040,016\. Delete it") as caught:
        read("mnist", home)
    assert str(path) in str(caught.value)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("head", [b"nonsense", struct.pack(">2i", 2049, 59_999)], ids=["not idx", "another count"])
def test_a_file_with_another_head_is_refused(home: Home, blank: Callable[..., Path], head: bytes) -> None:
    blank("train-labels-idx1-ubyte", head)
    with pytest.raises(DataError, match=r"MNIST in .* Delete that folder"):
        read("mnist", home)


@pytest.mark.usefixtures("no_network")
def test_labels_past_nine_are_refused(home: Home, blank: Callable[..., Path]) -> None:
    blank("t10k-labels-idx1-ubyte", HEADS["t10k-labels-idx1-ubyte"], fill=b"\x0b")
    with pytest.raises(DataError, match="labels other than 10,000 digits from 0 to 9"):
        read("mnist", home)
