"""A zoom into a long curve shows points that the whole curve leaves out, new points reach it, and a double click or
another axis shows the whole again.
"""

from playwright.sync_api import Page, expect

from engine.store import Store
from tests.browser.conftest import Lab, double_click, zoom
from tests.browser.test_live import drawn, path_of, pytestmark, run, store
from tests.labs import basic
from tests.waiting import wait_until

__all__ = ["pytestmark", "run", "store"]

SEEN = """plot => {
    const [from, to] = plot.layout.xaxis.range;
    return plot.data.filter(trace => trace.showlegend !== false)[0].x.filter(x => x >= from && x <= to).length;
}"""
HIDDEN = "plot => [...new Set(plot._fullData.filter(trace => trace.visible === 'legendonly').map(trace => trace.name))]"


def test_a_zoom_shows_more_of_a_long_curve_and_a_double_click_or_another_axis_all_of_it(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    basic.record(store, run, steps=20_000, first=101)
    page.goto(path_of(lab, run))
    plot = drawn(page)
    caption = page.locator(".pl-panel", has=plot).locator(".pl-caption")
    expect(caption).to_contain_text("of 40,200 points")
    whole = plot.evaluate("plot => plot.data[0].x.length")
    zoom(page, plot)
    wait_until(lambda: plot.evaluate(SEEN) > 400, "every point in sight came")
    zoomed = plot.evaluate("plot => plot.layout.xaxis.range")
    basic.record(store, run, steps=60, first=20_101)
    wait_until(lambda: plot.evaluate("plot => plot.data[0].x.at(-1)") == 20_160, "new points were drawn")
    assert plot.evaluate("plot => plot.layout.xaxis.range") == zoomed
    assert plot.evaluate(SEEN) > 400
    double_click(page, plot)
    wait_until(
        lambda: plot.evaluate("plot => plot.data[0].x.length") <= whole + 60, "the whole curve is drawn as before"
    )
    zoom(page, plot)
    plot.locator(".legendtoggle").first.click()
    wait_until(lambda: plot.evaluate(HIDDEN) == ["trainer1"], "the legend hid a rank")
    page.get_by_role("radio", name="Time", exact=True).click()
    wait_until(lambda: plot.evaluate("plot => plot.layout.xaxis.autorange") is True, "all of the other axis is shown")
    assert plot.evaluate(HIDDEN) == ["trainer1"]
