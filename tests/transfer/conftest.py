"""Two labs: one that exports, with runs of every kind of rows, and one that imports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from engine.recorder import Span
from engine.store import RankBatch, Reader, Store
from engine.transfer.bundles.bundle import write_bundle
from tests.labs import basic


@pytest.fixture
def theirs(tmp_path: Path) -> Home:
    """Give a lab with ended runs, one of them with all that a run can have."""
    home = Home(tmp_path / "theirs").create()
    ids = basic.filled(home)
    with Store.open(home) as store:
        store.annotations.tag([ids["finished"]], "=cmd", by="Ada")
        store.annotations.set_note(ids["finished"], "the one to keep", by="Ada")
        child = basic.add(store, "Ada")
        basic.drive(store, home, child, "running")
        batch = RankBatch(0, spans=[Span("forward", 0, 1, 10, 20, 30, "trainer2")], histograms={("staleness", 2): 7})
        store.worker.write(child, [batch])
        store.claims.end(child, "finished", "It finished.", execution_time_s=3.5)
    return home


@pytest.fixture
def bundle(theirs: Home, tmp_path: Path) -> Path:
    """Give a bundle of its five ended runs."""
    path = tmp_path / "runs.zip"
    with Reader.open(theirs) as reader:
        write_bundle(reader, [1, 2, 3, 4, 9], path, by="Ada")
    return path


@pytest.fixture
def ours(home: Home) -> Iterator[Store]:
    """Give the store of another lab, which has runs of its own."""
    with Store.open(home) as store:
        basic.add(store, "Lin")
        yield store
