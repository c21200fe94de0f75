"""Lists of runs: newest first, filtered and searched, with numbers that never touch a metric point."""

import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.filter import RUN_FIELDS, Field, Names, read_filter
from engine.home import Home
from engine.metrics import ACCURACY, METRICS, Result
from engine.recorder import Point
from engine.registry import EXPERIMENTS, experiment
from engine.store import Demand, Launch, RankBatch, Reader, RecordedMetric, Store
from engine.store.runs.rows import left_at_pace
from engine.upkeep.retention_policy import RetentionPolicy, collect
from tests.store.conftest import WORKER
from tests.store.ends import finish
from tests.store.maintenance.test_retention import age


def point(name: str, *values: float) -> list[Point]:
    return [Point(name, step, value, 0.0) for step, value in enumerate(values)]


def ids(reader: Reader, **filters: Any) -> list[int]:
    found = [row.id for row in reader.runs.find(**filters)]
    assert reader.runs.count(
        **{name: value for name, value in filters.items() if name not in ("limit", "offset")}
    ) >= len(found)
    return found


def test_runs_come_newest_first_a_page_at_a_time(reader: Reader, add: Callable[..., int]) -> None:
    made = [add() for _ in range(7)]
    assert ids(reader) == made[::-1]
    assert ids(reader, limit=3) + ids(reader, limit=3, offset=3) + ids(reader, limit=3, offset=6) == made[::-1]
    assert reader.runs.count() == 7


def test_filters_hold_together(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    one, two, three = add(owner="ada"), add(owner="grace"), add("reference", owner="ada")
    store.runs.cancel(one, by="ada")
    assert ids(reader, owner="ada") == [three, one]
    assert ids(reader, experiment="hogwild") == [two, one]
    assert ids(reader, statuses=["queued"]) == [three, two]
    assert ids(reader, statuses=["queued", "cancelled"], owner="ada", experiment="hogwild") == [one]
    assert ids(reader, statuses=[]) == []
    assert reader.runs.count(owner="ada") == 2
    assert reader.runs.owners() == ["ada", "grace"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        *(
            ("wide", [1]),
            ("WIDE net", [1]),
            ("net wide", [1]),
            ("wide gone", []),
            ("thes", [2]),
            ("quick", [3]),
            ("grace", [2]),
            ("2", [2]),
            ("#3", [3]),
        ),
        *(
            ("100%", [1]),
            ("%", [1]),
            ("_", [3]),
            ("o_s", []),
            ("remember", [3]),
            ("", [3, 2, 1]),
            ("'; DROP TABLE runs; --", []),
            ("  ", [3, 2, 1]),
        ),
    ],
)
def test_search_finds_each_word_as_it_stands_anywhere(
    store: Store, reader: Reader, add: Callable[..., int], search: str, found: list[int]
) -> None:
    add(name="a wide net, 100%")
    store.annotations.tag([add(owner="grace")], "thesis", by="grace")
    store.annotations.set_note(add("reference", preset="quick", name="x_y"), "remember me", by="ada")
    assert ids(reader, search=search) == found
    assert reader.runs.count(search=search) == len(found)


def test_last_and_best_are_the_whole_runs_else_the_mean_and_best_over_ranks(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id, other = running(), running()
    batches = [
        RankBatch(0, [*point("train/loss", 3.0, 1.0), *point("test/accuracy", 10.0, 8.0)]),
        RankBatch(1, point("train/loss", 0.5, 2.0)),
    ]
    store.worker.write(run_id, batches, run_points=[*point("test/accuracy", 99.0, 98.0), *point("my/number", 1.0)])
    store.worker.write(other, [RankBatch(0, point("train/loss", 7.0))])
    first, second = reader.runs.find()[::-1]
    assert first.last == {"train/loss": 1.5, "test/accuracy": 98.0, "my/number": 1.0}
    assert first.best == {"train/loss": 0.5, "test/accuracy": 99.0}
    assert (second.last, second.best) == ({"train/loss": 7.0}, {"train/loss": 7.0})


def test_progress_never_exceeds_all_and_time_left_is_the_rest_at_the_pace_so_far(
    home: Home, store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    assert (reader.runs.find()[0].progress, reader.runs.find()[0].time_left_s) == (0.0, None)
    store.worker.write(run_id, [], progress=(25, 100, "samples"))
    start = time.monotonic()
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET started_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-10 seconds')")
    row = reader.runs.find()[0]
    assert row.progress == 0.25
    assert row.time_left_s is not None
    assert 29.9 < row.time_left_s < 30.1 + 3 * (time.monotonic() - start)
    store.runs.cancel(run_id, by="ada")
    assert (reader.runs.find()[0].progress, reader.runs.find()[0].time_left_s) == (0.25, None)
    run_id = running()
    store.worker.write(run_id, [], progress=(130, 100, "samples"))
    assert (reader.runs.find()[0].progress, reader.runs.find()[0].time_left_s) == (1.0, 0.0)
    store.worker.write(run_id, [], progress=(25, 100, "samples"))
    assert reader.runs.find()[0].time_left_s is None, "in the first seconds the pace is unknown"
    store.worker.write(run_id, [], progress=(0, 0, "samples"))
    store.claims.end(run_id, "finished", "Completed successfully")
    assert reader.runs.find()[0].progress == 1.0


def test_a_list_asks_for_no_metric_point(home: Home, store: Store, reader: Reader, running: Callable[..., int]) -> None:
    for _ in range(3):
        store.worker.write(running(), [RankBatch(0, point("train/loss", 1.0, math.nan))], progress=(1, 2, "samples"))
    asked: list[str] = []
    reader.db.connection.set_trace_callback(asked.append)
    reader.runs.find(search="ada", owner="ada", statuses=["running"])
    reader.runs.count(search="ada")
    reader.runs.token()
    reader.runs.owners()
    reader.db.connection.set_trace_callback(None)
    questions = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(questions) >= 5
    for sql in questions:
        plan = [row["detail"] for row in reader.db.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert plan
        assert not [step for step in plan if "points" in step], (sql, plan)
    with closing(sqlite3.connect(home.database)) as connection:  # and it still works where they are gone altogether
        connection.execute("DROP TABLE points")
    assert [row.last for row in reader.runs.find()] == [{"train/loss": 1.0}] * 3


Running = Callable[..., int]


def test_entries_come_in_the_order_asked_with_who_has_points(store: Store, reader: Reader, running: Running) -> None:
    one, two, three = running(), running(), running()
    store.worker.write(
        two, [RankBatch(0, [Point("test/accuracy", 1, 90.0, 0.1), Point("test/accuracy", 2, 80.0, 0.2)])]
    )
    found = reader.runs.some([three, 99, two])
    assert [run.id for run in found] == [three, two]
    assert (found[1].last["test/accuracy"], found[1].best["test/accuracy"]) == (80.0, 90.0)
    assert found == [reader.runs.entry(three), reader.runs.entry(two)]
    assert reader.multi_run.environments([one, 99]) == {one: {"host": "lab"}}
    run_id, other = running(), running()
    points = [Point("train/loss", step, math.nan if step == 2 else 1.0, step / 10) for step in range(5)]
    store.worker.write(
        run_id,
        [RankBatch(1, points), RankBatch(0, points[:1])],
        run_points=[Point("perf/samples_per_second", 1, 5.0, 0.1)],
    )
    found = reader.multi_run.recorded([other, run_id], ["train/loss", "perf/samples_per_second", "no/such"])
    assert found == [
        RecordedMetric(run_id, "perf/samples_per_second", None, 1, 0),
        RecordedMetric(run_id, "train/loss", 0, 1, 0),
        RecordedMetric(run_id, "train/loss", 1, 5, 1),
    ]


def test_columns_are_all_points_in_order_and_what_is_no_number_is_infinite(
    store: Store, reader: Reader, running: Running
) -> None:
    run_id = running()
    values = [1.0, math.nan, -math.inf, 0.1 + 0.2]
    store.worker.write(
        run_id,
        [
            RankBatch(
                0,
                [
                    Point("train/loss", 10 - at, value, at / 3, None if at == 1 else at / 7)
                    for at, value in enumerate(values)
                ],
            )
        ],
    )
    found = reader.multi_run.columns(run_id, "train/loss", 0, ("step", "value", "passes", "time_s"))
    assert list(found) == ["step", "value", "passes", "time_s"]
    assert found["step"].tolist() == [10.0, 9.0, 8.0, 7.0]
    assert found["value"].tolist() == [1.0, math.inf, math.inf, 0.1 + 0.2]
    assert found["passes"].tolist() == [0.0, math.inf, 2 / 7, 3 / 7]
    assert found["time_s"].tolist() == [at / 3 for at in range(4)]
    assert all(column.dtype == np.float64 for column in found.values())
    assert reader.multi_run.columns(running(), "train/loss", None, ("value",))["value"].tolist() == []


def test_every_field_of_a_run_that_is_no_number_comes_in_words(store: Store, reader: Reader) -> None:
    one, bare = finish(store, {}, None), store.runs.add(Launch("hogwild", {}, "bea", demand=Demand(1, 0, 1, 1)))
    store.annotations.set_note(one, "look", by="ada")
    store.annotations.tag([one], "b", by="ada")
    store.annotations.tag([one], "a", by="ada")
    store.annotations.star([one], by="ada")
    fields = {
        name: Field("run", name, kind) for name, (kind, _) in RUN_FIELDS.items() if kind not in ("number", "seconds")
    }
    found = {field.name: values for field, values in reader.fields.texts([one, bare], list(fields.values())).items()}
    assert set(found) == set(fields)
    assert {name: found[name] for name in ("owner", "status", "preset", "tags", "note", "starred", "pinned")} == {
        "owner": {one: "ada", bare: "bea"},
        "status": {one: "finished", bare: "queued"},
        "preset": {one: "quick"},
        "tags": {one: "a, b"},
        "note": {one: "look"},
        "starred": {one: True, bare: False},
        "pinned": {one: False, bare: False},
    }
    assert found["ended"][one].endswith("Z") and bare not in found["ended"]


def test_the_best_run_is_by_its_last_value_on_its_task_with_the_seeds_of_its_config(
    store: Store, reader: Reader
) -> None:
    digits, mnist = {"dataset": "digits", "trainers": 2}, {"dataset": "mnist", "trainers": 2}
    ids = [
        finish(store, digits | {"seed": seed}, value, owner=owner)
        for seed, value, owner in ((0, 90.0, "ada"), (1, 97.0, "bea"), (2, 95.0, "ada"))
    ]
    finish(store, digits | {"seed": 0, "trainers": 4}, 96.0)
    other = finish(store, mnist | {"seed": 0}, 80.0)
    finish(store, digits | {"seed": 0}, 99.0, experiment="sync_sgd")
    finish(store, {"dataset": "synthetic", "seed": 0}, 99.9)
    sparse = finish(store, {"dataset": "mnist", "model": "sparse_logistic", "seed": 0}, 85.0)
    finish(store, mnist | {"seed": 3}, None)
    found = {best.task: best for best in reader.leaderboard.bests("hogwild", experiment("hogwild").result)}
    assert {task: best.run_id for task, best in found.items()} == {
        ("digits",): ids[1],
        ("mnist",): other,
        ("sparse_logistic",): sparse,
    }
    best = found[("digits",)]
    assert (best.value, best.owner, best.preset, best.seeds, best.mean) == (
        97.0,
        "bea",
        "quick",
        3,
        pytest.approx(94.0),
    )
    assert found[("mnist",)].seeds == 1
    finish(store, digits | {"seed": 0}, 92.0)
    (best,) = (best for best in reader.leaderboard.bests("hogwild", ACCURACY) if best.task == ("digits",))
    assert (best.seeds, best.runs, best.mean) == (3, 4, pytest.approx((91.0 + 97.0 + 95.0) / 3)), (
        "a mean per seed first"
    )
    store.annotations.archive([ids[1]], by="ada")
    assert [best.run_id for best in reader.leaderboard.bests("hogwild", ACCURACY) if best.task == ("digits",)] == [4]


def test_the_best_is_the_least_where_less_is_better_and_every_experiment_has_a_result(
    store: Store, reader: Reader
) -> None:
    ids = [finish(store, {"seed": seed}, value, name="test/loss") for seed, value in ((0, 3.0), (1, 2.0), (2, 2.0))]
    assert [best.run_id for best in reader.leaderboard.bests("hogwild", Result("test/loss"))] == [ids[1]]
    other = finish(store, {"seed": 0, "dataset": "digits"}, 4.0, name="test/loss")
    lists = ([ids[0]], [], [ids[0], ids[1]], [ids[0], other])
    found_of = reader.leaderboard.best_of(lists, "hogwild", Result("test/loss"))
    assert {at: (best.run_id, best.value) for at, best in found_of.items()} == {
        0: (ids[0], 3.0),
        2: (ids[1], 2.0),
        3: (ids[0], 3.0),
    }
    assert [best.task for best in found_of.values()] == [(None,), (None,), None]
    for name in EXPERIMENTS:
        found = experiment(name)
        assert METRICS[found.result.metric].better in ("max", "min")
        assert {*found.result.task, *(field for field, _ in found.result.own_tasks)} <= set(found.config.model_fields)


LOSS = Field("metric", "train/loss", "number", "last")


@pytest.fixture
def ran(store: Store) -> Callable[..., int]:
    """Bring a run with one loss to its end; return its id."""

    def run(trainers: int, seed: int, loss: float, status: str = "finished", experiment: str = "hogwild") -> int:
        run_id = store.runs.add(
            Launch(experiment, {"trainers": trainers, "seed": seed}, "ada", demand=Demand(1, 0, 1, 1))
        )
        store.claims.claim(run_id, WORKER, ())
        store.worker.begin(run_id, WORKER, {})
        store.worker.write(run_id, [], run_points=[Point("train/loss", 1, loss, 0.0)])
        store.claims.end(run_id, status, "It ended.")  # type: ignore[arg-type]
        return run_id

    return run


def test_a_group_is_all_runs_of_one_config_but_for_the_seed(reader: Reader, ran: Callable[..., int]) -> None:
    one, two, other = ran(2, 0, 1.0), ran(2, 1, 3.0), ran(4, 0, 9.0)
    bad, elsewhere = ran(2, 2, 50.0, "failed"), ran(2, 0, 5.0, experiment="sync_sgd")
    found = reader.groups.find()
    assert [(group.experiment, group.config, group.run_ids, group.finished) for group in found] == [
        ("sync_sgd", {"trainers": 2}, (elsewhere,), (elsewhere,)),
        ("hogwild", {"trainers": 2}, (one, two, bad), (one, two)),
        ("hogwild", {"trainers": 4}, (other,), (other,)),
    ]
    assert reader.groups.count() == 3
    assert reader.fields.values(found[1].finished, LOSS) == {one: 1.0, two: 3.0}
    several = [
        LOSS,
        Field("metric", "train/loss", "number", "count"),
        Field("run", "ranks", "number"),
        Field("config", "trainers", "number"),
    ]
    assert reader.fields.values_of([one, bad], several) == {
        field: reader.fields.values([one, bad], field) for field in several
    }
    assert list(reader.fields.values_of([one], several)[several[3]].values()) == [2]
    assert [group.run_ids for group in reader.groups.find(matching=read_filter("trainers == 2 and seed > 0"))] == [
        (two, bad)
    ]
    assert reader.groups.count(matching=read_filter("trainers == 2 and seed > 0")) == 1


def test_groups_are_sorted_by_the_mean_of_their_finished_runs(reader: Reader, ran: Callable[..., int]) -> None:
    ran(2, 0, 1.0), ran(2, 1, 3.0), ran(2, 2, 50.0, "failed"), ran(4, 0, 2.5), ran(8, 0, 7.0, "failed")
    assert [
        group.config["trainers"] for group in reader.groups.find(order=reader.fields.order("-train/loss.last"))
    ] == [4, 2, 8]
    assert [group.config["trainers"] for group in reader.groups.find(order=reader.fields.order("train/loss.last"))] == [
        2,
        4,
        8,
    ]
    assert [
        group.config["trainers"]
        for group in reader.groups.find(order=reader.fields.order("train/loss.last"), limit=1, offset=1)
    ] == [4]
    assert [group.config["trainers"] for group in reader.groups.find(order=reader.fields.order("-trainers"))] == [
        8,
        4,
        2,
    ]


def test_names_are_those_of_this_version_and_of_the_store(
    store: Store, reader: Reader, ran: Callable[..., int]
) -> None:
    assert reader.fields.metric_names() == []
    ran(2, 0, 1.0)
    store.runs.add(Launch("gone", {"colour": "red"}, "ada", demand=Demand(1, 0, 1, 1)))
    names = reader.fields.names()
    assert reader.fields.metric_names() == ["train/loss"]
    assert names.settings["colour"] == "any"
    assert "gone" in names.experiments
    assert set(Names.usual().metrics) <= set(names.metrics)
    with pytest.raises(EngineError, match="Unknown field"):
        reader.fields.order("shape")


def test_a_value_at_a_step_is_the_last_finite_one_up_to_it(
    home: Home, store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id, short = running(), running()
    curve = [
        Point("train/loss", step, math.nan if step == 2_000 else float(step), step / 10) for step in range(0, 5_000, 10)
    ]
    store.worker.write(run_id, [RankBatch(0, curve), RankBatch(1, curve[:300])])
    store.worker.write(short, [RankBatch(0, curve[:10])])
    both = [run_id, short]
    assert reader.groups.values_at(both, "train/loss", 55) == {run_id: 50.0, short: 50.0}
    assert reader.groups.values_at(both, "train/loss", 2_005) == {run_id: 1_990.0}
    assert reader.groups.values_at(both, "train/loss", 4_000) == {run_id: 4_000.0}, (
        "a rank that did not get so far has no say"
    )
    assert reader.groups.values_at(both, "train/loss", 4_991) == {}
    assert reader.groups.values_at(both, "train/loss", -1) == {}
    assert reader.groups.values_at([short], "test/accuracy", 1) == {}
    apart = running()
    store.worker.write(
        apart, [RankBatch(rank, [Point("train/loss", 5, value, 0.1)]) for rank, value in ((0, 1.0), (1, 4.0))]
    )
    assert reader.groups.values_at([apart], "train/loss", 5) == {apart: 2.5}, "ranks that differ count by their mean"
    store.worker.write(apart, [RankBatch(None, [Point("train/loss", 5, 7.0, 0.1)])])
    assert reader.groups.values_at([apart], "train/loss", 5) == {apart: 7.0}, "the whole run's own value comes first"
    store.claims.end(run_id, "finished", "It ended.")
    age(store, run_id, 90)
    before = {step: reader.groups.values_at(both, "train/loss", step) for step in (0, 4_990)}
    collect(home, RetentionPolicy(30, None, 100), by="ada")
    assert {step: reader.groups.values_at(both, "train/loss", step) for step in before} == before


@pytest.mark.parametrize(
    ("share", "on_s", "left_s"),
    [
        (0.0, 60, None),
        (0.5, 2.9, None),
        (0.5, 3.0, 3.0),
        (0.019, 29, None),
        (0.02, 3.0, 147.0),
        (0.01, 30.0, 2970.0),
    ],
)
def test_a_pace_counts_after_some_seconds_and_some_work(share: float, on_s: float, left_s: float | None) -> None:
    assert left_at_pace(share, on_s) == (None if left_s is None else pytest.approx(left_s))
