"""A curve that grows is drawn again from what is new of it, and as if all had been read."""

import math

import pytest

from engine.home import Home
from engine.store import Reader, Store, growing
from engine.store.downsample import kept
from tests.store.test_buckets import Running, drawn, record
from tests.store.test_downsample import walk

MOST = 1_000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Forget what is kept; hold how many points each read brought from then on."""
    growing.forget()
    seen: list[int] = []
    read = growing._read

    def noting(cursor: object, metric_id: int, first_id: int) -> growing.Line:
        found = read(cursor, metric_id, first_id)  # type: ignore[arg-type]
        seen.append(found.ids.size)
        return found

    monkeypatch.setattr(growing, "_read", noting)
    return seen


@pytest.mark.parametrize("nan_share", [0.0, 0.05, 1.0])
def test_only_what_is_new_is_read_and_the_curve_is_drawn_as_from_all(
    store: Store, reader: Reader, running: Running, reads: list[int], nan_share: float
) -> None:
    run_id, values = running(), walk(9_000, nan_share=nan_share)
    values[1_999], values[2_500] = math.inf, -math.inf
    for at in range(0, 9_000, 500):
        record(store, run_id, values[at : at + 500], first=at)
        assert drawn(reader, run_id, MOST).steps == kept(values[: at + 500], MOST)
    assert reads == [1_500, *[501] * 15], "two answers hold all there is; then all is read once, and from the last known point on"
    assert drawn(reader, run_id, 400).steps == kept(values, 400)
    assert reads[-1] == 1, "fewer points of the same curve need no new look at it"


def test_each_rank_is_a_curve_of_its_own(store: Store, reader: Reader, running: Running, reads: list[int]) -> None:
    run_id, ranks = running(), [walk(2_000, 1), walk(3_000, 2)]
    for rank, values in enumerate(ranks):
        record(store, run_id, values, rank=rank)
    for _ in range(2):
        found = reader.series(run_id, ["train/loss"], max_points=MOST)
        assert [series.steps for series in found] == [kept(values, MOST) for values in ranks]
    assert reads == [2_000, 3_000, 1, 1]


def test_a_snapshot_older_than_what_is_known_has_its_own_points(home: Home, store: Store, reader: Reader, running: Running, reads: list[int]) -> None:
    run_id, values = running(), walk(4_000, 3)
    record(store, run_id, values[:3_000])
    with reader.snapshot():
        assert reader.run(run_id).id == run_id  # a snapshot is of the moment of its first look
        record(store, run_id, values[3_000:], first=3_000)
        with Reader.open(home) as newer:
            assert drawn(newer, run_id, MOST).steps == kept(values, MOST)
        assert drawn(reader, run_id, MOST).steps == kept(values[:3_000], MOST)
    assert drawn(reader, run_id, MOST).steps == kept(values, MOST)
    assert reads[1] == 1, "of the older moment nothing had to be read but the point that shows that it is the same curve"


@pytest.mark.parametrize("count", [2_000, 3_000, 4_000])
def test_another_store_in_the_same_place_is_not_taken_for_the_first(home: Home, store: Store, running: Running, reads: list[int], count: int) -> None:
    run_id = running()
    record(store, run_id, walk(3_000, 4))
    with Reader.open(home) as reader:
        drawn(reader, run_id, MOST)
    values = [value + 0.5 for value in walk(count, 5)]
    with store.change() as connection:
        connection.execute("DELETE FROM buckets")
        connection.execute("DELETE FROM points")
        connection.execute("DELETE FROM metrics")
        connection.execute("UPDATE runs SET last_point_id = 0")
    record(store, run_id, values)
    with Reader.open(home) as reader:
        assert drawn(reader, run_id, MOST).steps == kept(values, MOST)


def test_what_is_kept_is_bounded_and_what_was_asked_for_last_stays(
    store: Store, reader: Reader, running: Running, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "KEPT_BYTES", 2 * 16 * 2_000)
    runs = [running() for _ in range(3)]
    for run_id in runs:
        record(store, run_id, walk(2_000, run_id))
    for run_id in (*runs, runs[2], runs[1], runs[0]):
        assert drawn(reader, run_id, MOST).steps == kept(walk(2_000, run_id), MOST)
    assert reads == [2_000, 2_000, 2_000, 1, 1, 2_000]
