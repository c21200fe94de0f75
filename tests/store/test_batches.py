"""The spans of a pipeline by batch: which batches a run recorded, and one of them without a look at the rest."""

from collections.abc import Callable

import pytest

from engine.recorder import Span
from engine.store import RankBatch, Reader, Store
from engine.store.reading import _BATCHES, _SPANS


def spans_of(batch: int, splits: int, stage: int, base_ns: int = 0) -> list[Span]:
    """Return a forward and a backward for each micro-batch, and the update, later ones first."""
    first, start = batch * splits, base_ns + batch * 1_000_000
    worked = [
        Span(name, stage, first + number, start + 100 * number + 50 * place, start + 100 * number + 50 * place + 40)
        for number in reversed(range(splits))
        for place, name in enumerate(("forward", "backward"))
    ]
    return [Span("update", stage, first, start + 100_000, start + 100_900), *worked]


@pytest.fixture
def sampled(store: Store, running: Callable[..., int]) -> int:
    """Return a run of two stages and 4 splits that kept batches 0, 1, 7 and 40; of the last only stage 0 has come in."""
    run_id = running()
    for batch in (0, 40, 7, 1):
        store.write(run_id, [RankBatch(stage, spans=spans_of(batch, 4, stage)) for stage in range(1 if batch == 40 else 2)])
    store.write(running(), [RankBatch(0, spans=spans_of(3, 4, 0))])
    return run_id


def test_the_recorded_batches_are_told_in_order(reader: Reader, sampled: int, running: Callable[..., int]) -> None:
    assert reader.recorded_batches(sampled, 4) == [0, 1, 7, 40]
    assert reader.recorded_batches(running(), 4) == []
    assert reader.recorded_batches(sampled, 1)[:6] == [0, 1, 2, 3, 4, 5]


def test_a_batch_is_read_whole_and_alone_in_the_order_of_its_starts(reader: Reader, sampled: int) -> None:
    found = reader.batch_spans(sampled, 7, 4)
    expected = [span for stage in range(2) for span in spans_of(7, 4, stage)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [span.t0_ns for span in found] == sorted(span.t0_ns for span in expected)
    assert reader.batch_spans(sampled, 7, 4, limit=3) == found[:3]
    assert len(reader.batch_spans(sampled, 40, 4)) == 9
    assert reader.batch_spans(sampled, 2, 4) == []


def test_spans_are_there_or_not(reader: Reader, sampled: int, running: Callable[..., int]) -> None:
    assert reader.has_spans(sampled)
    assert not reader.has_spans(running())


def test_both_questions_search_the_index_and_never_go_through_the_table(reader: Reader, sampled: int) -> None:
    one = f"{_SPANS} AND micro_batch >= ? AND micro_batch < ? ORDER BY t0_ns LIMIT ?"
    for sql, values in ((_BATCHES, [sampled, 4]), (one, [sampled, 28, 32, 10])):
        steps = [row["detail"] for row in reader.rows(f"EXPLAIN QUERY PLAN {sql}", values) if " spans " in f"{row['detail']} "]
        assert steps
        assert all(step.startswith("SEARCH spans USING") and "spans_micro_batch (run_id=?" in step for step in steps), steps
