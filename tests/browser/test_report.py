"""A report opens without a network and shows the store's numbers; a chart is saved as a picture and as its numbers."""

import codecs
import csv
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from app.run.header import run_report
from engine.store import Reader, Store
from tests.browser.conftest import Lab, Members, sign_in
from tests.browser.places import settle
from tests.browser.test_choices import OFFERED
from tests.labs import basic
from tests.labs.people import PASSWORD

pytestmark = pytest.mark.browser


def views(lab: Lab) -> dict[str, tuple[str, str]]:
    """Return the address and a part of a sentence of each view; `time` is chosen by a click."""
    runs = f"{lab.compared[0]}-{lab.compared[4]}"
    return {
        "groups": (f"/compare?runs={runs}&group=trainers&v=2", "Mean over the runs of each group"),
        "scaling": (f"/scaling?runs={lab.small.runs}", "Speed-up compares samples per second"),
        "time": (f"/sweep?sweep={lab.small.sweep}", "Every added rank pays off, up to 8 trainers"),
        "figure": ("/figures?figure=pipeline_as_run", "the reduced version does different work from the source"),
    }


PAINTED = """([nodes, many]) => { const found = [...document.querySelectorAll(nodes)];
  return found.length && found.length === (many ?? found.length)
    && found.every(node => node._fullData?.length && node.querySelector('.scatterlayer path, .barlayer path')) }"""
PICTURE = """nodes => [...document.querySelectorAll(nodes)].map(node => node._fullData.map(trace =>
  [trace.name, trace.line?.dash, trace.marker?.symbol, trace.marker?.color, Array.from(trace.x), Array.from(trace.y, value => value ?? null)]))"""  # noqa: E501
DRAWN = "document.body.dataset.drawn"
TRACES = (
    "[...document.querySelectorAll('.plot')].map(plot => plot._fullData.map(trace => ({name: trace.name, x: "
    "[...trace.x], y: [...trace.y]})))"
)


@pytest.fixture
def run(lab: Lab) -> int:
    """Give a run that ended."""
    with Store.open(lab.home) as store:
        made = basic.add(store, "Ada")
        basic.drive(store, lab.home, made, "finished")
    return made


def test_a_report_opens_without_a_network_shows_the_same_numbers_lays_them_out_and_turns_dark(
    lab: Lab, run: int, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(run_report(run, "Ada"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_function(f"{DRAWN} !== undefined")
    with Reader.open(lab.home) as reader:
        losses = [series for series in reader.curves.series(run, ["train/loss"]) if series.ids]
    drawn = page.evaluate(TRACES)[0]
    assert page.evaluate(OFFERED) == []
    assert [(trace["name"], trace["x"]) for trace in drawn] == [
        (role, series.steps) for role, series in zip(basic.ROLES, losses, strict=True)
    ]
    for trace, series in zip(drawn, losses, strict=True):
        assert [value for value in trace["y"] if value is not None] == [
            value for value in series.values if value == value
        ]
    assert asked == [path.as_uri()]
    page.get_by_text("Table", exact=True).first.click()
    expect(page.locator(".numbers tr")).to_have_count(201)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Toggle theme").click()
    page.wait_for_function(f"light => {ground} !== light", arg=light)


def pictures(page: Page, nodes: str, many: int | None = None) -> Any:
    """Return every trace of the charts of a page, so many where it is known: name, dash, marker, colour and points."""
    page.wait_for_function(PAINTED, arg=[nodes, many])
    return page.evaluate(PICTURE, nodes)


def test_the_reports_of_all_views_show_offline_what_their_pages_show(lab: Lab, page: Page, tmp_path: Path) -> None:
    seen = {}
    for name, (path, told) in views(lab).items():
        page.goto(f"{lab.address}{path}")
        if name == "time":
            page.get_by_role("radio", name="Time breakdown").click()
            page.wait_for_url("**view=Time+breakdown*")
        page.get_by_text(told).first.wait_for()
        settle(page)
        drawn = pictures(page, ".pl-figure")
        page.get_by_role("button", name="Download", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Report (HTML)").click()
        report = tmp_path / f"{name}.html"
        download.value.save_as(report)
        seen[report] = (drawn, page.url, told)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    for report, (drawn, address, told) in seen.items():
        page.goto(report.as_uri())
        assert pictures(page, ".plot", len(drawn)) == drawn
        assert page.get_by_text(told).first.is_visible()
        assert page.get_by_role("link").first.get_attribute("href").split("&sweep=")[0] == address  # type: ignore[union-attr]
    assert asked == [report.as_uri() for report in seen]


def test_a_chart_is_saved_as_svg_png_and_csv(lab: Lab, run: int, page: Page) -> None:
    page.goto(f"{lab.address}/run?run={run}&smooth=0")
    panel = page.locator(".pl-panel").filter(has_text="Training loss")
    saved = {}
    for title in ("Save as SVG", "Save as PNG", "Save data as CSV"):
        name, saved[title] = saved_by(page, panel, title)
        assert name.startswith(f"run-{run}-train-loss.")
    said = texts_of(saved["Save as SVG"])
    heading = page.get_by_role("heading", level=1).inner_text()
    assert said[:2] == ["Training loss by rank", heading] and "Training loss" in said, "title, run, y-axis"
    assert saved["Save as SVG"].startswith(b"<svg") and saved["Save as PNG"].startswith(b"\x89PNG")
    rows = list(csv.reader(io.StringIO(saved["Save data as CSV"].decode("utf-8-sig"))))
    assert rows[0] == ["series", "Passes over the training data (all ranks)", "Training loss"] and {
        row[0] for row in rows[1:]
    } == {"trainer1", "trainer2"}
    assert len(rows) == 201


def texts_of(svg: bytes) -> list[str]:
    """Return the texts of a picture in the order of its file."""
    return [" ".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("path", "title", "value", "says"),
    [
        ("/run?run={run}", "Test accuracy by rank", "Test accuracy (%)", ""),
        (
            "/compare?runs={first}-{last}&group=trainers&band=range",
            "Test accuracy by passes, 5 runs",
            "Test accuracy (%)",
            "Mean of the runs of each group, band: min to max",
        ),
        ("/sweep?sweep={sweep}", "Throughput by trainers", "Throughput (samples/s)", "Lines connect means over seeds;"),
    ],
)
def test_pictures_and_data_under_download_name_the_chart_its_page_what_is_along_y_and_what_lines_are(
    lab: Lab, page: Page, path: str, title: str, value: str, says: str
) -> None:
    first, last = lab.compared[0], lab.compared[4]
    page.goto(lab.address + path.format(run=first, first=first, last=last, sweep=lab.small.sweep))
    page.locator(":is(.pl-figure, .pl-plot) .scatterlayer path").first.wait_for()
    heading = page.get_by_role("heading", level=1).inner_text()
    page.get_by_role("button", name="Download", exact=True).click()
    form = page.locator(".pl-pictures")
    form.get_by_label("Chart").select_option(title)
    with page.expect_download() as download:
        form.get_by_role("button", name="SVG").click()
    said = texts_of(download.value.path().read_bytes())
    assert said[:2] == [title, heading] and value in said and says in " ".join(said[2:4])
    with page.expect_download() as download:
        form.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename.endswith(".csv")
    assert next(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))[2] == value


def saved_by(page: Page, panel: Locator, title: str) -> tuple[str, bytes]:
    """Return the name and content of the file that a button of a chart's toolbar saves."""
    panel.hover()
    with page.expect_download() as download:
        panel.locator(f'[data-title="{title}"]').click()
    return download.value.suggested_filename, download.value.path().read_bytes()


@pytest.mark.parametrize("name", ["groups", "sweep"])
def test_the_numbers_of_a_chart_name_groups_and_runs_and_a_band_is_two_columns(lab: Lab, page: Page, name: str) -> None:
    path = {"groups": views(lab)["groups"][0], "sweep": f"/sweep?sweep={lab.small.sweep}"}[name]
    page.goto(f"{lab.address}{path}")
    chart = page.locator(".pl-card").first
    chart.locator(".scatterlayer path").first.wait_for()
    settle(page)
    _, data = saved_by(page, chart, "Save data as CSV")
    assert data.startswith(codecs.BOM_UTF8)
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert {"low", "high", "run"} <= set(rows[0]) and not {"x", "y"} & set(rows[0]), "axes are named"
    assert not [row["series"] for row in rows if re.search(r"^trace \d|outline|^$", row["series"])]
    single = [row for row in rows if "single runs" in row["series"]]
    assert single and all(row["run"].isdecimal() for row in single)
    _, value = list(rows[0])[1:3]
    means = [row for row in rows if row["low"]]
    assert means and all(float(row["low"]) <= float(row[value]) <= float(row["high"]) for row in means)


def test_pictures_of_a_size_stand_under_download(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/sweep?sweep={lab.small.sweep}")
    page.locator(".pl-figure .scatterlayer path").first.wait_for()
    page.get_by_role("button", name="Download", exact=True).click()
    form = page.locator(".pl-pictures")
    form.get_by_label("Width (px)").fill("640")
    form.get_by_label("Height (px)").fill("360")
    saved = {}
    for kind in ("SVG", "PNG"):
        with page.expect_download() as download:
            form.get_by_role("button", name=kind).click()
        assert download.value.suggested_filename.endswith(f"-by-trainers.{kind.lower()}")
        saved[kind] = download.value.path().read_bytes()
    assert 'width="640" height="360"' in saved["SVG"].decode()[:300]
    assert Image.open(io.BytesIO(saved["PNG"])).size == (640, 360)
    form.get_by_label("Width (px)").fill("1600")
    form.get_by_label("Height (px)").fill("900")
    with page.expect_download() as download:
        form.get_by_role("button", name="SVG").click()
    drawn = page.context.new_page()
    drawn.set_viewport_size({"width": 1600, "height": 900})
    drawn.set_content(f"<body style='margin:0'>{download.value.path().read_text()}</body>")
    title = drawn.locator(".ytitle").bounding_box()
    tick = drawn.locator(".xtick text").first.evaluate(
        "text => parseFloat(text.style.fontSize) * text.getScreenCTM().a"
    )
    assert tick == 24 and title and title["x"] >= 12, (tick, title)
    labels = [box["x"] for each in drawn.locator(".ytick text").all() if (box := each.bounding_box())]
    assert title["x"] + title["width"] + 8 <= min(labels)
    drawn.close()
    form.get_by_label("Width (px)").fill("5")
    form.get_by_role("button", name="SVG").click()
    assert not form.get_by_label("Width (px)").evaluate("field => field.validity.valid"), "the browser says why"


def test_a_run_is_taken_from_one_lab_to_another_in_the_browser(
    lab: Lab, members: Members, run: int, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{lab.address}/run?run={run}")
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Bundle").click()
    bundle = tmp_path / "run.zip"
    download.value.save_as(bundle)
    sign_in(page, members.address, "mia", PASSWORD, "/runs")
    page.get_by_role("button", name="Import").click()
    page.locator('input[type="file"]').set_input_files(bundle)
    page.get_by_role("button", name="Import file").click()
    page.get_by_text("1 run imported.").wait_for()
    page.get_by_role("button", name="Import file").click()
    page.get_by_text("its run is already here").wait_for()
