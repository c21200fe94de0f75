"""What a worker records comes back as it was, and each metric's summary row keeps up with its points."""

import math
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.launch_options import LaunchOptions
from engine.recorder import Point, Span
from engine.store import MachineSample, RankBatch, RankRow, Reader, Store, Summary
from engine.store.schema.docs import PAGE, page
from engine.store.schema.later_tables import LATER
from engine.store.schema.migrations import steps
from engine.store.worker_writes import StoreSink
from tests.store.conftest import WORKER
from tests.store.sweeps.test_duels import add as add_duel
from tests.store.sweeps.test_duels import run_of
from tests.store.sweeps.test_sweeps import SPLITS, new, sweep_of_splits

NAN, INF = math.nan, math.inf


def points(name: str, values: list[float], first: int = 0) -> list[Point]:
    return [Point(name, step, value, step / 10, step / 100) for step, value in enumerate(values, first)]


def summary(reader: Reader, run_id: int, metric: str, rank: int | None = 0) -> Summary:
    (found,) = [found for found in reader.details.summaries(run_id) if (found.metric, found.rank) == (metric, rank)]
    return found


def test_points_come_back_as_written_nan_and_infinities_counted_apart(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id, written = (
        running(),
        [
            Point("train/loss", 3, 0.25, 0.1, 0.5),
            Point("train/loss", 3, 1e-300, 0.2),
            Point("train/loss", 2, -7.0, 0.3, 1.5),
        ],
    )
    store.worker.write(run_id, [RankBatch(1, written)])
    (series,) = reader.curves.series(run_id, ["train/loss"])
    assert (series.metric, series.rank, series.total) == ("train/loss", 1, 3)
    assert (series.steps, series.times_s, series.passes, series.values) == (
        [3, 3, 2],
        [0.1, 0.2, 0.3],
        [0.5, None, 1.5],
        [0.25, 1e-300, -7.0],
    )
    run_id, values = running(), [NAN, 2.0, INF, 1.0, -INF]
    store.worker.write(run_id, [RankBatch(0, points("train/loss", values))])
    (series,) = reader.curves.series(run_id, ["train/loss"])
    assert list(map(repr, series.values)) == list(map(repr, values))
    found = summary(reader, run_id, "train/loss")
    assert found == Summary(
        "train/loss", 0, count=2, last=1.0, last_step=3, best=1.0, low=1.0, high=2.0, mean=1.5, nonfinite=3
    )
    assert series.total == 5
    run_id = running()
    store.worker.write(run_id, [RankBatch(0, points("train/loss", [NAN, NAN]))])
    assert summary(reader, run_id, "train/loss") == Summary(
        "train/loss", 0, 0, None, None, None, None, None, None, nonfinite=2
    )
    assert (reader.runs.find()[0].last, reader.runs.find()[0].best) == ({}, {})
    store.worker.write(run_id, [RankBatch(0, points("train/loss", [4.0], 2))])
    assert summary(reader, run_id, "train/loss") == Summary("train/loss", 0, 1, 4.0, 2, 4.0, 4.0, 4.0, 4.0, nonfinite=2)


def test_a_summary_is_the_same_however_its_points_were_cut_into_batches(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    chance = random.Random(5)
    values = [NAN if chance.random() < 0.1 else chance.gauss(0, 100) for _ in range(500)]
    finite, cuts = [value for value in values if not math.isnan(value)], sorted(chance.sample(range(1, 500), 40))
    run_id = running()
    for start, stop in pairwise([0, *cuts, 500]):
        store.worker.write(run_id, [RankBatch(0, points("test/accuracy", values[start:stop], start))])
    found = summary(reader, run_id, "test/accuracy")
    assert (found.count, found.nonfinite, found.low, found.high, found.best) == (
        len(finite),
        500 - len(finite),
        min(finite),
        max(finite),
        max(finite),
    )
    assert (found.last, values[found.last_step or 0]) == (finite[-1], finite[-1])
    assert found.mean == pytest.approx(math.fsum(finite) / len(finite), rel=1e-12)


def test_the_mean_of_the_largest_floats_is_finite_and_the_whole_runs_points_stand_apart(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    for _ in range(3):
        store.worker.write(run_id, [RankBatch(0, points("train/loss", [1.7e308, 1.7e308, 1.7e308]))])
    assert summary(reader, run_id, "train/loss").mean == pytest.approx(1.7e308)
    run_id = running()
    store.worker.write(
        run_id, [RankBatch(1, points("x", [1.0])), RankBatch(0, points("x", [2.0]))], run_points=points("x", [3.0])
    )
    store.worker.write(run_id, [RankBatch(0, points("x", [4.0], 1))], run_points=points("x", [5.0], 1))
    assert [(series.rank, series.values) for series in reader.curves.series(run_id, ["x"])] == [
        (None, [3.0, 5.0]),
        (0, [2.0, 4.0]),
        (1, [1.0]),
    ]
    assert [found.rank for found in reader.details.summaries(run_id)] == [None, 0, 1]


@pytest.mark.parametrize(("metric", "best"), [("test/accuracy", 3.0), ("train/loss", 1.0), ("my/number", None)])
def test_best_is_what_the_metric_calls_better(
    store: Store, reader: Reader, running: Callable[..., int], metric: str, best: float | None
) -> None:
    run_id = running()
    store.worker.write(run_id, [RankBatch(0, points(metric, [2.0, 1.0, 3.0, 2.5]))])
    assert summary(reader, run_id, metric).best == best


def test_phases_spans_and_histograms_add_up_and_come_back_in_order(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    store.worker.write(
        run_id,
        [
            RankBatch(
                0,
                phases={"compute": 1.0, "wait": 0.5},
                histograms={("perf/staleness", 3): 2, ("perf/staleness", -1): 1},
            )
        ],
    )
    store.worker.write(
        run_id,
        [
            RankBatch(0, phases={"compute": 2.5}, histograms={("perf/staleness", 3): 5}),
            RankBatch(1, phases={"lock": 0.1}),
        ],
    )
    assert reader.details.phases(run_id) == {0: {"compute": 2.5, "wait": 0.5}, 1: {"lock": 0.1}}
    assert reader.details.histograms(run_id) == {(0, "perf/staleness"): {-1: 1, 3: 7}}
    run_id, spans = running(), [Span("forward", 1, index, index, 2**62 + index, 8, "stage2") for index in range(5)]
    store.worker.write(run_id, [RankBatch(2, spans=spans)])
    assert reader.details.spans(run_id) == [(2, span) for span in spans]
    assert reader.details.spans(run_id, limit=2) == [(2, span) for span in spans[:2]]


def test_the_machines_numbers_are_new_and_a_batch_that_breaks_is_not_kept(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    samples = [
        MachineSample(f"2026-01-01T00:00:0{second}.000Z", source, "cpu_percent", second / 2)
        for second in range(3)
        for source in ("host", "gpu0")
    ]
    store.worker.write(run_id, [], samples=samples)
    assert reader.details.machine(run_id) == samples
    assert reader.details.machine(run_id, after=samples[3].at) == samples[4:]
    store.worker.write(run_id, [], samples=[MachineSample("2027", "gpu0", "power_w", NAN)])
    assert math.isnan(reader.details.machine(run_id, after="2026-02")[0].value)
    run_id = running()
    store.worker.write(run_id, [RankBatch(0, points("x", [1.0]))])
    before = (reader.runs.token(), reader.details.summaries(run_id), reader.curves.series(run_id, ["x"]))
    broken = Point("x", 2, 2.0, None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="time_s"):
        store.worker.write(run_id, [RankBatch(0, [*points("x", [5.0], 1), broken])], progress=(1, 2, "samples"))
    assert (reader.runs.token(), reader.details.summaries(run_id), reader.curves.series(run_id, ["x"])) == before
    store.worker.write(run_id, [RankBatch(0, points("x", [9.0], 1))])
    assert reader.curves.series(run_id, ["x"])[0].ids == [1, 2]


def test_progress_ranks_and_logs_are_as_last_heard_of(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    store.worker.write(run_id, [], progress=(10, 100, "samples"))
    store.worker.write(run_id, [], progress=(25, 100, "samples"))
    store.worker.write(run_id, [])
    run = reader.runs.one(run_id)
    assert (run.progress_done, run.progress_total, run.progress_unit) == (25, 100, "samples")
    assert run.heartbeat_at is not None
    run_id = running()
    store.worker.add_ranks(run_id, [RankRow(0, "trainer1", 100, "cpu", "starting", None, None, None)])
    store.worker.write(run_id, [RankBatch(0, last_step=41, dropped=3)])
    store.worker.update_ranks(run_id, [RankRow(0, "trainer1", 100, "cpu", "running", None, "2026", None, 12.5, 99.0)])
    store.worker.write(run_id, [RankBatch(0, dropped=5)])
    assert reader.details.ranks(run_id) == [
        RankRow(0, "trainer1", 100, "cpu", "running", 41, "2026", None, 12.5, 99.0, dropped=5)
    ]
    store.worker.update_ranks(run_id, [RankRow(0, "trainer1", None, "cpu", "failed", 42, None, -9)])
    assert reader.details.ranks(run_id) == [RankRow(0, "trainer1", 100, "cpu", "failed", 42, "2026", -9, dropped=5)]
    run_id = running()
    for source in ("worker", "trainer1", "worker"):
        store.worker.add_log(run_id, source, f"logs/{source}.log")
    assert reader.details.logs(run_id) == [("trainer1", "logs/trainer1.log"), ("worker", "logs/worker.log")]


def test_what_a_worker_says_happened_is_an_event_of_its_run(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    StoreSink(store.db, run_id).event("rank lost", "trainer2 exited with code 3. The others go on.")
    said = reader.details.events(run_id)[-1]
    assert (said.kind, said.who, said.detail) == (
        "rank lost",
        "worker",
        "trainer2 exited with code 3. The others go on.",
    )


Adding = Callable[..., int]


def test_a_run_keeps_the_folder_that_the_environment_names_as_a_whole_path(
    add: Adding, reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARALLAB_DATA", "sets")
    named = add()
    monkeypatch.delenv("PARALLAB_DATA")
    assert [reader.runs.one(run_id).data_folder for run_id in (named, add())] == [str(tmp_path / "sets"), None]


def test_what_a_person_repeats_has_the_persons_folder_or_else_that_of_the_first_run(
    store: Store, reader: Reader, add: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_DATA", "/of/ada")
    parent, sweep_id = add(), sweep_of_splits(store, 1)
    store.claims.claim(2, WORKER, ())
    store.worker.begin(2, WORKER, {})
    store.claims.end(2, "failed", "It failed.")
    monkeypatch.setenv("PARALLAB_DATA", "/of/grace")
    theirs = add(parent_id=parent, resumes=False)
    monkeypatch.delenv("PARALLAB_DATA")
    again = add(parent_id=parent, resumes=False)
    (cell,) = store.sweeps.retry(sweep_id, by="ada").values()
    (more,) = store.sweeps.extend(sweep_id, SPLITS, {"splits": [1, 2, 3, 4], "seed": [0]}, [new(4)], by="ada")
    assert [reader.runs.one(run_id).data_folder for run_id in (theirs, again, cell, more)] == [
        "/of/grace",
        "/of/ada",
        "/of/ada",
        "/of/ada",
    ]


def test_what_the_runner_queues_keeps_the_folder_of_the_launch(
    store: Store, reader: Reader, running: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_DATA", "/of/ada")
    lost, duel_id = running(terms=LaunchOptions(max_retries=1)), add_duel(store)
    monkeypatch.setenv("PARALLAB_DATA", "/of/the/runner")
    retry = store.claims.lose(lost, "It is gone.", resumes=False)
    store.duels.judge(duel_id, [run_of(strategy, 0.1, 0) for strategy in (0, 1)], exclusive=True)
    judged = [
        run.id for part in reader.duels.one(duel_id).parts[2:] for run in reader.duels.runs(duel_id)[part.sweep_id]
    ]
    assert retry and len(judged) == 2
    assert {reader.runs.one(run_id).data_folder for run_id in (retry, *judged)} == {"/of/ada"}


def test_the_schema_page_is_the_schema_and_every_table_has_words(store: Store) -> None:
    assert PAGE.read_text() == page(), "Run `python -m engine.store.schema.docs` and read the difference."
    found = {
        row[0]: [column["name"] for column in store.db.rows(f"PRAGMA table_info({row[0]})")]
        for row in store.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    parts = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## )", page(), re.S | re.M))
    assert set(parts) == {name for name in found if "sqlite_" not in name}
    for table, part in parts.items():
        rows = re.findall(r"^\| (\w+) \| `(.+)` \| (.+) \|$", part, re.M)
        assert [name for name, _, words in rows if words.strip()] == found[table]
    tables = {row[0] for row in store.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {
        "metrics",
        "points",
        "phases",
        "spans",
        "histograms",
        "progress",
        "logs",
        "machine_metrics",
        "sweeps",
        "tags",
        "notes",
    } <= tables


def test_a_later_step_needs_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "by_name", dict(steps.by_name))

    @steps()
    def later_step(db: Any) -> None:
        db.execute("ALTER TABLE ranks ADD COLUMN node TEXT")

    with pytest.raises(KeyError, match=r"ranks\.node"):
        page()
    monkeypatch.setitem(LATER, "ranks.node", "the machine it runs on")
    assert "| node | `TEXT` | the machine it runs on |" in page()
