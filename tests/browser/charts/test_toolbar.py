"""How a chart is looked at: presented, on a log axis, with the crosshair of the page, names at the ends of lines."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from app.charts.curve_charts import HEIGHT_PX
from app.core.formatting import scaled
from engine.home import ROOT
from engine.recorder import Point
from engine.store import RankBatch, Store
from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.browser.test_live import drawn, path_of, points, pytestmark, run, store
from tests.labs import basic
from tests.labs.traced import add_trace
from tests.waiting import wait_until

__all__ = ["pytestmark", "run", "store"]
SHOWN = """plot => {
  const box = plot.closest('.pl-panel, .pl-card').getBoundingClientRect();
  return {
    fills: box.x === 0 && box.y === 0 && box.width === innerWidth && box.height === innerHeight,
    font: plot._fullLayout.font.size,
    line: Math.max(...plot._fullData.map((trace) => trace.line?.width ?? 0)),
    height: plot._fullLayout.height,
    legend: plot._fullLayout.showlegend,
  };
}"""
HOLDS_ITS_TITLE = """plot => {
  const [title, whole] = [plot.querySelector('.xtitle'), plot].map((each) => each?.getBoundingClientRect());
  return title?.width > 0 && whole.x <= title.x && title.right <= whole.right;
}"""
CROSSHAIRS = """() => [...document.querySelectorAll('.pl-crosshair')].filter((line) => !line.hidden).map((line) => {
  const plot = line.closest('.js-plotly-plot');
  const { xaxis } = plot._fullLayout;
  return xaxis.p2d(parseFloat(line.style.left) - xaxis._offset) * (plot.units.x?.size ?? 1);
})"""
BOX = "plot => [...plot.querySelectorAll('.hoverlayer text')].map((text) => text.textContent)"
ENDS = "plot => [...plot.querySelectorAll('.pl-ends span')].map((label) => label.textContent)"


def compared(lab: Lab, more: str = "") -> str:
    return f"{lab.address}/compare?runs={lab.compared[0]}-{lab.compared[4]}{more}"


def figure(page: Page, at: int = 0) -> Locator:
    """Return a figure of the page once all are drawn."""
    plot = page.locator(".pl-figure").nth(at)
    plot.locator(".nsewdrag").wait_for()
    settle(page)
    return plot


def press(plot: Locator, title: str) -> None:
    """Press a button of a chart's toolbar, which is there while the mouse is over the chart."""
    plot.hover()
    plot.locator(f'.modebar-btn[data-title^="{title}"]').click()


def test_a_live_chart_is_presented_while_it_grows_until_escape(lab: Lab, page: Page, store: Store, run: int) -> None:
    page.goto(path_of(lab, run))
    plot = drawn(page)
    before = plot.evaluate(SHOWN)
    press(plot, "Present")
    wait_until(lambda: plot.evaluate(SHOWN)["font"] == 24, "the text is large")
    shown = plot.evaluate(SHOWN)
    assert shown["fills"] and shown["line"] > 4 and shown["height"] > 1_000
    expect(page.get_by_role("heading", name="Training loss")).to_be_visible()
    known = points(page)
    basic.record(store, run, steps=60, first=101)
    wait_until(lambda: points(page) == known + 60, "the new points were drawn")
    assert plot.evaluate(SHOWN) == shown
    page.keyboard.press("Escape")
    wait_until(lambda: plot.evaluate(SHOWN) == before, "the chart is on the page as before")


def test_back_ends_the_presentation_of_a_chart_and_its_end_leaves_nothing_to_go_back_to(
    lab: Lab, page: Page, run: int
) -> None:
    page.goto(f"{lab.address}/machine")
    page.goto(path_of(lab, run))
    plot = drawn(page)
    page.evaluate("window.here = true")
    before = plot.evaluate(SHOWN)
    for reloads in (False, True):
        press(plot, "Present")
        wait_until(lambda: plot.evaluate(SHOWN)["fills"], "the chart is presented")
        expect(page).to_have_url(re.compile("present="))
        if reloads:
            page.reload()
            wait_until(lambda: drawn(page).evaluate(SHOWN)["fills"], "it is presented after a reload")
        page.go_back()
        wait_until(lambda: plot.evaluate(SHOWN) == before, "the chart is on the page as before")
        expect(page).to_have_url(path_of(lab, run))
        assert reloads or page.evaluate("window.here"), "the page was not left"
    press(plot, "Present")
    wait_until(lambda: plot.evaluate(SHOWN)["fills"], "the chart is presented")
    page.keyboard.press("Escape")
    expect(page).to_have_url(path_of(lab, run))
    wait_until(lambda: plot.evaluate(SHOWN) == before, "the chart is on the page as before")
    page.go_back()
    expect(page).to_have_url(f"{lab.address}/machine")


def test_the_page_of_the_newest_run_turns_to_the_next_one_and_presents_its_chart_too(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    of_hogwild = quote("experiment == 'hogwild'")
    page.goto(f"{lab.address}/run?latest={of_hogwild}")
    expect(page.get_by_role("heading", name=re.compile(f"^Run {run}: "))).to_be_visible()
    press(drawn(page), "Present")
    wait_until(lambda: drawn(page).evaluate(SHOWN)["font"] == 24, "the text is large")
    newer = basic.add(store, "Ada")
    basic.drive(store, lab.home, newer, "running")
    expect(page.locator(".pl-of")).to_have_text(re.compile(f"^Run {newer}: "))
    wait_until(lambda: drawn(page).evaluate(SHOWN)["fills"], "the chart of the next run is presented")
    page.keyboard.press("Escape")
    wait_until(lambda: not drawn(page).evaluate(SHOWN)["fills"], "the chart is on the page")


def test_a_wall_screen_stays_presented_until_the_next_run_has_values_and_after_a_reload(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    of_hogwild = quote("experiment == 'hogwild'")
    page.goto(f"{lab.address}/run?latest={of_hogwild}")
    chart = page.locator(".pl-plot[data-metric='train/loss']")
    chart.locator(".nsewdrag").wait_for()
    press(chart, "Present")
    wait_until(lambda: chart.evaluate(SHOWN)["font"] == 24, "the text is large")
    newer = basic.add(store, "Ada")
    held = page.locator(".pl-held")
    expect(held.get_by_role("heading")).to_have_text(f"Run {newer}: no values of Training loss yet")
    page.reload()
    expect(held.get_by_role("heading")).to_have_text(f"Run {newer}: no values of train/loss yet")
    box = held.bounding_box()
    assert box and box["x"] == box["y"] == 0 and page.evaluate("innerWidth") == box["width"]
    basic.drive(store, lab.home, newer, "running")
    wait_until(lambda: chart.count() and chart.evaluate(SHOWN)["fills"], "the chart of the next run is presented")
    expect(held).to_have_count(0)
    page.reload()
    wait_until(lambda: chart.count() and chart.evaluate(SHOWN)["fills"], "it is presented after a reload")
    page.keyboard.press("Escape")
    wait_until(lambda: not chart.evaluate(SHOWN)["fills"], "the chart is on the page")
    expect(page).not_to_have_url(re.compile("present="))


def test_a_wall_screen_presents_the_rank_activity_of_the_next_run_too(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    of_hogwild = quote("experiment == 'hogwild'")
    page.goto(f"{lab.address}/run?latest={of_hogwild}")
    page.locator("[data-slot=strip]").get_by_role("button", name="Present").click()
    expect(page.locator(".pl-of")).to_have_text(re.compile(f"^Run {run}: "))
    newer = basic.add(store, "Ada")
    expect(page.locator(".pl-held h2")).to_have_text(f"Run {newer}: no values of rank activity yet")
    basic.drive(store, lab.home, newer, "running")
    expect(page.locator("[data-slot=strip] .pl-of")).to_have_text(re.compile(f"^Run {newer}: "))
    expect(page.locator(".pl-present")).to_have_count(1)


def test_on_a_phone_the_titles_of_a_presented_chart_and_its_close_button_are_whole(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{lab.address}/run?run={lab.compared[0]}&present=curve train/loss")
    chart = page.locator(".pl-plot[data-metric='train/loss']")
    wait_until(lambda: chart.count() and chart.evaluate(SHOWN)["fills"], "the chart is presented")
    wait_until(lambda: chart.evaluate(SHOWN)["line"] > 4 and chart.evaluate(HOLDS_ITS_TITLE), "it is drawn again")
    settle(page)
    close = chart.locator('.modebar-btn[data-title^="Present"]')
    expect(close).to_have_text("Close")
    assert close.evaluate("button => button.scrollHeight <= button.clientHeight")


def test_a_presented_figure_names_its_lines_and_ends_by_the_same_button(lab: Lab, page: Page) -> None:
    page.goto(compared(lab, "&group=trainers&v=2"))
    plot = figure(page)
    before = plot.evaluate(SHOWN)
    assert not before["legend"]
    page.mouse.move(5, 5)
    present, other = plot.get_by_role("button", name="Present"), plot.get_by_role("button", name="Save as PNG")
    expect(present).to_have_text("Present")
    opacity = "button => getComputedStyle(button.parentElement).opacity"
    wait_until(lambda: [each.evaluate(opacity) for each in (present, other)] == ["1", "0"], "only Present is visible")
    press(plot, "Present")
    wait_until(lambda: plot.evaluate(SHOWN)["font"] == 24, "the text is large")
    shown = plot.evaluate(SHOWN)
    assert shown["fills"] and shown["legend"]
    expect(page.get_by_role("heading", name="Test accuracy by passes, 5 runs")).to_be_visible()
    expect(page.locator(".pl-of")).to_have_text(["Compare", re.compile("^Mean of the runs of each group, band: ")])
    way_out = plot.locator('.modebar-btn[data-title^="Present"]')
    expect(way_out).to_have_text("Close")
    page.keyboard.press("Escape")
    expect(way_out).to_have_text("Present")
    wait_until(lambda: plot.evaluate(SHOWN) == before, "the chart is on the page as before")
    expect(page.get_by_role("heading", name="Test accuracy by passes, 5 runs")).to_have_count(0)
    press(plot, "Present")
    wait_until(lambda: plot.evaluate(SHOWN) == shown, "the chart fills the window")
    press(plot, "Present")
    wait_until(lambda: plot.evaluate(SHOWN) == before, "the chart is on the page as before")


def test_the_message_flow_the_rank_activity_and_the_timeline_are_presented_too(
    lab: Lab, page: Page, store: Store
) -> None:
    traced = basic.add(store, "Ada")
    basic.drive(store, lab.home, traced, "finished")
    add_trace(store, traced)
    for path, box in (
        ("launch?experiment=hogwild", ".pl-flow"),
        (f"run?run={traced}", "[data-slot=strip]"),
        (f"run?run={traced}&section=Timeline", ".pl-timeline"),
    ):
        page.goto(f"{lab.address}/{path}")
        shown = page.locator(box)
        size = "box => [box.clientWidth, box.clientHeight].join() === [innerWidth, innerHeight].join()"
        shown.get_by_role("button", name="Present").click()
        wait_until(lambda: shown.evaluate(size), f"{box} fills the window")  # noqa: B023
        expect(shown.get_by_role("button", name="Close")).to_be_visible()
        if box == ".pl-flow":
            expect(shown.get_by_role("heading")).to_have_text("Hogwild!: how the processes exchange messages")
        page.reload()
        wait_until(lambda: shown.count() and shown.evaluate(size), f"{box} fills the window after a reload")  # noqa: B023
        page.go_back()
        expect(shown.get_by_role("button", name="Present")).to_be_visible()
        expect(page).to_have_url(f"{lab.address}/{path}")
        shown.get_by_role("button", name="Present").click()
        expect(page).to_have_url(re.compile("present="))
        page.keyboard.press("Escape")
        expect(shown.get_by_role("button", name="Present")).to_be_visible()
        expect(page).to_have_url(f"{lab.address}/{path}")
        assert not shown.evaluate(size)


def test_the_log_axis_of_a_live_chart_is_kept_by_new_points_and_another_x_axis(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    def kinds() -> list[str]:
        return [
            page.locator(f"[data-metric='{name}']").evaluate("plot => plot._fullLayout.yaxis.type")
            for name in ("train/loss", "test/accuracy")
        ]

    page.goto(path_of(lab, run))
    plot = drawn(page)
    press(plot, "Log y-axis")
    wait_until(lambda: kinds() == ["log", "linear"], "the axis of this chart is logarithmic")
    known = points(page)
    basic.record(store, run, steps=60, first=101)
    wait_until(lambda: points(page) == known + 60, "the new points were drawn")
    page.get_by_role("radio", name="Time", exact=True).click()
    wait_until(lambda: "Time" in plot.evaluate("plot => plot._fullLayout.xaxis.title.text"), "the x-axis is time")
    assert kinds() == ["log", "linear"]
    expect(plot.locator('.modebar-btn[data-title="Log y-axis"]')).to_have_attribute("aria-pressed", "true")
    press(plot, "Log y-axis")
    wait_until(lambda: kinds() == ["linear", "linear"], "the axis is linear again")


def test_a_log_axis_of_the_page_is_undone_for_one_chart_and_a_band_stays_closed(lab: Lab, page: Page) -> None:
    page.goto(compared(lab, "&group=trainers&log=y&v=2"))
    plot, other = figure(page, 1), figure(page, 0)
    kind = "plot => plot._fullLayout.yaxis.type"
    assert [each.evaluate(kind) for each in (plot, other)] == ["log", "log"]
    press(plot, "Log y-axis")
    wait_until(lambda: [each.evaluate(kind) for each in (plot, other)] == ["linear", "log"], "one axis is linear")
    page.get_by_text("Log y-axis", exact=True).first.click()
    own = "plot => plot.drawn.layout.yaxis?.type !== 'log' && plot._fullLayout.yaxis.type === 'linear'"
    wait_until(lambda: all(each.evaluate(own) for each in (plot, other)), "both are linear by the page's choice")
    press(plot, "Log y-axis")
    wait_until(lambda: plot.evaluate(kind) == "log", "the axis is logarithmic")
    least = "plot => Math.min(...plot._fullData.find((trace) => trace.fill === 'toself').y.filter((y) => y !== null))"
    assert plot.evaluate(least) > 0


def test_one_crosshair_is_in_all_charts_over_the_same_axis(lab: Lab, page: Page) -> None:
    page.goto(compared(lab, "&x=time&v=2"))
    plot = figure(page)
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    wait_until(lambda: len(page.evaluate(CROSSHAIRS)) == 2, "both charts have the crosshair")
    at = plot.evaluate("plot => plot._hoverdata[0].x")
    assert all(abs(each - at) < 0.05 for each in page.evaluate(CROSSHAIRS))
    page.mouse.move(5, 5)
    wait_until(lambda: page.evaluate(CROSSHAIRS) == [], "the crosshair is gone")


def test_lines_are_solid_dashed_on_request_and_named_at_their_ends_where_the_names_do_not_collide(
    lab: Lab, page: Page
) -> None:
    page.goto(compared(lab, "&group=trainers&v=2"))
    plot = figure(page)
    dashes = "plot => plot._fullData.filter((trace) => /n=/.test(trace.name)).map((trace) => trace.line.dash)"
    assert plot.evaluate(dashes) == ["solid", "solid"]
    press(plot, "Dashes and markers")
    wait_until(lambda: plot.evaluate(dashes) == ["solid", "dash"], "the second line is dashed")
    press(plot, "Dashes and markers")
    wait_until(lambda: plot.evaluate(dashes) == ["solid", "solid"], "both are solid again")
    assert sorted(plot.evaluate(ENDS)) == ["trainers 2 (n=3)", "trainers 4 (n=2)"]
    tops = plot.evaluate(
        "plot => [...plot.querySelectorAll('.pl-ends span')].map((label) => label.getBoundingClientRect().top)"
    )
    assert abs(tops[1] - tops[0]) >= 12
    plot.evaluate("plot => Plotly.restyle(plot, { visible: 'legendonly' }, [2, 5]).then(() => {})")
    assert plot.evaluate(ENDS) == []


def test_a_chart_keeps_its_place_while_plotly_loads(lab: Lab, page: Page) -> None:
    held: list[Route] = []
    page.route("**/vendor/plotly-*", lambda route: held.append(route))
    page.goto(compared(lab, "&metrics=train/loss&v=2"))
    below = page.get_by_text("Table", exact=True).first
    below.wait_for()
    # Playwright calls the handler of a route only while one of its own calls waits.
    wait_until(lambda: page.evaluate("true") and bool(held), "plotly.js is asked for")
    empty, height = page.locator(".pl-figure"), f"{HEIGHT_PX}px"
    wait_until(lambda: empty.evaluate("node => getComputedStyle(node).height") == height, "the height is reserved")
    page.wait_for_function(
        "() => document.querySelector('.pl-lines tr') && "
        "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
    )
    before = below.bounding_box()
    for route in held:
        route.continue_()
    figure(page)
    assert below.bounding_box() == before
    page.unroute("**/vendor/plotly-*")


def test_a_constant_0_is_on_an_axis_from_0_and_no_axis_shows_rounding_or_more_than_all(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    cases: dict[str, tuple[list[float], list[float | None]]] = {
        "train/entropy": ([0.0] * 9, [0, None]),
        "perf/steps_used": ([100.0, 100.0000000142, 100.0], [0, 100]),
        "perf/mixed_rollouts": ([97.0, 100.0, 99.0], [None, 100]),
        "perf/policy_age": ([3.0, 3.0, 3.0], [0, 3.3]),
    }
    made = [
        Point(name, step, value, step / 50) for name, (values, _) in cases.items() for step, value in enumerate(values)
    ]
    store.worker.write(run, [RankBatch(0, made)])
    page.goto(path_of(lab, run))
    drawn(page)
    for title in ("Learning", "Parallelism"):
        section = page.locator(".pl-section", has_text=title)
        if not section.evaluate("node => node.open"):  # a browser remembers which are open
            section.locator("summary").first.click()
    for name, (_, range_) in cases.items():
        plot = page.locator(f"[data-metric='{name}']")
        plot.locator(".nsewdrag").wait_for()
        shown = plot.evaluate("plot => plot._fullLayout.yaxis.range")
        assert [there for there, wanted in zip(shown, range_, strict=True) if wanted is not None] == pytest.approx(
            [wanted for wanted in range_ if wanted is not None]
        ), name
    log = page.locator("[data-metric='train/entropy']").locator('.modebar-btn[data-title="Log y-axis"]')
    assert log.is_hidden(), "no value can be on a log axis"


def test_a_swipe_over_a_chart_scrolls_the_page(lab: Lab, page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    devtools.send("Emulation.setEmulatedMedia", {"features": [{"name": "hover", "value": "none"}]})
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto(compared(lab))
    plot = figure(page)
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    before = plot.evaluate("plot => plot._fullLayout.xaxis.range")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    devtools.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 11):
        fingers = [{"x": x, "y": y - 15 * step}]
        devtools.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": fingers})
    devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    wait_until(lambda: _top(plot) < box["y"] - 60, "the page scrolled")
    assert plot.evaluate("plot => plot._fullLayout.xaxis.range") == before
    assert [button for button in plot.locator(".modebar-btn").all_inner_texts() if button] == ["Present"]
    expect(plot.locator('.modebar-btn[data-title="Log y-axis"]')).to_be_hidden()
    expect(plot.locator('.modebar-btn[data-title^="Present"]')).to_be_visible()
    devtools.detach()  # ends the emulation: others use this window too
    page.set_viewport_size({"width": 1300, "height": 1400})


def _top(plot: Locator) -> float:
    box = plot.locator(".nsewdrag").bounding_box()
    return box["y"] if box else 0.0


def test_charts_and_pages_scale_units_alike(page: Page) -> None:
    text = (ROOT / "app" / "static" / "plot" / "units.js").read_text()
    given: list[tuple[Any, str]] = [
        *((value, "s") for value in (4e-7, 0.02, 1.0, 299.0, 301.0, 9_000.0)),
        *((value, "MB") for value in (2e-7, 0.5, 3.0, 2_500.0, 4e6)),
        *((value, "B") for value in (1.0, 999.0, 1_000.0)),
        (250.0, "ms"),
        (3.0, "%"),
    ]
    found = page.evaluate(
        f"""(given) => {{ {text}
          return given.map(([value, unit]) => {{
            const of = unitFor(unit, value);
            return [value / of.size, of.unit];
          }});
        }}""",
        json.loads(json.dumps(given)),
    )
    for (value, unit), (number, name) in zip(given, found, strict=True):
        wanted = scaled(value, unit)
        assert name == wanted[1], (value, unit)
        assert abs(number - wanted[0]) < 1e-9 * abs(number)


def test_the_hover_box_leaves_out_lines_before_their_start_and_after_their_end(lab: Lab, page: Page) -> None:
    page.goto(compared(lab, "&metrics=test%2Faccuracy&v=2"))
    plot = figure(page)
    listed = (
        "plot => [...plot.querySelectorAll('.hoverlayer .legendtext')].map((text) => Number.parseInt(text.textContent))"
    )
    box = plot.locator(".nsewdrag").bounding_box()
    assert box

    def hovered(share: float) -> list[int]:
        page.mouse.move(5, 5)
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 60)
        wait_until(lambda: bool(plot.evaluate(listed)), "the box is there")
        return sorted(plot.evaluate(listed))

    assert hovered(0.9) == hovered(0.1) == lab.compared[:5]
    texts = plot.evaluate(
        "plot => [...plot.querySelectorAll('.hoverlayer .legendtext')].map((text) => text.textContent)"
    )
    assert all(re.search(r"\d\.\d\d %$", text) for text in texts), f"percentages have equally many decimals: {texts}"
    plot.evaluate(
        "plot => Plotly.restyle(plot, { x: [Array.from(plot._fullData[0].x, (x) => x / 4)] }, [0]).then(() => {})"
    )
    assert hovered(0.9) == lab.compared[1:5], "the first line ends before"
    assert lab.compared[0] in hovered(0.05) and len(hovered(0.05)) < 5, "the others start later"
    assert hovered(0.9) == lab.compared[1:5]


@pytest.mark.parametrize(("name", "level"), [("train/entropy", 0.5), ("test/accuracy", 97.0)])
def test_hovers_have_the_digits_that_tell_the_values_in_sight_apart(
    lab: Lab, page: Page, store: Store, run: int, name: str, level: float
) -> None:
    late = 800 * 3600.0
    late_ones = [Point(name, 1000 + at, level + 1e-6 * at, late + 0.25 * at, 1.0) for at in range(-9, 10)]
    store.worker.write(run, [RankBatch(0, [Point(name, 1, level, 0.5, 1.0), *late_ones])])
    page.goto(f"{lab.address}/compare?runs={run}&metrics={name.replace('/', '%2F')}&x=time&group=none")
    plot = figure(page)

    def zoomed(**axes: object) -> None:
        changes = json.dumps({f"{name[0]}axis.{name[2:]}": value for name, value in axes.items()})
        plot.evaluate(f"plot => Plotly.relayout(plot, {changes}).then(() => {{}})")
        settle(page)

    def hovered(place: int) -> list[str]:
        x = plot.evaluate(
            "(plot, hours) => plot._fullLayout.xaxis._offset + plot._fullLayout.xaxis.d2p(hours)",
            (late + 0.25 * place) / 3600,
        )
        box = plot.bounding_box()
        assert box
        page.mouse.move(5, 5)
        page.mouse.move(box["x"] + x, box["y"] + 120)
        wait_until(lambda: len(plot.evaluate(BOX)) > 1, "the box is there")
        return list(plot.evaluate(BOX))

    heading = "plot => plot._fullLayout.xaxis.unifiedhovertitle.text"
    whole = plot.evaluate(heading)
    assert whole == "Time %{x:,.7~r} h"
    zoomed(x_range=[(late - 1.25) / 3600, (late + 1.25) / 3600], y_range=[level - 5e-6, level + 5e-6])
    wait_until(lambda: plot.evaluate(heading) != whole, "hovers have more digits")
    times, values = zip(*(hovered(place)[:2] for place in (-1, 0, 1)), strict=True)
    assert len({*times}) == len({*values}) == 3, (times, values)
    zoomed(x_autorange=True, y_autorange=True)
    wait_until(lambda: plot.evaluate(heading) == whole, "the whole has its digits again")


def test_every_tick_of_a_log_axis_is_a_whole_number_as_it_is(lab: Lab, page: Page) -> None:
    page.goto(compared(lab, "&metrics=train%2Floss&log=xy&v=2"))
    plot = figure(page)
    for letter in "xy":
        ticks = plot.evaluate(
            f"plot => [...plot.querySelectorAll('.{letter}tick text')].map((tick) => tick.textContent)"
        )
        values = [float(tick.replace(",", "")) for tick in ticks]
        low, high = plot.evaluate(f"plot => plot._fullLayout.{letter}axis.range.map((end) => 10 ** end)")
        assert 2 <= len(values) <= 12 and values == sorted(set(values)), ticks
        off = 1e-9  # an axis has the logarithms of its ends
        assert low * (1 - off) <= values[0] and values[-1] <= high * (1 + off), (
            "a tick says its value, not a digit of it"
        )
