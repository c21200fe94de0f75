"""Reports: one file with all it needs, in which no text of a person becomes markup."""

import codecs
import csv
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable
from html import unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner
from hypothesis import strategies as some
from streamlit.testing.v1 import AppTest

from app.compare.zoom import answer
from app.core.assets import PLOTLY
from app.export.rerun_commands import repeating
from app.report import Chart, CommandLines, FactList, Grid, Heading, Legend, Paragraph, Part, ReportLink, report
from app.run.header import run_report
from app.ui.html import number
from engine.analysis.statistics.intervals import LIMIT
from engine.cli import main
from engine.home import Home
from engine.registry import experiment
from engine.store import Launch, Reader, Store
from engine.store.records import Status
from engine.transfer.import_child import import_path
from engine.transfer.tables import Table
from tests.app.downloads import Offered, catch, data_of, grids
from tests.app.reading import opened, said
from tests.app.test_scaling import hogwild
from tests.inputs import drawn
from tests.labs import basic, compare, figures, sweeps
from tests.labs import duel as labs
from tests.labs.compare import ACCURACY


def test_a_report_holds_plotly_its_numbers_and_the_commands_that_repeat_it(home: Home) -> None:
    figure = go.Figure().add_scatter(x=[1, 2], y=[0.5, float("nan")], name="trainer1")
    page = report(
        "Losses", [Chart("Loss", figure), Grid("Table", Table(("a",), [[float("inf")], [0.1 + 0.2]]))]
    ).decode()
    chart, grid = data_of(page)
    assert chart["figure"]["data"][0] | {"type": "scatter"} == {
        "name": "trainer1",
        "x": [1, 2],
        "y": [0.5, None],
        "type": "scatter",
    }  # type: ignore[index]
    assert grid["rows"] == [["a"], ["Infinity"], [0.1 + 0.2]]
    assert "default-src 'none'" in page and "plotly.js v" in page
    assert not re.findall(r'(?:src|href)="', page.partition("plotly.js v")[0])
    known = experiment("hogwild")
    config = known.configure("quick", {"trainers": 3})
    with Store.open(home) as store, Reader.open(home) as reader:
        store.runs.add(
            Launch(
                "hogwild", config.model_dump(mode="json"), "Ada", "quick", demand=basic.demand(config, basic.machine())
            )
        )
        assert repeating(reader.runs.one(1)) == ["python -m engine run hogwild --preset quick --set trainers=3"]


PARTS: list[Callable[[str], Part]] = [
    Heading,
    Paragraph,
    lambda text: Chart(text, go.Figure().add_bar(x=[text], y=[1], name=text), caption=text),
    lambda text: Grid(text, Table((text,), [[text]])),
    lambda text: FactList(text, [(text, text)]),
    lambda text: CommandLines(text, [text]),
    lambda text: Legend([{"label": text, "colour": 0, "dash": "solid", "symbol": "circle"}]),
    lambda text: ReportLink(text, f"https://lab.example/{text}"),
    lambda text: ReportLink(text, text),
]


@drawn(
    20,
    text=some.text()
    | some.sampled_from(
        ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{title}", "<!--<script>", "\ud800"]
    ),
)
def test_no_text_becomes_markup(text: str) -> None:
    plain = report("t", [part("x") for part in PARTS]).decode()
    found = report(text, [part(text) for part in PARTS], by=text).decode()
    for tag in ("<script", "</script", "<img", "<!--"):
        assert found.count(tag) == plain.count(tag)
    assert len(data_of(found)) == 3


def test_every_status_has_a_report_that_holds_the_numbers_of_the_store(
    home: Home, lab: dict[Status, int], reader: Reader
) -> None:
    page = run_report(lab["finished"], "Ada").decode()
    charts = {str(each["name"]): each for each in data_of(page)}
    accuracy = next(series for series in reader.curves.series(lab["finished"], ["test/accuracy"]) if series.ids)
    (trace,) = charts["Test accuracy (%)"]["figure"]["data"]  # type: ignore[index]
    assert (trace["x"], trace["y"]) == (accuracy.steps, accuracy.values)
    assert {"Training loss", "Time per rank", "Settings", "Events"} <= set(charts)
    assert "git checkout abc" in page and "python -m engine run hogwild --preset quick" in page
    assert all(run_report(run_id, "Ada").startswith(b"<!doctype html>") for run_id in lab.values())


NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?(?![\w.])")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Offered:
    return catch(monkeypatch)


def page(name: str, **query: str) -> AppTest:
    test = opened(name, query)
    assert not test.exception and not test.error
    return test


def shown(test: AppTest, *captions: str) -> set[str]:
    """Return the numbers in the tables of a page, as they are written there; links to runs are left out."""
    bodies = [str(element.proto.body) for element in test.get("html")]
    tables = [
        table
        for body in bodies
        for table in re.findall(r"<table.*?</table>", body)
        if any(f'aria-label="{caption}' in table for caption in captions)
    ]
    assert len(tables) == len(captions)
    return {
        found
        for table in tables
        for cell in re.findall(r"<td>(.*?)</td>", table)
        for found in NUMBER.findall(unescape(re.sub("<[^>]*>", " ", cell)))
    }


def written(report: bytes) -> set[str]:
    """Return every number of a report's tables as a page could write it."""
    held = [
        value for rows in grids(report).values() for row in rows[1:] for value in row if isinstance(value, int | float)
    ]
    texts = [
        found
        for rows in grids(report).values()
        for row in rows[1:]
        for value in row
        if isinstance(value, str)
        for found in NUMBER.findall(value)
    ]
    return {
        *texts,
        *(
            text
            for value in held
            for text in (*(number(value, digits) for digits in (2, 3, 4, 5)), *(f"{value:{way}}" for way in WAYS))
        ),
    }


WAYS = ("g", ".3g", ".2g", ".0f", ".0%", ".1%")


def report_of(offered: Offered) -> bytes:
    """Return the report that a page offers, whose charts name all they hold: a file of their numbers names it too."""
    (name,) = [name for name in offered if name.endswith(".html")]
    report = offered[name]()
    for chart in charts_of(report):
        traces = [trace for trace in chart["figure"]["data"] if (trace.get("line") or {}).get("width") != 0]
        assert all(trace.get("name") or "z" in trace for trace in traces), chart["name"]
    return report


def charts_of(report: bytes) -> list[Any]:
    """Return the charts of a report, those of the metrics on the page first."""
    return [each for each in data_of(report.decode()) if isinstance(each, dict) and "figure" in each]


@pytest.mark.parametrize("view", ["Scaling", "Time breakdown"])
def test_scaling_leaves_with_every_number_of_its_tables(home: Home, offered: Offered, view: str) -> None:
    hogwild(home, {"trainers": [1, 2, 4, 8]})
    test = page("scaling", runs="1-12", view=view)
    numbers = shown(
        test,
        *(("Fitted laws", "Scaling by size", "Time to the target") if view == "Scaling" else ("Time breakdown",)),
    )
    report = report_of(offered)
    assert len(numbers) > 10 and not numbers - written(report)
    text = unescape(report.decode())
    assert view != "Scaling" or text.count(LIMIT) == 2, "beside the sizes, and the time to the target"
    assert f"/scaling?runs=1-12{'' if view == 'Scaling' else '&view=Time+breakdown'}</code>" in text
    assert "python -m engine run hogwild" in text and "# run 12" in text
    sentences = [each.value.removeprefix(":orange-badge[Caution] ").replace("\\", "") for each in test.markdown]
    assert all(sentence in text for sentence in sentences if "trainers" in sentence)
    table = "by-size" if view == "Scaling" else "time-breakdown"
    rows = list(csv.reader(io.StringIO(offered[f"scaling-{table}.csv"]().decode("utf-8-sig"))))
    assert rows == [
        ["" if cell is None else str(cell) for cell in row]
        for row in grids(report)[table.replace("-", " ").capitalize()]
    ]


def test_a_sweep_leaves_with_its_numbers_and_is_launched_again_by_its_command(home: Home, offered: Offered) -> None:
    _, runs = sweeps.pipeline(home, {"splits": [1, 2, 4], "mode": ["gpipe", "1f1b"]}, 2, title="Splits; <b>modes</b>")
    for run in runs:
        sweeps.drive(home, run, "failed" if run.id == 12 else "finished")
    numbers = shown(page("sweep", sweep="1"), "Execution time of the sweep")
    report = report_of(offered)
    assert len(numbers) > 10 and not numbers - written(report)
    text = unescape(report.decode())
    assert (
        "python -m engine sweep pipeline --preset quick --over splits=1,2,4 --over mode=gpipe,1f1b --seeds 2 "
        "--name 'Splits; <b>modes</b>'"
    ) in text
    assert "Ideal: the work with 1 split" in text and "11 finished, 1 failed" in text
    last = json.loads(offered["sweep-1-the-runs.json"]())[-1]
    assert [last[name] for name in ("run", "status", "splits", "mode", "seed")] == [12, "failed", 4, "1f1b", 1]


FACTS = ("run", "name", "experiment", "preset", "owner", "status", "execution_time_s", "work", "disturbance (%)")


def test_runs_leave_as_the_same_rows_from_every_view_and_the_command_line(
    home: Home, offered: Offered, store: Store
) -> None:
    _, runs = sweeps.pipeline(home, {"splits": [1, 2]}, 2, owner="Zoë", title="=1+1; ε")
    for run in runs:
        sweeps.drive(home, run)
    found = labs.whole(home, "hogwild", "parameter_server", amount=8)
    for name, query in (
        ("runs", {}),
        ("compare", {"runs": "1-4", "tab": "bars"}),
        ("duel", {"duel": "1"}),
        ("sweep", {"sweep": "1"}),
    ):
        page(name, **query)
    kinds = {"--sweep": "sweep-1", "--duel": "duel-1"}
    read = {}
    for view in ("runs", "compare", "duel-1", "sweep-1"):
        raw = offered[f"{view}-the-runs.csv"]()
        assert raw.startswith(codecs.BOM_UTF8)
        read[view] = {row["run"]: row for row in csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline=""))}
        assert all(name in row for row in read[view].values() for name in FACTS)
    for option, view in kinds.items():
        told = CliRunner().invoke(main, ["export", option, "1", "--rows", "run", "--format", "csv"])
        rows = {row["run"]: row for row in csv.DictReader(io.StringIO(told.stdout, newline=""))}
        assert rows and rows == {run_id: row for run_id, row in read[view].items() if run_id in rows}
    first = read["sweep-1"]["1"]
    assert (first["preset"], first["owner"], first["status"], first["splits"]) == ("quick", "Zoë", "finished", "1")
    assert first["name"].startswith("'=1+1; ε"), "no spreadsheet carries it out"
    assert first["work"] == "45"
    ranked = [row for row in read["runs"].values() if row["result"]]
    assert ranked and all(row[row["result_metric"]] == row["result"] for row in ranked)
    assert read["compare"] == read["sweep-1"], "the same runs, the same rows"
    assert set(read["runs"]) == {str(run_id) for run_id in range(1, 1 + len(read["runs"]))}
    assert {key: value for key, value in read["runs"]["1"].items() if value} == {
        key: value for key, value in first.items() if value
    }
    for each in found.cells:
        row = read["duel-1"][str(each.run.id)]  # type: ignore[union-attr]
        assert row["strategy"] == found.duel.strategies[each.strategy].name
        assert float(row["test/accuracy within budget (%)"]) == each.value


def test_a_figure_leaves_with_results_and_published_series_and_a_bundle_that_keeps_them(
    home: Home, offered: Offered
) -> None:
    figures.pipeline(home, lambda splits: splits / 10)
    test = page("figures", figure="pipeline_as_run")
    numbers = shown(test, "Published values of", "Measured values")
    report = report_of(offered)
    assert not numbers - written(report)
    assert [row[0] for row in grids(report)["Measured values"]] == ["splits", 15, 30, 60, 120] and "16.45" in numbers
    assert [row[3] for row in grids(report)["Published values"][1:]] == ["not comparable"] * 4
    text = unescape(report.decode())
    assert "4 not comparable" in text and "pytorch/examples#749" in text
    assert LIMIT in text and LIMIT in said(test)
    assert "python -m engine figures pipeline_as_run --launch reduced" in text
    assert "/figures?figure=pipeline_as_run&sweep=1" in text
    (chart, *_) = [each for each in data_of(report.decode()) if isinstance(each, dict) and "figure" in each]
    assert [trace.get("name") for trace in chart["figure"]["data"] if trace.get("showlegend", True)] == [
        "measured",
        "published, at the actual splits",
    ]


def test_a_mean_of_staggered_tests_has_no_jump_on_the_page_in_its_report_its_table_and_its_zoom(
    home: Home, offered: Offered, store: Store
) -> None:
    ids = compare.staggered(store)
    query = {"runs": "-".join(map(str, (ids[0], ids[-1]))), "group": "trainers", "metrics": ACCURACY, "x": "passes"}
    page("compare", **query)
    text = report_of(offered).decode()
    (chart,) = [each for each in data_of(text) if isinstance(each, dict) and "figure" in each]
    zoomed = answer(home, query, ACCURACY, (20.0, 40.0))
    for figure in (chart["figure"], zoomed["figure"]):
        (centre,) = [trace for trace in figure["data"] if trace.get("name") == "trainers 2 (n=3)"]
        x, y = numbers_of(centre["x"]), numbers_of(centre["y"])
        drawn = np.isfinite(y)
        assert drawn.sum() == 32 and (x[drawn].min(), x[drawn].max()) == pytest.approx((5.05, 60))
        assert y[drawn] == pytest.approx(50 + x[drawn] / 2)
    assert "where all of them have values" in text
    (name,) = [name for name in offered if name.endswith("passes.csv")]
    rows = list(csv.DictReader(io.StringIO(offered[name]().decode("utf-8-sig"))))
    assert len(rows) == 32 and all(float(row["value"]) == pytest.approx(50 + float(row["passes"]) / 2) for row in rows)


def numbers_of(sent: Any) -> np.ndarray:
    """Return a column of a trace, as a list or packed."""
    if isinstance(sent, dict):
        return np.frombuffer(b64decode(sent["bdata"]), sent["dtype"]).astype(float)
    return np.array([np.nan if value is None else value for value in sent], dtype=float)


TABS = {
    "bars": "Values of the runs",
    "scatter": "Values of the runs",
    "parallel": "Values of the runs",
    "differences": "Config of the runs",
}


@pytest.mark.parametrize("tab", ["curves", *TABS])
def test_each_tab_of_a_comparison_leaves_as_it_is(home: Home, offered: Offered, tab: str, reader: Reader) -> None:
    compare.fill(home)
    test = page("compare", runs="1-6", tab=tab, x="step", same="0", group="none")
    report = report_of(offered)
    text = unescape(report.decode())
    assert f"/compare?runs=1-6{'' if tab == 'curves' else f'&tab={tab}'}&x=step&group=none&v=3" in text
    rows = grids(report)
    assert [row[0] for row in rows["The runs"][1:]] == [1, 2, 3, 4, 5, 6] and "trainers" in rows[
        "Settings: fields that differ"
    ][0]
    assert '<th scope="col">Trainers</th>' in text and "Batch size" in text
    assert len(charts_of(report)) == {"curves": 2, "differences": 0}.get(tab, 1)
    if tab == "curves":
        losses = [series for series in reader.curves.series(4, ["train/loss"]) if series.ids]
        table = list(
            csv.DictReader(io.StringIO(offered["compare-training-loss-against-step.csv"]().decode("utf-8-sig")))
        )
        of_run = [
            [float(row["value"]) for row in table if row["run"] == "4" and row["rank"] == str(series.rank)]
            for series in losses
        ]
        assert of_run == [series.values for series in losses]
        assert "The ranks of Hogwild!, Reference" in text
    else:
        assert len(rows[TABS[tab]]) > 1
    if tab == "differences":
        assert '<th scope="col">Title</th>' in text
        assert rows["Config of the runs"][0][:2] == ["title", "field"]
        assert ["Trainers", "trainers"] in [row[:2] for row in rows["Config of the runs"]]
        numbers = (
            shown(test, "Config of the runs", "Environment of the runs")
            if rows.get("Environment of the runs")
            else shown(test, "Config of the runs")
        )
        assert not numbers - written(report)


@pytest.mark.parametrize(
    ("view", "query", "shown", "others"),
    [
        (
            "compare",
            {"runs": "1-6", "metrics": ACCURACY},
            "Test accuracy by passes, 6 runs",
            {"Training loss by passes"},
        ),
        (
            "sweep",
            {"sweep": "1", "number": "perf/execution_time_s"},
            "Execution time by trainers",
            {"Test accuracy by trainers"},
        ),
    ],
)
def test_a_report_holds_the_metrics_that_the_page_does_not_show(
    home: Home, offered: Offered, view: str, query: dict[str, str], shown: str, others: set[str]
) -> None:
    if view == "compare":
        compare.fill(home)
    else:
        hogwild(home, {"trainers": [1, 2]})
    page(view, **query)
    report = report_of(offered)
    first, *more = [chart["name"] for chart in charts_of(report)]
    assert first == shown and others <= set(more)
    assert unescape(report.decode()).index("Other metrics") > 0


def test_a_long_curve_leaves_as_it_is_drawn_and_the_report_says_so(home: Home, offered: Offered, store: Store) -> None:
    for seed in range(10):
        compare.add(store, steps=4_000, trainers=2, seed=seed)
    page("compare", runs="1-10", metrics="train/loss", group="none")
    report = report_of(offered)
    assert re.search(r"Showing \d,\d{3} of 40,000 points\.", report.decode())
    assert len(report) < PLOTLY.stat().st_size + 500_000


def test_nothing_is_made_before_it_is_asked_for_and_a_bundle_is_taken_in_elsewhere(
    home: Home, offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare.fill(home)
    made: list[str] = []
    monkeypatch.setattr("app.report.page_capture.of_frame", lambda frame: made.append("table"))
    page("compare", runs="1-6", tab="bars")
    assert offered and not made
    hogwild(home, {"trainers": [1, 2]}, seeds=1)
    page("sweep", sweep="1")
    other = Home(home.path.parent / "other").create()
    path = home.path.parent / "sweep.zip"
    path.write_bytes(offered["sweep-1.zip"]())
    with Store.open(other) as store:
        assert import_path(store, path, by="Lin").sweeps == (1,)
