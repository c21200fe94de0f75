"""The page of a run: its header stays in view while the page scrolls, on a screen and on a phone."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.store import Demand, Launch, Store
from tests.browser.conftest import Lab
from tests.browser.places import Place, arrive, settle
from tests.labs import basic
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
TOP = "(node) => node.getBoundingClientRect().top"
NAV_PX = 56


def scroll_down(page: Page) -> None:
    """Scroll the page to its end."""
    main = page.get_by_test_id("stMain")
    assert main.evaluate("(node) => node.scrollHeight > node.clientHeight + 100")
    main.evaluate("(node) => node.scrollTo(0, node.scrollHeight)")
    wait_until(lambda: page.locator(".pl-breadcrumb").evaluate(TOP) < 0, "the page scrolled")


@pytest.mark.parametrize(("width", "tabs_stay"), [(1440, True), (390, False)])
def test_status_result_and_actions_stay_in_view_below_the_navigation(
    lab: Lab, page: Page, width: int, tabs_stay: bool
) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.goto(f"{lab.address}/run?run={lab.running}")
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")
    settle(page)
    scroll_down(page)
    title = page.get_by_role("heading", name=f"Run {lab.running}:")
    for part in (
        title,
        page.get_by_text("50% done"),
        page.get_by_role("progressbar"),
        page.locator("[data-slot='result']"),
        page.get_by_role("button", name="Cancel"),
    ):
        box: Any = part.bounding_box()
        assert NAV_PX <= box["y"] < 350 and box["x"] >= 0 and box["x"] + box["width"] <= width + 1
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        assert page.locator(".st-key-run-state").evaluate(
            "(node, at) => node.contains(document.elementFromPoint(...at))", middle
        ), "nothing covers it"
    assert (page.get_by_role("radio", name="Overview").evaluate(TOP) > NAV_PX) == tabs_stay
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Keep running")).to_be_visible()


def test_all_actions_of_a_queued_run_are_in_view_on_a_phone(lab: Lab, page: Page) -> None:
    with Store.open(lab.home) as store:
        run_id = basic.add(store, "Ada")
        store.queue.hold(run_id, by="Ada")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{lab.address}/run?run={run_id}")
    cancel = page.get_by_role("button", name="Cancel")
    cancel.wait_for()
    settle(page)
    box: Any = cancel.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_all_charts_are_along_one_axis_which_the_address_holds_and_the_machines_load_is_folded(
    lab: Lab, page: Page
) -> None:
    page.goto(f"{lab.address}/run?run={lab.running}")
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")
    assert page.locator(".pl-figure").count() == 0
    page.get_by_test_id("stExpander").get_by_text("Machine").click()
    load = page.get_by_role("figure", name="CPU during the run")
    wait_until(lambda: load.evaluate("plot => plot.data?.[0].y?.at(-1)") == 93.0, "the load was drawn")
    page.wait_for_url("**/run?*machine=true*")

    def places(metric: str) -> Any:
        return page.locator(f"[data-metric='{metric}']").evaluate("plot => [...plot.data[0].x]")

    def ends(metric: str) -> Any:
        return page.locator(f"[data-metric='{metric}']").evaluate("plot => plot._fullLayout.xaxis.range")

    def are_alike() -> bool:
        (low, high), (first, last) = ends("test/accuracy"), ends("train/loss")
        return abs(low - first) + abs(high - last) < (high - low) / 10 and low <= 0.1 * high

    wait_until(lambda: places("test/accuracy") == [1.0, 2.0], "passes are the axis of trained data")
    wait_until(are_alike, "tests, which begin later, are over the same range as losses")
    assert places("train/loss")[:2] == pytest.approx([1 / 45, 2 / 45], rel=1e-8)
    page.get_by_role("radio", name="Updates").click()
    wait_until(lambda: places("test/accuracy") == [100, 200], "two trainers made 50 updates per second each")
    assert places("train/loss")[:2] == [2, 4]
    wait_until(are_alike, "so they are on another axis")
    page.wait_for_url("**/run?*axis=Updates*")
    page.goto(f"{lab.address}/run?run={lab.running}&x=Time")  # an address of an earlier version
    expect(page.get_by_role("radio", name="Time", exact=True)).to_be_checked()
    wait_until(lambda: places("train/loss")[:2] == [0.02, 0.04], "the charts are drawn along time")


def test_next_steps_lead_to_the_filled_form_and_keep_the_axis_of_the_comparison(lab: Lab, page: Page) -> None:
    for label, seen, address in (
        ("Sweep trainers", "Values of trainers", "**/launch?*sweep=trainers*"),
        ("Compare with Reference", "2 compared runs", "**/compare?*x=time*"),
    ):
        page.goto(f"{lab.address}/run?run={lab.small.stale}")
        page.get_by_role("link", name=label).click()
        expect(page.get_by_text(seen).or_(page.get_by_label(seen)).first).to_be_visible()
        page.wait_for_url(address)


def test_an_old_address_of_the_machines_load_opens_from_another_runs_page(lab: Lab, page: Page) -> None:
    """Streamlit refuses to set an address's part that is bound to a control of the page before."""
    with Store.open(lab.home) as store:
        other = store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))
    page.goto(f"{lab.address}/run?run={lab.running}")
    page.get_by_role("heading", name=f"Run {lab.running}:").wait_for()
    settle(page)
    arrive(page, Place("machine", f"/run?run={other}&section=Machine", f"Run {other}:"))
    expect(page.get_by_role("heading", name=f"Run {other}:")).to_be_visible()
    expect(page.get_by_text("StreamlitAPIException")).to_have_count(0)
    arrive(page, Place("machine", f"/run?run={lab.running}&section=Machine", f"Run {lab.running}:"))
    expect(page.locator("details[open] > summary", has_text="Machine")).to_be_visible()


def test_on_a_phone_the_first_chart_is_in_the_first_screen(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{lab.address}/run?run={lab.compared[0]}")
    chart = page.locator(".pl-panel .pl-plot").first
    chart.locator(".nsewdrag").wait_for()
    box, numbers = chart.bounding_box(), page.locator("[data-slot='tiles']").bounding_box()
    assert box and numbers and box["y"] + box["height"] / 2 < 844 and numbers["y"] > box["y"]
    page.set_viewport_size({"width": 1300, "height": 1400})
