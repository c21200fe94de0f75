"""Traces of other stores, which may hold anything: what no store would write is refused, and costs little."""

import json
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.charts.timeline_picture import picture
from engine.errors import ImportRefused, StoreDamaged
from engine.home import Home
from engine.store import Store
from engine.store.imports.bundle_import import MOST_OPERATIONS, MOST_WINDOWS, check_run
from engine.store.records import RankRow
from engine.trace.chunk import MOST_ENTRIES, TraceChunk
from engine.trace.layout import TraceWindow
from engine.trace.timeline import RunTrace
from engine.trace.views import chrome_lines
from tests.labs import basic
from tests.trace_entries import traced

SPOILED: list[tuple[str, dict[str, Any]]] = [
    ("a rank that the run doesn't have", {"rank": 99}),
    ("a negative rank", {"rank": -1}),
    ("a negative count of lost operations", {"lost": -1}),
    ("a lane that doesn't exist", {"entry": {"lane": 200}}),
    ("a time that overflows", {"entry": {"left_ns": 2**63 - 1}}),
    ("a name that is no text", {"names": '["\\ud800"]'}),
    ("a name that is too long", {"names": json.dumps(["x" * 100])}),
    ("more names than a rank has", {"names": json.dumps([str(number) for number in range(70_000)])}),
    ("a window that ends before it begins", {"windows": [(9, 5, "start")]}),
    ("a window whose time overflows", {"windows": [(0, 2**63 - 1, "start")]}),
    ("too many windows", {"windows": [(at, at + 1, "sample") for at in range(MOST_WINDOWS + 1)]}),
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(Home(tmp_path).create()) as opened:
        yield opened


def add(
    store: Store,
    *,
    rank: int = 0,
    lost: int = 0,
    names: str = '["push"]',
    entry: dict[str, int] | None = None,
    windows: Any = ((5, 9, "start"),),
    copies: int = 1,
) -> int:
    """Return a run with one rank and these rows, as a bundle may bring them."""
    run_id = basic.add(store, "ada")
    basic.drive(store, store.db.home, run_id, "running")
    store.worker.add_ranks(run_id, [RankRow(0, "trainer1", 1, "cpu", "done", None, None, None)])
    _, content = TraceChunk(0, ("push",), traced("rpc", 1, 2, **(entry or {}))).packed()
    with store.db.change() as connection:
        connection.executemany("INSERT INTO trace_windows VALUES (?, ?, ?, ?)", [(run_id, *each) for each in windows])
        connection.executemany(
            "INSERT INTO trace_chunks (run_id, rank, entries, lost, names, content) VALUES (?, ?, 1, ?, ?, ?)",
            [(run_id, rank, lost, names, content)] * copies,
        )
    return run_id


def test_a_whole_trace_passes(store: Store) -> None:
    run_id = add(store)
    check_run(store.db.connection, run_id)
    assert picture(store.db.home, run_id, None, None)["operations"] == 1


@pytest.mark.parametrize(("what", "spoiled"), SPOILED, ids=[what for what, _ in SPOILED])
def test_a_trace_that_no_store_would_write_is_refused(store: Store, what: str, spoiled: dict[str, Any]) -> None:
    with pytest.raises(ImportRefused, match="The file is damaged or was edited"):
        check_run(store.db.connection, add(store, **spoiled))


def test_more_operations_than_any_run_stores_are_refused_before_they_are_expanded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = add(store, copies=3)
    with store.db.change() as connection:
        connection.execute("UPDATE trace_chunks SET entries = ?", [MOST_OPERATIONS // 2])
    monkeypatch.setattr(TraceChunk, "unpacked", lambda *_: pytest.fail("it was expanded"))
    with pytest.raises(ImportRefused, match="operations"):
        check_run(store.db.connection, run_id)


def test_a_chunk_with_a_huge_count_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b64encode(zlib.compress(bytes(64 * 4 * MOST_ENTRIES))).decode()
    sizes: list[int] = []
    whole = np.frombuffer

    def counted(data: bytes, *given: Any) -> Any:
        sizes.append(len(data))
        return whole(data, *given)

    monkeypatch.setattr(np, "frombuffer", counted)
    for count in (4 * MOST_ENTRIES, 2**62, 0, -5):
        with pytest.raises(StoreDamaged):
            TraceChunk.unpacked(0, '["push"]', content, count)
    assert max(sizes) <= 64


def test_the_farthest_times_can_be_shown_and_exported(store: Store) -> None:
    late = 2**62 - 1
    run_id = add(store, entry={"entered_ns": late - 5, "left_ns": late}, windows=[(late - 10, late, "start")])
    check_run(store.db.connection, run_id)
    for stretch in ((None, None), (float("-inf"), float("inf")), (-1e300, 1e300), (0.0, 1.0)):
        assert picture(store.db.home, run_id, *stretch)["operations"] == 1
    trace = RunTrace.of(
        [TraceWindow(0, late, "start")],
        [TraceChunk.of(0, ["<img src=x>"], [traced("rpc", 0, 1, peer=300, number=-(2**63), bytes=2**63 - 1)])],
        ["<b>"],
    )
    assert json.loads("".join(chrome_lines(trace, "Run 1")))["traceEvents"][-1]["args"]["bytes"] == 2**63 - 1
