"""A sweep by hand: launched from the form, watched until its curve is whole; another one cancelled as a whole."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
RUN_MS = 600_000


def test_a_sweep_is_launched_watched_to_its_end_and_another_one_cancelled(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=epochs:2")
    launch(page, "1, 2, 3", "Launch 3 runs")
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/sweep?sweep=1")
    expect(page.get_by_role("heading", name="Sweep 1: Hogwild! over trainers")).to_be_visible()
    cells = page.locator("a.pl-cell")
    expect(cells).to_have_count(3)
    chart = page.locator(".pl-figure")
    expect(chart).to_be_visible(timeout=RUN_MS)  # the first run has finished, and nobody touched the page
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(3, timeout=RUN_MS)
    page.wait_for_function(POINTS, arg=3)
    expect(page.get_by_text("3 finished", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel all")).to_have_count(0)

    cells.nth(1).click()
    page.wait_for_url("**/run?run=2")
    page.get_by_role("link", name="sweep 1", exact=True).click()
    page.wait_for_url("**/sweep?sweep=1")
    page.wait_for_function(POINTS, arg=3)

    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=epochs:1000")
    launch(page, "1..2", "Launch 2 runs")
    page.wait_for_url("**/sweep?sweep=2")
    expect(page.locator("a.pl-cell.pl-running").first).to_be_visible(timeout=RUN_MS)
    page.get_by_role("button", name="Cancel all").click()
    page.get_by_role("button", name="Cancel all runs").click()
    expect(page.locator("a.pl-cell.pl-cancelled")).to_have_count(2, timeout=RUN_MS)
    expect(page.get_by_text("No run of this sweep finished, so there is nothing to draw.")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("link", name="part of sweep 2").first).to_be_visible()
    page.get_by_role("link", name="2 sweeps of runs").click()
    expect(page.get_by_role("link", name="1: Hogwild! over trainers")).to_be_visible()


POINTS = "many => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'measured' && trace.x.length === many)"


def launch(page: Page, values: str, button: str) -> None:
    """Open the fold, write the values and launch."""
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of trainers").fill(values)
    page.get_by_role("button", name=button, exact=True).click()


@pytest.mark.long
def test_a_pipelines_splits_are_swept_and_drawn_beside_what_would_be_ideal(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=pipeline&preset=quick&set=batches:3")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of splits").fill("1, 2, 4")
    page.get_by_role("button", name="Launch 3 runs", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/sweep?sweep=1")
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(3, timeout=2 * RUN_MS)
    page.wait_for_function(POINTS, arg=3)
    drawn = page.locator(".pl-figure").evaluate("plot => plot.data.map(trace => trace.name)")
    assert any("ideal" in name for name in drawn), drawn
    assert any("stages" in name or "bound" in name for name in drawn), drawn
