"""The Gantt chart in a browser: it follows a run from batch to batch on the same node, and holds one that
was chosen.
"""

import re

from playwright.sync_api import Page, expect

from engine.store import Store
from tests.analysis.traces import made
from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.browser.test_live import path_of, pytestmark, store
from tests.labs import basic
from tests.waiting import wait_until

__all__ = ["pytestmark", "store"]
SHARES = (0.44, 0.56)


def label(page: Page) -> str:
    return page.locator(".pl-figure").last.get_attribute("aria-label") or ""


def test_the_chart_follows_the_run_until_a_batch_is_chosen(lab: Lab, page: Page, store: Store) -> None:
    run = basic.pipeline_run(store, shares=SHARES, splits=4, recorded=(0,), ended=False)
    page.goto(path_of(lab, run, "&section=Pipeline"))
    chart = page.locator(".pl-figure").last
    chart.locator(".nsewdrag").wait_for()
    settle(page)
    assert (
        chart.evaluate(
            "plot => plot.data.map(trace => trace.marker.color).filter((colour, place, all) => "
            "all.indexOf(colour) === place).length"
        )
        == 5
    )
    chart.evaluate("plot => { plot.marked = true; }")
    basic.write_spans(store, run, made("gpipe", SHARES, 4, batch=7))
    wait_until(lambda: "batch 8:" in label(page), "the chart shows batch 8")
    expect(page.get_by_text("Batch 8: 2 stages, 4 micro-batches")).to_be_visible()
    assert chart.evaluate("plot => plot.marked === true")
    settle(page)  # the same news brings the list another batch
    page.get_by_role("combobox", name="Batch").click()
    page.get_by_role("option", name="1", exact=True).click()
    wait_until(lambda: "batch 1:" in label(page), "the chart shows batch 1")
    expect(page).to_have_url(re.compile(r"[?&]batch=1(&|$)"))
    basic.write_spans(store, run, made("gpipe", SHARES, 4, batch=9))
    store.worker.write(run, [], progress=(320, 640, "images"))
    expect(page.get_by_text("50% done")).to_be_visible()
    assert "batch 1:" in label(page)
    page.get_by_role("radio", name="Without waiting").click()
    wait_until(
        lambda: chart.evaluate("plot => plot.data.map(trace => trace.name)") == ["forward", "backward", "update"],
        "transfers are gone",
    )
    store.claims.end(run, "finished", "Completed successfully")


def test_on_a_phone_the_button_present_does_not_cover_the_legend(lab: Lab, page: Page, store: Store) -> None:
    run = basic.pipeline_run(store, shares=SHARES, splits=4, recorded=(0,), mode="zb_h1")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path_of(lab, run, "&section=Pipeline"))
    chart = page.locator(".pl-figure").last
    chart.locator(".legend .traces").first.wait_for()
    legend, button = chart.locator(".legend").bounding_box(), chart.locator(".modebar").bounding_box()
    assert legend and button and button["y"] + button["height"] <= legend["y"]
    page.set_viewport_size({"width": 1300, "height": 1400})
