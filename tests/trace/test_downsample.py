"""What is drawn of a trace: never more than the limit, and nothing that takes time disappears."""

import numpy as np
import pytest

from engine.trace.chunk import DTYPE, Entries, TraceChunk
from engine.trace.timeline import KIND, RunTrace
from engine.trace.views import MOST, MOST_ARROWS, arrows, rectangles
from tests.trace_entries import traced


def many(count: int, ranks: int) -> RunTrace:
    """Return a trace in which each rank computes for 8 µs and updates for 2 µs, without a pause."""
    chunks = []
    for rank in range(ranks):
        entries: Entries = np.zeros(count, DTYPE)
        starts = np.arange(count) * 5_000
        entries["entered_ns"] = np.where(np.arange(count) % 2, starts + 3_000, starts)
        entries["left_ns"] = entries["entered_ns"] + np.where(np.arange(count) % 2, 2_000, 8_000)
        entries["kind"] = np.where(np.arange(count) % 2, KIND["update"], KIND["compute"])
        chunks.append(TraceChunk.of(rank, [""], [entries]))
    return RunTrace.of([], chunks, [f"trainer{rank + 1}" for rank in range(ranks)])


@pytest.mark.parametrize("ranks", [1, 2, 8, 40])
def test_a_picture_has_at_most_so_many_rectangles_and_counts_all_operations(ranks: int) -> None:
    trace = many(20_000, ranks)
    whole = rectangles(trace, 0, 20_000 * 5_000)
    assert len(whole) <= MOST and whole.counts.sum() == 20_000 * ranks
    assert set(whole.rows.tolist()) == {2 * rank for rank in range(ranks)}
    assert set(whole.kinds.tolist()) == {KIND["compute"]}, "what takes the most time"
    assert (whole.end_ns > whole.begin_ns).all()


def test_a_zoom_shows_each_operation_by_itself() -> None:
    trace = many(20_000, 2)
    near = rectangles(trace, 1_000_000, 1_050_000)
    assert (near.counts == 1).all() and set(near.kinds.tolist()) == {KIND["compute"], KIND["update"]}
    assert (near.end_ns >= 1_000_000).all() and (near.begin_ns < 1_050_000).all()


def test_a_long_operation_among_many_short_ones_stays_by_itself() -> None:
    short = many(20_000, 1)
    chunk = TraceChunk.of(0, [""], [short.entries.copy(), traced("evaluate", 30_000, 60_000, depth=1)])
    trace = RunTrace.of([], [chunk], ["trainer1"])
    drawn = rectangles(trace, 0, 100_000_000)
    [at] = np.flatnonzero(drawn.kinds == KIND["evaluate"]).tolist()
    assert (drawn.begin_ns[at], drawn.end_ns[at], drawn.counts[at]) == (30_000_000, 60_000_000, 1)
    assert drawn.inner[at]


def test_moments_without_duration_are_not_drawn() -> None:
    trace = RunTrace.of([], [TraceChunk.of(0, [""], [traced("send", 5, 5), traced("compute", 1, 2)])], ["ps"])
    assert rectangles(trace, 0, 10_000).kinds.tolist() == [KIND["compute"]]


def test_too_many_messages_are_counted_but_not_drawn() -> None:
    names, sends, gets = ["send", "receive"], [], []
    for number in range(MOST_ARROWS + 1):
        sends.append(traced("communicate", number * 10, number * 10 + 1, name=0, peer=1, number=number))
        gets.append(traced("communicate", number * 10 + 2, number * 10 + 3, name=1, peer=0, number=number))
    trace = RunTrace.of([], [TraceChunk.of(0, names, sends), TraceChunk.of(1, names, gets)], ["stage1", "stage2"])
    drawn, count = arrows(trace.messages, 0, 10**9)
    assert (len(drawn), count) == (0, MOST_ARROWS + 1)
    drawn, count = arrows(trace.messages, 0, 100_000)
    assert len(drawn) == count == 11
