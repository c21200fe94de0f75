"""The museum by hand: one exhibit is run from its page, and switched between both ways."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
SOON_MS, RUN_MS = 120_000, 600_000
POINTS = """() => {
  const traces = document.querySelector('.pl-figure')?._fullData ?? [];
  return traces.length === 2 && traces[0].name === 'published code' && traces[0].y.at(-1) === 1 && traces[1].y.at(-1) === 6;
}"""


def test_an_exhibit_is_run_from_its_page_and_shows_what_caught_the_fault(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/museum?exhibit=gradients_set_to_none")
    expect(page.get_by_text("not run yet")).to_be_visible(timeout=SOON_MS)
    page.get_by_role("button", name="Run it", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    expect(page.get_by_text("1 of 6 rounds ended in an update: what a server sums gradients in")).to_be_visible(timeout=RUN_MS)  # nobody touched the page
    expect(page.get_by_text("TypeError: unsupported operand")).to_be_visible()
    page.wait_for_function(POINTS)
    settle(page)
    page.get_by_text("The code that runs").click()
    expect(page.get_by_text("optimizer.zero_grad()", exact=False).first).to_be_visible(timeout=SOON_MS)
    page.get_by_text("As published", exact=True).click()
    expect(page.get_by_text("It holds.")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("set_to_none", exact=False).first).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_role("button", name="Run it again")).to_be_enabled(timeout=SOON_MS)
