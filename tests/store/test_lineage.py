"""A resumed run has its parent's curves up to the checkpoint, once, as if it had recorded them itself."""

import math
from collections.abc import Callable

import pytest

from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.records import RESUMED, RESUMES, Series

Running = Callable[..., int]
METRICS = ["train/loss", "test/accuracy", "perf/staleness", "perf/samples_per_second"]


@pytest.fixture
def parent(store: Store, running: Running) -> int:
    """A cancelled run of two ranks, a step a second to step 20, with a NaN, counts of the whole run, and what stands only at an end."""
    run_id = running()
    for part in (range(1, 11), range(11, 21)):
        losses = {rank: [Point("train/loss", n, math.nan if n == 3 else 5.0 / n + rank, float(n), n / 4) for n in part] for rank in (1, 2)}
        pushes = {rank: [Point("perf/staleness", n, float(n % 3), float(n), n / 4) for n in part] for rank in (1, 2)}
        batches = [RankBatch(rank, [*losses[rank], *pushes[rank]], histograms={("staleness", n % 3): 5 for n in part}, last_step=20) for rank in (1, 2)]
        store.write(run_id, batches, run_points=[Point("perf/samples_per_second", part[-1] * 64, 64.0, float(part[-1]))])
    store.write(run_id, [RankBatch(1, [Point("test/accuracy", 20, 97.0, 20.0)])], run_points=[Point("perf/execution_time_s", 1280, 20.0, 20.0)])
    store.request_cancel(run_id, by="ada")
    store.end(run_id, "cancelled", "Cancelled by ada.")
    return run_id


def recorded(reader: Reader, run_id: int) -> dict[tuple[str, int | None], list[tuple[int, float, float | None, str]]]:
    """Return each curve's points, the values as texts, in which a NaN equals a NaN."""
    return {(one.metric, one.rank): list(zip(one.steps, one.times_s, one.passes, map(repr, one.values), strict=True)) for one in reader.series(run_id, METRICS)}


def test_points_up_to_the_checkpoint_are_taken_over_and_no_others(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id = running(parent_id=parent)
    assert store.go_on_from_parent(run_id, step=12, time_s=15.0)
    known, copied = recorded(reader, parent), recorded(reader, run_id)
    for rank in (1, 2):
        for metric in ("train/loss", "perf/staleness"):
            assert copied[metric, rank] == known[metric, rank][:12]
    assert copied["perf/samples_per_second", None] == [(640, 10.0, None, "64.0")], "steps of the whole run are samples: its time decides"
    assert {metric for metric, _ in copied} == {"train/loss", "perf/staleness", "perf/samples_per_second"}
    assert "perf/execution_time_s" not in {summary.metric for summary in reader.summaries(run_id)}
    early = running(parent_id=parent)
    store.go_on_from_parent(early, step=12, time_s=4.5)
    assert recorded(reader, early)["train/loss", 1] == known["train/loss", 1][:4]


def test_summaries_are_those_of_a_run_that_recorded_the_same_points(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id, other = running(parent_id=parent), running()
    store.go_on_from_parent(run_id, step=12, time_s=12.0)
    same = [RankBatch(one.rank, [Point(one.metric, *point) for point in points(one)]) for one in reader.series(run_id, METRICS) if one.rank is not None]
    store.write(other, same)
    ours, theirs = ([summary for summary in reader.summaries(one) if summary.rank is not None] for one in (run_id, other))
    assert [vars(summary) | {"mean": None} for summary in ours] == [vars(summary) | {"mean": None} for summary in theirs]
    assert [summary.mean for summary in ours] == pytest.approx([summary.mean for summary in theirs])
    assert reader.histograms(run_id) == {(rank, "staleness"): {0: 4, 1: 4, 2: 4} for rank in (1, 2)}


def points(one: Series) -> list[tuple[int, float, float]]:
    return list(zip(one.steps, one.values, one.times_s, strict=True))


def test_new_points_follow_the_old_ones(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id = running(parent_id=parent)
    store.go_on_from_parent(run_id, step=12, time_s=12.0)
    last = max(one.ids[-1] for one in reader.series(run_id, METRICS))
    store.write(run_id, [RankBatch(1, [Point("train/loss", 13, 0.25, 12.5)]), RankBatch(3, [Point("train/loss", 1, 9.0, 12.5)])])
    (loss,) = (one for one in reader.series(run_id, ["train/loss"]) if one.rank == 1)
    assert (loss.steps, loss.total) == (list(range(1, 14)), 13)
    new = {one.rank: one.steps for one in reader.series(run_id, ["train/loss"], after_id=last)}
    assert new == {1: [13], 2: [], 3: [1]}
    summary = next(found for found in reader.summaries(run_id) if (found.metric, found.rank) == ("train/loss", 1))
    assert (summary.count, summary.nonfinite, summary.last, summary.last_step, summary.low) == (12, 1, 0.25, 13, 0.25)


def test_taking_over_twice_changes_nothing(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id = running(parent_id=parent)
    assert store.go_on_from_parent(run_id, step=12, time_s=12.0)
    before = (reader.token(), recorded(reader, run_id), reader.summaries(run_id), reader.histograms(run_id), reader.events(run_id))
    assert not store.go_on_from_parent(run_id, step=20, time_s=20.0)
    assert (reader.token(), recorded(reader, run_id), reader.summaries(run_id), reader.histograms(run_id), reader.events(run_id)) == before


def test_a_run_without_a_parent_takes_nothing_over(store: Store, reader: Reader, running: Running) -> None:
    run_id = running()
    before = reader.token()
    assert not store.go_on_from_parent(run_id, step=12, time_s=12.0)
    assert reader.token() == before


def test_a_resumed_run_can_be_resumed(store: Store, reader: Reader, running: Running, parent: int) -> None:
    child = running(parent_id=parent)
    store.go_on_from_parent(child, step=12, time_s=12.0)
    store.write(child, [RankBatch(1, [Point("train/loss", n, 0.5, float(n)) for n in (13, 14)])])
    grandchild = running(parent_id=child)
    store.go_on_from_parent(grandchild, step=13, time_s=13.0)
    assert recorded(reader, grandchild)["train/loss", 1] == recorded(reader, child)["train/loss", 1][:13]


def test_both_runs_say_what_became_of_them(store: Store, reader: Reader, running: Running, parent: int) -> None:
    before = reader.token(parent)
    run_id = running(parent_id=parent, owner="bea")
    assert reader.token(parent) > before, "its page has news"
    store.go_on_from_parent(run_id, step=1200, time_s=12.0)
    assert (reader.run(run_id).time_before_s, reader.run(parent).time_before_s) == (12.0, 0.0)
    of_parent, of_child = reader.events(parent)[-1], reader.events(run_id)[-1]
    assert (of_parent.kind, of_parent.who, of_parent.detail) == (RESUMED, "bea", f"as run {run_id}")
    assert (of_child.kind, of_child.who, of_child.detail) == (RESUMES, "worker", f"run {parent} at step 1,200")
    assert (reader.resumed_as(parent), reader.resumed_as(run_id), reader.run(run_id).parent_id) == ([run_id], [], parent)


def test_the_time_left_counts_what_the_parent_took(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id = running(parent_id=parent)
    store.go_on_from_parent(run_id, step=12, time_s=3_000.0)
    store.write(run_id, [], progress=(75, 100, "samples"))
    left = reader.entry(run_id).time_left_s
    assert left is not None
    assert 1_000.0 <= left < 1_100.0
