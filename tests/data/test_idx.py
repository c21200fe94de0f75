"""MNIST and Fashion-MNIST that are missing, damaged or come over a network: a real server on loopback, real files."""

import gzip
import hashlib
import re
import struct
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine.data.catalogue import at_hand, data_set
from engine.data.sets import read
from engine.errors import DataError
from engine.home import Home

HEADS = {
    "train-images-idx3-ubyte": struct.pack(">4i", 2051, 60_000, 28, 28),
    "train-labels-idx1-ubyte": struct.pack(">2i", 2049, 60_000),
    "t10k-images-idx3-ubyte": struct.pack(">4i", 2051, 10_000, 28, 28),
    "t10k-labels-idx1-ubyte": struct.pack(">2i", 2049, 10_000),
}
"""Each file's first bytes, the same for both sets; all else in it repeats a byte or two here, which makes it small to
send.
"""
SIZES = {Path(path).name: size for path, size in data_set("mnist").files}
GREY = b"\x00\x66"
"""What training images are filled with: half of their pixels 0, half 0.4 of white."""
LOADERS = {"mnist": "torchvision.datasets.MNIST", "fashion_mnist": "torchvision.datasets.FashionMNIST"}
PACKED_MB = {"mnist": "11.6", "fashion_mnist": "30.9"}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing when the loader hangs up in the middle of a file."""


@pytest.fixture(autouse=True)
def _data_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAB_DATA", raising=False)


@pytest.fixture(params=LOADERS)
def name(request: pytest.FixtureRequest) -> str:
    """Name a data set; a test that does not ask for it works on both at once or on MNIST."""
    return str(request.param)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for loader in LOADERS.values():
        monkeypatch.setattr(f"{loader}.mirrors", ["http://127.0.0.1:9/"])  # the discard port: nobody listens


@cache
def packed(file: str) -> bytes:
    """Return one of the four files, dull, as it is sent."""
    fill = GREY if file.startswith("train-images") else b"\0\0"
    return gzip.compress((HEADS[file] + fill * (SIZES[file] // 2))[: SIZES[file]], compresslevel=1)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Path]:
    """Serve dull images in MNIST's format from a folder, and make torchvision's loader ask there."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    resources = []
    for file in HEADS:
        (folder / f"{file}.gz").write_bytes(packed(file))
        resources.append((f"{file}.gz", hashlib.md5(packed(file), usedforsecurity=False).hexdigest()))
    with QuietServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(f"{LOADERS[name]}.mirrors", [f"http://127.0.0.1:{server.server_port}/"])
        monkeypatch.setattr(f"{LOADERS[name]}.resources", resources)
        yield folder
        server.shutdown()
        thread.join()


@pytest.fixture
def blank(home: Home) -> Callable[..., Path]:
    """Return what lays one of MNIST's files, blank but for its head, and others as they should be."""

    def lay(file: str = "", head: bytes = b"", size: int | None = None, fill: bytes = b"\0") -> Path:
        raw = home.data / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for each, proper in HEADS.items():
            start, length = (head, size or SIZES[each]) if each == file else (proper, SIZES[each])
            (raw / each).write_bytes(start + (fill if each == file else b"\0") * (length - len(start)))
        return raw / file

    return lay


def test_a_download_lands_whole_and_happens_once(home: Home, mirror: Path, name: str, logged: list[str]) -> None:
    pixels = read(name, home)
    assert len(pixels.train_labels) == 60_000
    assert [other for other in LOADERS if at_hand(other, home)] == [name]
    progress = rf"Downloading {data_set(name).title}: \d+\.\d of {re.escape(PACKED_MB[name])} MB"
    assert any(re.fullmatch(progress, line) for line in logged)
    assert not list(home.data.glob(f".{name}-*")), "the download's own folder is left behind"
    for file in mirror.iterdir():
        file.unlink()
    assert len(read(name, home).test_labels) == 10_000
    fixed_or_of_the_training_part = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2, 0.2)}[name]
    assert (pixels.mean, pixels.deviation) == pytest.approx(fixed_or_of_the_training_part, rel=1e-9)


@pytest.mark.parametrize("name", ["fashion_mnist"])
def test_a_download_cut_short_leaves_nothing_that_looks_like_data(home: Home, mirror: Path, name: str) -> None:
    whole = mirror / "t10k-images-idx3-ubyte.gz"
    whole.write_bytes(whole.read_bytes()[:1000])
    with pytest.raises(DataError, match="could not be downloaded"):
        read(name, home)
    assert not list(home.data.rglob("*ubyte*"))


@pytest.mark.usefixtures("no_network")
def test_without_network_the_error_says_three_ways_out(home: Home, name: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, home)
    sentence = str(caught.value)
    assert sentence.startswith(
        f"{data_set(name).title} is not in {home.data / LOADERS[name].rpartition('.')[2] / 'raw'}"
    )
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
    with pytest.raises(
        DataError, match=r"is damaged: it has 47,040,000 bytes instead of 47,040,016\. Delete it"
    ) as caught:
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
