"""A resumed run has its parent's curves up to the checkpoint, once, as if it had recorded them itself."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ConfigError, NoSuchRun
from engine.launch_options import LaunchOptions
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.curve_records import Series
from engine.store.records import RESUMED, RESUMES
from engine.store.runs.reader import Kin
from engine.system.checkpoint_state import last_checkpoint, position_of, take_checkpoint
from tests.checkpoints import lay

Running = Callable[..., int]
METRICS = ["train/loss", "test/accuracy", "perf/staleness", "perf/samples_per_second"]


@pytest.fixture
def parent(store: Store, running: Running) -> int:
    """A cancelled run of two ranks, a step a second to step 20, with a NaN, counts of the whole run, and what stands
    only at an end.
    """
    run_id = running()
    for part in (range(1, 11), range(11, 21)):
        losses = {
            rank: [Point("train/loss", n, math.nan if n == 3 else 5.0 / n + rank, float(n), n / 4) for n in part]
            for rank in (1, 2)
        }
        pushes = {rank: [Point("perf/staleness", n, float(n % 3), float(n), n / 4) for n in part] for rank in (1, 2)}
        batches = [
            RankBatch(
                rank, [*losses[rank], *pushes[rank]], histograms={("staleness", n % 3): 5 for n in part}, last_step=20
            )
            for rank in (1, 2)
        ]
        store.worker.write(
            run_id, batches, run_points=[Point("perf/samples_per_second", part[-1] * 64, 64.0, float(part[-1]))]
        )
    store.worker.write(
        run_id,
        [RankBatch(1, [Point("test/accuracy", 20, 97.0, 20.0)])],
        run_points=[Point("perf/execution_time_s", 1280, 20.0, 20.0)],
    )
    store.runs.cancel(run_id, by="ada")
    store.claims.end(run_id, "cancelled", "Cancelled by ada.")
    return run_id


def recorded(reader: Reader, run_id: int) -> dict[tuple[str, int | None], list[tuple[int, float, float | None, str]]]:
    """Return each curve's points, the values as texts, in which a NaN equals a NaN."""
    return {
        (one.metric, one.rank): list(zip(one.steps, one.times_s, one.passes, map(repr, one.values), strict=True))
        for one in reader.curves.series(run_id, METRICS)
    }


def test_a_resumed_run_has_the_points_up_to_the_checkpoint_and_can_be_resumed(
    store: Store, reader: Reader, running: Running, parent: int
) -> None:
    run_id = running(parent_id=parent)
    assert store.worker.go_on_from_parent(run_id, step=12, time_s=15.0)
    known, copied = recorded(reader, parent), recorded(reader, run_id)
    for rank in (1, 2):
        for metric in ("train/loss", "perf/staleness"):
            assert copied[metric, rank] == known[metric, rank][:12]
    assert copied["perf/samples_per_second", None] == [(640, 10.0, None, "64.0")], (
        "steps of the whole run are samples: its time decides"
    )
    assert {metric for metric, _ in copied} == {"train/loss", "perf/staleness", "perf/samples_per_second"}
    assert "perf/execution_time_s" not in {summary.metric for summary in reader.details.summaries(run_id)}
    early = running(parent_id=parent)
    store.worker.go_on_from_parent(early, step=12, time_s=4.5)
    assert recorded(reader, early)["train/loss", 1] == known["train/loss", 1][:4]
    child = running(parent_id=parent)
    store.worker.go_on_from_parent(child, step=12, time_s=12.0)
    store.worker.write(child, [RankBatch(1, [Point("train/loss", n, 0.5, float(n)) for n in (13, 14)])])
    grandchild = running(parent_id=child)
    store.worker.go_on_from_parent(grandchild, step=13, time_s=13.0)
    assert recorded(reader, grandchild)["train/loss", 1] == recorded(reader, child)["train/loss", 1][:13]


def test_summaries_are_those_of_a_run_that_recorded_the_same_points(
    store: Store, reader: Reader, running: Running, parent: int
) -> None:
    run_id, other = running(parent_id=parent), running()
    store.worker.go_on_from_parent(run_id, step=12, time_s=12.0)
    same = [
        RankBatch(one.rank, [Point(one.metric, *point) for point in points(one)])
        for one in reader.curves.series(run_id, METRICS)
        if one.rank is not None
    ]
    store.worker.write(other, same)
    ours, theirs = (
        [summary for summary in reader.details.summaries(one) if summary.rank is not None] for one in (run_id, other)
    )
    assert [vars(summary) | {"mean": None} for summary in ours] == [
        vars(summary) | {"mean": None} for summary in theirs
    ]
    assert [summary.mean for summary in ours] == pytest.approx([summary.mean for summary in theirs])
    assert reader.details.histograms(run_id) == {(rank, "staleness"): {0: 4, 1: 4, 2: 4} for rank in (1, 2)}


def points(one: Series) -> list[tuple[int, float, float]]:
    return list(zip(one.steps, one.values, one.times_s, strict=True))


def test_new_points_follow_the_old_ones(store: Store, reader: Reader, running: Running, parent: int) -> None:
    run_id = running(parent_id=parent)
    store.worker.go_on_from_parent(run_id, step=12, time_s=12.0)
    last = max(one.ids[-1] for one in reader.curves.series(run_id, METRICS))
    store.worker.write(
        run_id, [RankBatch(1, [Point("train/loss", 13, 0.25, 12.5)]), RankBatch(3, [Point("train/loss", 1, 9.0, 12.5)])]
    )
    (loss,) = (one for one in reader.curves.series(run_id, ["train/loss"]) if one.rank == 1)
    assert (loss.steps, loss.total) == (list(range(1, 14)), 13)
    new = {one.rank: one.steps for one in reader.curves.series(run_id, ["train/loss"], after_id=last)}
    assert new == {1: [13], 2: [], 3: [1]}
    summary = next(
        found for found in reader.details.summaries(run_id) if (found.metric, found.rank) == ("train/loss", 1)
    )
    assert (summary.count, summary.nonfinite, summary.last, summary.last_step, summary.low) == (12, 1, 0.25, 13, 0.25)


def test_a_run_is_taken_over_once_and_one_without_a_parent_not_at_all(
    store: Store, reader: Reader, running: Running, parent: int
) -> None:
    run_id = running(parent_id=parent)
    assert store.worker.go_on_from_parent(run_id, step=12, time_s=12.0)
    before = (
        reader.runs.token(),
        recorded(reader, run_id),
        reader.details.summaries(run_id),
        reader.details.histograms(run_id),
        reader.details.events(run_id),
    )
    assert not store.worker.go_on_from_parent(run_id, step=20, time_s=20.0)
    assert (
        reader.runs.token(),
        recorded(reader, run_id),
        reader.details.summaries(run_id),
        reader.details.histograms(run_id),
        reader.details.events(run_id),
    ) == before
    run_id = running()
    before = reader.runs.token()
    assert not store.worker.go_on_from_parent(run_id, step=12, time_s=12.0)
    assert reader.runs.token() == before


def test_both_runs_say_what_became_of_them_and_count_the_time_before(
    store: Store, reader: Reader, running: Running, parent: int
) -> None:
    before = reader.runs.token(parent)
    run_id = running(parent_id=parent, owner="bea")
    assert reader.runs.token(parent) > before, "its page has news"
    store.worker.go_on_from_parent(run_id, step=1200, time_s=12.0)
    assert (reader.runs.one(run_id).time_before_s, reader.runs.one(parent).time_before_s) == (12.0, 0.0)
    of_parent, of_child = reader.details.events(parent)[-1], reader.details.events(run_id)[-1]
    assert (of_parent.kind, of_parent.who, of_parent.detail) == (RESUMED, "bea", f"as run {run_id}")
    assert (of_child.kind, of_child.who, of_child.detail) == (RESUMES, "worker", f"run {parent} at step 1,200")
    assert (reader.runs.resumed_as(parent), reader.runs.resumed_as(run_id), reader.runs.one(run_id).parent_id) == (
        [run_id],
        [],
        parent,
    )
    run_id = running(parent_id=parent)
    store.worker.go_on_from_parent(run_id, step=12, time_s=3_000.0)
    store.worker.write(run_id, [], progress=(75, 100, "samples"))
    left = reader.runs.entry(run_id).time_left_s
    assert left is not None
    assert 1_000.0 <= left < 1_100.0


def test_force_is_noted_once_and_a_queued_run_needs_none(
    store: Store, reader: Reader, running: Running, add: Running
) -> None:
    run_id = running()
    assert store.runs.cancel(run_id, by="ada") == "stopping"
    assert (reader.runs.one(run_id).stop_kind, reader.runs.one(run_id).stop_requested_by) == ("cancel", "ada")
    assert store.runs.cancel(run_id, by="grace", force=True) == "stopping"
    assert (reader.runs.one(run_id).stop_kind, reader.runs.one(run_id).stop_requested_by) == ("force", "grace")
    before = (reader.runs.token(), reader.details.events(run_id))
    assert store.runs.cancel(run_id, by="eve", force=True) == "stopping"
    assert store.runs.cancel(run_id, by="eve") == "stopping"
    assert (reader.runs.token(), reader.details.events(run_id)) == before
    run_id = add()
    assert store.runs.cancel(run_id, by="ada", force=True) == "cancelled"
    assert reader.runs.one(run_id).cause == "Cancelled by ada."


def test_a_time_limit_stops_a_live_run_alone(store: Store, reader: Reader, add: Running, running: Running) -> None:
    queued, live = add(terms=LaunchOptions(max_run_time_s=60)), running(terms=LaunchOptions(max_run_time_s=60))
    assert not store.claims.stop_at_limit(queued)
    assert store.claims.stop_at_limit(live)
    assert not store.claims.stop_at_limit(live)
    run = reader.runs.one(live)
    assert (run.status, run.stop_kind, run.stop_requested_by) == ("stopping", "time limit", "its time limit")
    assert (reader.details.events(live)[-1].kind, reader.details.events(live)[-1].detail) == ("stopping", "60 s")


def test_a_run_that_ended_is_not_lost_after_all(store: Store, reader: Reader, running: Running) -> None:
    run_id = running(terms=LaunchOptions(max_retries=3))
    store.claims.end(run_id, "finished", "Completed successfully")
    assert store.claims.lose(run_id, "gone", resumes=False) is None
    assert (reader.runs.one(run_id).status, reader.runs.count()) == ("finished", 1)
    with pytest.raises(NoSuchRun):
        store.claims.lose(99, "gone", resumes=False)


def test_the_end_and_the_retry_of_a_lost_run_are_one_transaction(
    store: Store, reader: Reader, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = running(terms=LaunchOptions(max_retries=1))
    monkeypatch.setattr(store.claims, "_end", _dies)
    with pytest.raises(KeyboardInterrupt):
        store.claims.lose(run_id, "gone", resumes=False)
    assert (reader.runs.one(run_id).status, reader.runs.count()) == ("running", 1)
    monkeypatch.undo()
    assert store.claims.lose(run_id, "gone", resumes=False) == run_id + 1


def _dies(*_: object, **__: object) -> bool:
    raise KeyboardInterrupt


def test_a_retry_by_a_person_names_its_parent_and_no_checkpoint(
    store: Store, reader: Reader, add: Running, running: Running
) -> None:
    first = running()
    store.claims.end(first, "failed", "no")
    second = add(parent_id=first, resumes=False)
    third = add(parent_id=first)
    assert (reader.runs.one(second).resumes, reader.runs.one(second).parent_id, reader.runs.one(third).resumes) == (
        False,
        first,
        True,
    )
    assert (reader.runs.retried_as(first), reader.runs.resumed_as(first)) == ([second], [third])
    assert [(event.kind, event.detail) for event in reader.details.events(first)[-2:]] == [
        ("retried", f"as run {second}"),
        ("resumed", f"as run {third}"),
    ]
    assert reader.details.events(second)[-1].detail == f"run {first} from the start"
    assert reader.runs.chain(second) == [(first, "failed"), (second, "queued")]
    assert reader.runs.chain(first) == [(first, "failed"), (second, "queued"), (third, "queued")]
    store.annotations.set_note(second, "Why again?", by="ada")
    fourth, fifth = add(cloned_from=second), add(cloned_from=first)
    family = [
        Kin(first, None, "", ""),
        Kin(second, first, "retries", "Why again?"),
        Kin(third, first, "resumes", ""),
        Kin(fourth, second, "clone of", ""),
        Kin(fifth, first, "clone of", ""),
    ]
    assert reader.runs.family(fourth, 10) == reader.runs.family(first, 10) == family
    assert reader.runs.family(first, 2) == family[:2]
    filters = {
        "clone_of == 1": [fifth],
        "clone_of != none": [fifth, fourth],
        "retry_of == 1": [second],
        "resumes == 1": [third],
        'origin == "clone of 2"': [fourth],
        'origin contains "clone" or origin contains "retry"': [fifth, fourth, second],
        'origin == "resumes 1"': [third],
    }
    for text, ids in filters.items():
        assert [run.id for run in reader.runs.find(matching=reader.fields.filter(text))] == ids, text
    assert reader.runs.family(add(), 10) == [Kin(fifth + 1, None, "", "")]


@pytest.mark.parametrize(
    "limits",
    [
        LaunchOptions(max_run_time_s=0.5),
        LaunchOptions(max_run_time_s=1e9),
        LaunchOptions(max_retries=-1),
        LaunchOptions(max_retries=11),
    ],
)
def test_a_limit_out_of_bounds_is_a_sentence(limits: LaunchOptions) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        limits.checked()


def test_a_run_that_went_on_has_its_parents_checkpoint_until_it_saves_one(tmp_path: Path) -> None:
    first, second, third = (tmp_path / str(number) for number in (1, 2, 3))
    lay(first, 12)
    before = (first / "checkpoint.pt").read_bytes()
    taken = take_checkpoint(first, second)
    assert taken is not None
    assert last_checkpoint(second) == taken[1]
    lay(second, 13)
    assert ((first / "checkpoint.pt").read_bytes(), taken[0].read_bytes()) == (before, before)
    assert take_checkpoint(second, third) == (third / "resumed.pt", last_checkpoint(second))
    assert position_of(third / "resumed.pt") == last_checkpoint(second) != taken[1]
