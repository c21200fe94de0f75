"""Timelines, machine samples and histograms as plotly figures."""

import random
from collections import Counter

import plotly.graph_objects as go
import pytest

from app.charts import plotly_figures
from app.run.histograms import HEAT_PX, MOST_BARS, grouped, heat_map, strips, strips_height, words
from engine.analysis.statistics.groups import mean, percentile
from engine.histograms import histogram
from engine.home import Home
from engine.metrics import PHASES
from engine.recorder import Point
from engine.store import RankBatch, Store
from engine.store.curve_records import Heat, MachineSample
from engine.store.records import Status
from tests.app.reading import html, opened, said


def test_a_ranks_bar_is_as_long_as_its_time_and_a_phase_keeps_its_colour() -> None:
    figure = go.Figure(
        plotly_figures.phases({0: {"compute": 3.0, "wait": 1.0}, 1: {"compute": 2.0}}, {0: "trainer1", 1: "trainer2"})
    )
    lengths = {
        role: sum(trace.x[list(trace.y).index(role)] for trace in figure.data) for role in ("trainer1", "trainer2")
    }
    assert lengths == {"trainer1": 4.0, "trainer2": 2.0}
    alone, together = (
        plotly_figures.phases_shown({0: {"wait": 1.0}}),
        plotly_figures.phases_shown({0: {"wait": 1.0, "compute": 1.0, "mystery": 1.0}}),
    )
    assert plotly_figures.phase_colours(alone)[0] == plotly_figures.phase_colours(together)[together.index("wait")]
    assert together == ["compute", "wait", "mystery"]
    assert len(plotly_figures.PATTERNS) >= len(PHASES)


def test_samples_of_the_machine_are_drawn_by_source_and_a_long_record_is_thinned() -> None:
    samples = [
        MachineSample(f"2026-01-01T00:00:0{second}.000Z", source, "cpu_percent", 50.0 + second)
        for source in ("host", "gpu0")
        for second in (1, 2)
    ]
    figure = go.Figure(plotly_figures.machine(samples, "2026-01-01T00:00:00.000Z", "cpu_percent"))
    assert [(trace.name, list(trace.x)) for trace in figure.data] == [("gpu0", [1.0, 2.0]), ("host", [1.0, 2.0])]
    assert {trace.line.dash for trace in figure.data} == {"solid"}
    assert figure.layout.meta["units"] == {"x": "s", "y": "%"}
    samples = [
        MachineSample(f"2026-01-01T{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000Z", "host", "cpu_percent", 1.0)
        for n in range(5_000)
    ]
    assert len(plotly_figures.machine(samples, None, "cpu_percent")["data"][0]["x"]) <= plotly_figures.MOST_SAMPLES


STALENESS = histogram("staleness")


@pytest.mark.parametrize("count", [1, 7, 99, 100, 101, 700])
def test_mean_and_p99_are_those_of_the_numbers_themselves(count: int) -> None:
    draw = random.Random(count)
    numbers = sorted(draw.randrange(30) for _ in range(count))
    counts = Counter(numbers)
    assert mean(counts) == pytest.approx(sum(numbers) / count)
    least = next(value for value in numbers if sum(number <= value for number in numbers) * 100 >= 99 * count)
    assert percentile(counts, 99) == least


def test_histograms_tell_all_ranks_and_lose_no_count() -> None:
    said = words(STALENESS, {"trainer1": {0: 50, 2: 49}, "trainer2": {2: 100, 9: 1}})
    assert said == ("200 pushes from 2 ranks: mean 1.53 updates, 99 % at most 2 updates, max 9 updates.")
    assert words(histogram("queue_length"), {"ps": {3: 1}}) == "1 value: mean 3, 99 % at most 3, max 3."
    (trace,) = heat_map(STALENESS, Heat("perf/staleness", 0.5, 2.0, {(0, 2): 7, (2, 3): 9}, 16)).data
    assert [list(row) for row in trace.z] == [[7, None, None], [None, None, 9]]
    assert (list(trace.x), list(trace.y)) == ([0.25, 0.75, 1.25], [4.5, 6.5])
    assert "± 0.5" in trace.hovertemplate
    counts = {value: 1 + value % 3 for value in range(1_000)}
    (trace,) = strips(STALENESS, {"trainer1": counts}).data
    assert len(trace.x) <= MOST_BARS
    assert sum(trace.y) == sum(counts.values())
    assert (trace.x[1], trace.customdata[1], trace.y[1]) == (
        23.5,
        "16–31",
        sum(counts[value] for value in range(16, 32)),
    )
    assert grouped({-1: 2, 0: 3}, 4) == {-4: 2, 0: 3}


@pytest.mark.parametrize("ranks", [1, 4, 16])
def test_each_rank_has_a_strip_of_its_own_that_nothing_overlaps(ranks: int) -> None:
    figure = strips(STALENESS, {f"trainer{n}": {n: 5, n + 2: 10} for n in range(1, ranks + 1)})
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data] == [
        (f"trainer{n}", [n, n + 2], [5, 10]) for n in range(1, ranks + 1)
    ]
    axes = [figure.layout[trace.yaxis.replace("y", "yaxis")] for trace in figure.data]
    edges = [edge for axis in reversed(axes) for edge in axis.domain]
    assert edges == sorted(edges)
    assert (figure.layout.xaxis.anchor, edges[0]) == (figure.data[-1].yaxis, pytest.approx(0))
    assert all((axis.domain[1] - axis.domain[0]) * strips_height(ranks) >= 30 for axis in axes)
    assert figure.layout.height == strips_height(ranks) >= HEAT_PX
    assert figure.layout.xaxis.title.text == "staleness (updates)"
    assert "pushes" in [note.text for note in figure.layout.annotations]


def test_the_section_is_there_only_where_a_run_has_histograms(home: Home, lab: dict[Status, int], store: Store) -> None:
    run_id = lab["running"]
    assert "Histograms" not in opened("run", {"run": str(run_id)}).button_group(key="section").options
    points = [Point("perf/staleness", step, float(step % 3), step / 10) for step in range(1, 31)]
    store.worker.write(
        run_id,
        [RankBatch(0, points, histograms={("staleness", value): 10 for value in range(3)} | {("queue_length", 4): 2})],
    )
    test = opened("run", {"run": str(run_id), "section": "Histograms"})
    assert not test.exception
    assert test.button_group(key="section").value == "Histograms"
    shown = said(test)
    assert "30 pushes: mean 1.00 updates, 99 % at most 2 updates" in shown
    assert "With 2 trainers, mean staleness is 1.00 updates (at most N - 1 = 1)." in shown
    tables = html(test)
    assert "<td>trainer1</td><td>30</td><td>1.00</td><td>1</td><td>2</td><td>2</td>" in tables
    assert "Staleness over time" in tables and "Queue length by rank" in tables
    assert "Queue length" in shown
    assert "2 values: mean 4" in shown


def test_times_rates_and_sizes_begin_at_0_and_only_what_may_be_negative_goes_below() -> None:
    modes = {name: plotly_figures.range_mode(name) for name in ("perf/samples_per_second", "perf/exchanged")}
    assert modes == dict.fromkeys(modes, "tozero")
    named = ("perf/execution_time_s", "test/loss", "charts/episodic_return")
    assert [plotly_figures.range_mode(name) for name in named] == ["tozero", "nonnegative", "normal"]
