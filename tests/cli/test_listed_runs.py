"""A real run on a data set that an admin added: it learns from those files, writes down which they were, and fails with the cure where one has gone.

The data folder is the one that the command was given, whatever its runner was started with.
"""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from engine.catalogue import FILES
from engine.data.checksums import checksum
from engine.home import Home
from tests.cli.conftest import Parallab

RUN = ("run", "reference", "--preset", "quick", "--set", "dataset=letters", "--set", "epochs=2", "--set", "batch_size=30", "--set", "device=cpu", "--json")


def lay(place: Path) -> None:
    place.mkdir(parents=True)
    draw = np.random.default_rng(3)
    for part, count in (("train", 90), ("t10k", 20)):
        (place / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + draw.integers(0, 256, count * 784, np.uint8).tobytes())
        (place / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + (np.arange(count) % 10).astype(np.uint8).tobytes())


def test_a_run_writes_down_the_files_it_learns_from(home: Home, parallab_process: Parallab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_DATA", str(home.path / "data"))
    lay(home.data / "LETTERS")
    assert parallab_process("catalogue", "add-dataset", "letters", "--folder", "LETTERS").returncode == 0
    ended = json.loads(parallab_process(*RUN, timeout_s=140).stdout.splitlines()[-1])
    assert (ended["status"], ended["config"]["dataset"]) == ("finished", "letters"), ended
    shown = json.loads(parallab_process("show", str(ended["id"]), "--json").stdout)
    first = home.data / "LETTERS" / FILES[0]
    assert shown["environment"]["data_files"][f"LETTERS/{FILES[0]}"] == f"{16 + 90 * 784} bytes, SHA-256 {checksum(first, home)}"
    assert len(shown["environment"]["data_files"]) == 4
    elsewhere = home.path / "elsewhere"
    shutil.copytree(home.data / "LETTERS", elsewhere / "LETTERS")
    (elsewhere / "LETTERS" / FILES[0]).unlink()
    monkeypatch.setenv("PARALLAB_DATA", str(elsewhere))
    gone = parallab_process(*RUN, timeout_s=140)
    assert gone.returncode == 1
    cause = json.loads(gone.stdout.splitlines()[-1])["cause"]
    assert f"{elsewhere / 'LETTERS' / FILES[0]} is not there. Put it back" in cause, "the runner was started with the other folder"
