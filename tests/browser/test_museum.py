"""The museum by hand: one exhibit is launched from its page, and switched between both ways."""

import pytest
from playwright.sync_api import Page, expect

from engine.store import Reader
from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.labs import museum

pytestmark = pytest.mark.browser
EXHIBIT = "gradients_set_to_none"
POINTS = """() => {
  const traces = document.querySelector('.pl-figure')?._fullData ?? [];
  return traces.length === 2 && traces[0].name === 'published code' && traces[0].y.at(-1) === 4 && traces[1].y.at(-1) === 28;
}"""  # noqa: E501


def test_an_exhibit_is_launched_from_its_page_and_shows_what_caught_the_fault(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/museum?exhibit={EXHIBIT}")
    expect(page.get_by_text("not run yet")).to_be_visible()
    page.get_by_role("button", name="Run exhibit", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    expect(page.get_by_text("queued", exact=True).first).to_be_visible()
    with Reader.open(lab.home) as reader:
        run = reader.runs.find(limit=1)[0]
    assert (run.experiment, run.config["exhibit"]) == ("fault_museum", EXHIBIT)
    museum.visit(lab.home, run.id, [EXHIBIT], wrong=1.0)
    expect(page.get_by_text("It <must> be 7.")).to_be_visible()  # nobody touched the page
    expect(page.get_by_text("TypeError: of the wrong way")).to_be_visible()
    page.wait_for_function(POINTS)
    settle(page)
    page.get_by_text("Source code").click()
    expect(page.get_by_text("optimizer.zero_grad()", exact=False).first).to_be_visible()
    page.get_by_text("As published", exact=True).click()
    expect(page.get_by_text("It holds.")).to_be_visible()
    expect(page.get_by_text("set_to_none", exact=False).first).to_be_visible()
    expect(page.get_by_role("button", name="Run again")).to_be_enabled()
