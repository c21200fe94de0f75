"""What several runs are asked at once: entries in the order asked, environments, and whole columns as arrays."""

import math
from collections.abc import Callable

import numpy as np

from engine.recorder import Point
from engine.store import RankBatch, Reader, Recorded, Store

Running = Callable[..., int]


def test_entries_come_in_the_order_asked_and_runs_that_are_gone_are_left_out(store: Store, reader: Reader, running: Running) -> None:
    one, two, three = running(), running(), running()
    store.write(two, [RankBatch(0, [Point("test/accuracy", 1, 90.0, 0.1), Point("test/accuracy", 2, 80.0, 0.2)])])
    found = reader.some([three, 99, two])
    assert [run.id for run in found] == [three, two]
    assert (found[1].last["test/accuracy"], found[1].best["test/accuracy"]) == (80.0, 90.0)
    assert found == [reader.entry(three), reader.entry(two)]
    assert reader.environments([one, 99]) == {one: {"host": "lab"}}


def test_recorded_says_who_has_points_and_how_many_are_not_finite(store: Store, reader: Reader, running: Running) -> None:
    run_id, other = running(), running()
    points = [Point("train/loss", step, math.nan if step == 2 else 1.0, step / 10) for step in range(5)]
    store.write(run_id, [RankBatch(1, points), RankBatch(0, points[:1])], run_points=[Point("perf/samples_per_second", 1, 5.0, 0.1)])
    found = reader.recorded([other, run_id], ["train/loss", "perf/samples_per_second", "no/such"])
    assert found == [
        Recorded(run_id, "perf/samples_per_second", None, 1, 0),
        Recorded(run_id, "train/loss", 0, 1, 0),
        Recorded(run_id, "train/loss", 1, 5, 1),
    ]


def test_columns_are_all_points_in_order_and_what_is_no_number_is_infinite(store: Store, reader: Reader, running: Running) -> None:
    run_id = running()
    values = [1.0, math.nan, -math.inf, 0.1 + 0.2]
    store.write(run_id, [RankBatch(0, [Point("train/loss", 10 - at, value, at / 3, None if at == 1 else at / 7) for at, value in enumerate(values)])])
    found = reader.columns(run_id, "train/loss", 0, ("step", "value", "passes", "time_s"))
    assert list(found) == ["step", "value", "passes", "time_s"]
    assert found["step"].tolist() == [10.0, 9.0, 8.0, 7.0]
    assert found["value"].tolist() == [1.0, math.inf, math.inf, 0.1 + 0.2]
    assert found["passes"].tolist() == [0.0, math.inf, 2 / 7, 3 / 7]
    assert found["time_s"].tolist() == [at / 3 for at in range(4)]
    assert all(column.dtype == np.float64 for column in found.values())


def test_columns_of_a_metric_that_is_not_there_are_empty(reader: Reader, running: Running) -> None:
    assert reader.columns(running(), "train/loss", None, ("value",))["value"].tolist() == []
