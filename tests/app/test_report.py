"""Reports: one file with all it needs, in which no text of a person becomes markup."""

import re
from collections.abc import Callable

import plotly.graph_objects as go
from hypothesis import strategies as some

from app.repeating import repeating
from app.report import Chart, Commands, Facts, Grid, Heading, Legend, Link, Paragraph, Part, report
from app.run_report import run_report
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader, Store
from engine.store.records import Status
from engine.transfer.tables import Table
from tests.app import labs
from tests.app.downloads import data_of
from tests.inputs import drawn


def test_a_report_holds_plotly_and_its_numbers_and_forbids_the_network() -> None:
    figure = go.Figure().add_scatter(x=[1, 2], y=[0.5, float("nan")], name="trainer1")
    page = report("Losses", [Chart("Loss", figure), Grid("Numbers", Table(("a",), [[float("inf")], [0.1 + 0.2]]))]).decode()
    chart, grid = data_of(page)
    assert chart["figure"]["data"][0] | {"type": "scatter"} == {"name": "trainer1", "x": [1, 2], "y": [0.5, None], "type": "scatter"}  # type: ignore[index]
    assert grid["rows"] == [["a"], ["Infinity"], [0.1 + 0.2]]
    assert "default-src 'none'" in page and "plotly.js v" in page
    assert not re.findall(r'(?:src|href)="', page.partition("plotly.js v")[0])


PARTS: list[Callable[[str], Part]] = [
    Heading,
    Paragraph,
    lambda text: Chart(text, go.Figure().add_bar(x=[text], y=[1], name=text), caption=text),
    lambda text: Grid(text, Table((text,), [[text]])),
    lambda text: Facts(text, [(text, text)]),
    lambda text: Commands(text, [text]),
    lambda text: Legend([{"label": text, "colour": 0, "dash": "solid", "symbol": "circle"}]),
    lambda text: Link(text, f"https://lab.example/{text}"),
    lambda text: Link(text, text),
]


@drawn(20, text=some.text() | some.sampled_from(["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{title}", "<!--<script>", "\ud800"]))
def test_no_text_becomes_markup(text: str) -> None:
    plain = report("t", [part("x") for part in PARTS]).decode()
    found = report(text, [part(text) for part in PARTS], by=text).decode()
    for tag in ("<script", "</script", "<img", "<!--"):
        assert found.count(tag) == plain.count(tag)
    assert len(data_of(found)) == 3


def test_the_report_of_a_run_holds_the_numbers_of_the_store(home: Home, lab: dict[Status, int]) -> None:
    page = run_report(lab["finished"], "Ada").decode()
    charts = {str(each["name"]): each for each in data_of(page)}
    with Reader.open(home) as reader:
        accuracy = next(series for series in reader.series(lab["finished"], ["test/accuracy"]) if series.ids)
    (trace,) = charts["Test accuracy (%)"]["figure"]["data"]  # type: ignore[index]
    assert (trace["x"], trace["y"]) == (accuracy.steps, accuracy.values)
    assert {"Training loss", "Where each rank's time went", "Settings", "Events"} <= set(charts)
    assert "git checkout abc" in page and "python -m engine run hogwild --preset quick" in page


def test_every_status_has_a_report(home: Home, lab: dict[Status, int]) -> None:
    assert all(run_report(run_id, "Ada").startswith(b"<!doctype html>") for run_id in lab.values())


def test_the_commands_set_what_differs_from_the_preset(home: Home) -> None:
    known = experiment("hogwild")
    config = known.configure("quick", {"trainers": 3})
    with Store.open(home) as store, Reader.open(home) as reader:
        store.add_run("hogwild", config.model_dump(mode="json"), owner="Ada", demand=labs.demand(config, labs.machine()), preset="quick")
        assert repeating(reader.run(1)) == ["python -m engine run hogwild --preset quick --set trainers=3"]
