"""A published figure by hand: launched from its page, watched until its picture has a verdict."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
SWEEP_MS = 1_200_000
SOON_MS = 120_000
POINTS = """() => {
  const traces = document.querySelector('.pl-figure')?._fullData ?? [];
  const named = name => traces.find(trace => trace.name === name);
  return named('measured here')?.x.length === 3 && named('published')?.x.length === 3;
}"""


def test_a_figure_is_launched_from_its_page_and_ends_in_a_picture_with_a_verdict(mnist: Path, console: Console, page: Page) -> None:
    page.goto(f"{console.address}/figures")
    expect(page.get_by_role("heading", name="Published figures")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("not launched yet")).to_have_count(7, timeout=SOON_MS)
    settle(page)
    page.locator(".st-key-launch-sync_sgd-reduced button").click()
    name = page.get_by_role("textbox", name="Your name")
    expect(name).to_be_visible(timeout=SOON_MS)
    name.fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/figures?figure=sync_sgd")
    expect(page.get_by_text("under way, 0 of 5 runs ended")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("There is no verdict before a run has finished.")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("trend only", exact=True)).to_be_visible(timeout=SWEEP_MS)  # nobody touched the page
    page.wait_for_function(POINTS)
    expect(page.get_by_text("Accuracy rises from the first of three tests to both later ones, by at least 0.3 points")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("under way")).to_have_count(0, timeout=SOON_MS)
    page.get_by_role("link", name="sweep 1", exact=True).click()
    page.wait_for_url("**/sweep?sweep=1")
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(5, timeout=SOON_MS)
    page.get_by_role("radio", name="Where the time went").click()
    page.wait_for_function("() => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'compute')")
    page.reload()
    page.wait_for_function("() => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'compute')")
