"""Figures of a run that several places show: throughput and execution time are the same number in each."""

import pytest

from app.api.run_routes import in_full as full_answer
from app.api.run_shapes import RunEntry
from app.charts.sweep_data import statistic_of, value_of
from app.core.formatting import duration
from app.home.recent import best_html
from app.run.summary_html import facts_of, tiles
from app.runs.columns import choices, measured, read_column
from engine.analysis.result import ranked
from engine.analysis.run_values import label, number, ways
from engine.analysis.scaling.scaling_data import study
from engine.cli.runs import _cells, in_full, summary
from engine.filter import Names
from engine.home import Home
from engine.metrics import METRICS, metric, rate_of, throughput
from engine.published.comparison import number_of
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Launch, RankBatch, RankRow, Reader, Store
from engine.store.records import Status
from engine.store.timestamps import now, recorded_at
from engine.system.machine import demand, machine
from tests.stand_in import worker

WORK, TIME_S = 6_000, 5.0
RATE = "perf/samples_per_second"
AT = "2026-03-01T10:00:{:02d}.000Z"
ENDS: dict[str, tuple[Status, float]] = {
    "finished": ("finished", 0.0),
    "resumed": ("finished", 2.0),
    "cancelled": ("cancelled", 0.0),
    "resumed and cut by its time limit": ("cancelled", 2.0),
    "running": ("running", 0.0),
}


@pytest.fixture(params=ENDS)
def made(request: pytest.FixtureRequest, home: Home) -> tuple[int, str]:
    """A run whose recorded average rate rose from 900 to 1,450 samples/s, as it is when the last evaluation is not
    counted; id and end.
    """
    status, before_s = ENDS[request.param]
    config = experiment("pipeline").configure("quick")
    with Store.open(home) as store:
        with recorded_at(AT.format(0)):
            run_id = store.runs.add(
                Launch("pipeline", config.model_dump(mode="json"), "Ada", demand=demand(config, machine()))
            )
            store.claims.claim(run_id, worker(), [])
            store.worker.begin(run_id, worker(), {})
            store.worker.add_ranks(run_id, [RankRow(0, "stage1", None, "cpu", "running", 9, now(), None)])
            store.worker.mark_running(run_id, 1.25)
        with store.db.change() as connection:
            connection.execute("UPDATE runs SET time_before_s = ? WHERE id = ?", [before_s, run_id])
        points = [Point(RATE, WORK // 2, 900.0, 2.0), Point(RATE, WORK, 1_450.0, 4.0)]
        points += [Point("perf/execution_time_s", WORK, TIME_S, TIME_S)] if status == "finished" else []
        store.worker.write(
            run_id, [RankBatch(0, [], {"compute": 4.0})], run_points=points, progress=(WORK, WORK, "samples")
        )
        with recorded_at(AT.format(7)):
            if status == "finished":
                store.claims.end(run_id, status, "Completed successfully", execution_time_s=TIME_S)
            elif status == "cancelled":
                store.claims.end(run_id, status, "Cancelled by Ada.")
    return run_id, status


def test_every_place_shows_the_same_throughput(home: Home, reader: Reader, made: tuple[int, str]) -> None:
    run_id, status = made
    expected = throughput(WORK, TIME_S) if status == "finished" else 1_450.0
    assert expected is not None
    run, (listed,) = reader.runs.entry(run_id), reader.runs.find()
    columns = [read_column(f"{RATE}.{of}", Names.usual()) for of in ("last", "mean", "best", "min", "max")]
    found = {f"Runs, {column.written}": measured(reader, [run_id], [column]) for column in columns}
    numbers: dict[str, float | None] = {
        place: by_column[place.removeprefix("Runs, ")][run_id] for place, by_column in found.items()
    }
    numbers |= {f"Compare, {of}": number(run, f"{RATE}.{of}") for of in ("last", "mean", "best")}
    answer = full_answer(reader, run_id)
    numbers |= {
        "result": getattr(ranked(run), "value", None),
        "published figures": number_of(run, RATE),
        "API, list": RunEntry.of(listed).mean[RATE],
        "API, run": answer.last[RATE],
        "API, summaries": next(each.mean for each in answer.summaries if each.metric == RATE),
        "show": in_full(reader, run_id)["metrics"][RATE],
        "run": summary(reader, run_id)["result"]["value"],
        "show, summaries": next(
            each["last"] for each in in_full(reader, run_id)["summaries"] if each["metric"] == RATE
        ),
    }
    if status == "finished":
        (timing,) = study([run], reader.studies.surroundings([run_id]), "stages").timings
        numbers |= {"sweep": value_of(run, RATE), "Scaling": timing.per_second}
        (best,) = reader.leaderboard.bests("pipeline", experiment("pipeline").result)
        bests = reader.leaderboard.best_of([[run_id]], "pipeline", experiment("pipeline").result)
        numbers |= {"Home": best.value, "Runs, best of a sweep": bests[0].value}
        assert f"{expected:,.0f}" in best_html(reader)
    assert numbers == dict.fromkeys(numbers, expected)
    page = str(tiles(reader.details.summaries(run_id), run))
    assert f"{expected:,.0f}" in page and "÷ execution time" in page, "the formula is on hover"
    for written, matches in ((f"{RATE}.mean > {expected - 1}", [run_id]), (f"{RATE}.best > {expected + 1}", [])):
        assert [row.id for row in reader.runs.find(matching=reader.fields.filter(written))] == matches


def test_every_place_shows_the_same_execution_time(home: Home, reader: Reader, made: tuple[int, str]) -> None:
    run_id, status = made
    run, entry = reader.runs.one(run_id), reader.runs.entry(run_id)
    (column,) = (read_column(name, Names.usual()) for name in ("duration",))
    in_runs = measured(reader, [run_id], [column])["duration"][run_id]
    shown = entry.elapsed_s
    assert shown is not None
    if status == "running":
        assert in_runs == pytest.approx(shown, rel=1e-6), "it counts from the time that all ranks were ready"
        return
    assert shown == {"finished": TIME_S, "cancelled": 7.0 + run.time_before_s}[status]
    assert in_runs == pytest.approx(shown, abs=1e-3)
    assert run.elapsed_s == full_answer(reader, run_id).elapsed_s == summary(reader, run_id)["elapsed_s"] == shown
    assert _cells(entry)[-1] == duration(shown)
    assert duration(shown) in str(facts_of(run))
    assert RunEntry.of(entry).elapsed_s == shown
    assert [row.id for row in reader.runs.find(matching=reader.fields.filter("duration > 4.9"))] == [run_id]


def test_a_throughput_is_offered_once_and_has_no_statistic() -> None:
    rates = [name for name in METRICS if METRICS[name].is_rate]
    assert rates == [rate_of("samples"), rate_of("env steps"), rate_of("tokens")]
    lower = (
        "logloss valid_0-binary_logloss merror val_errors MSELoss trainloss duration_seconds latency_p99 step_time_ms"
    )
    higher = "aucpr rocauc mean_rewards episode_returns accuracies valacc valAccuracy top1_acc"
    assert {name: metric(name).better for name in f"{lower} {higher} lossy_bits account overtime".split()} == {
        **dict.fromkeys(lower.split(), "min"),
        **dict.fromkeys(higher.split(), "max"),
        **dict.fromkeys(("lossy_bits", "account", "overtime")),
    }
    assert (metric(rate_of("steps")).label, metric(rate_of("steps")).unit) == ("Throughput", "steps/s"), "of a command"
    for name in rates:
        assert [each for each in choices(rates, ()) if each.startswith(name)] == [f"{name}.last"]
        column = read_column(f"{name}.mean", Names.usual())
        assert column.label == label(f"{name}.last") == f"Throughput ({METRICS[name].unit})"
        assert "÷ execution time" in column.help
    assert throughput(0, 5.0) is None and throughput(10, None) is None and throughput(10, 4.0) == 2.5


TOTALS = [name for name in METRICS if METRICS[name].so_far]


@pytest.mark.parametrize("name", TOTALS)
def test_a_value_of_the_whole_run_so_far_is_offered_as_its_last_one(reader: Reader, name: str) -> None:
    assert [each for each in choices(TOTALS, ()) if each.startswith(name)] == [f"{name}.last"]
    assert read_column(f"{name}.last", Names.usual()).label == label(f"{name}.last")
    assert ", last" not in label(f"{name}.last") and ways(name) == ("last",)
    assert statistic_of(name) == ""


def test_all_totals_so_far_are_known() -> None:
    assert {name.removeprefix("perf/") for name in TOTALS} == {
        "exchanged",
        "gradients_dropped",
        "mixed_rollouts",
        "rollouts_dropped",
        "steps_used",
        "synchronizations",
    }
