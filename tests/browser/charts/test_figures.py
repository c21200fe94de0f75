"""A published figure by hand: launched from its page, watched until its picture shows our runs."""

import pytest
from playwright.sync_api import Page, expect

from engine.store import Reader
from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.browser.replay import runs_of
from tests.labs.small import finish

pytestmark = pytest.mark.browser
NAME = "parameter_server"
POINTS = """() => {
  const traces = document.querySelector('.pl-figure')?._fullData ?? [];
  const named = name => traces.find(trace => trace.name === name && trace.showlegend);
  return named('measured')?.x.length === 3 && named('published')?.x.length === 1;
}"""
COMPUTE = "() => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'compute')"


def test_a_figure_is_launched_from_its_page_and_ends_in_a_picture_beside_the_published_value(
    lab: Lab, page: Page
) -> None:
    page.goto(f"{lab.address}/figures")
    expect(page.get_by_role("heading", name="Figures", level=1)).to_be_visible()
    expect(page.get_by_text("not reproduced here yet: no run with these settings")).to_have_count(5)
    settle(page)
    page.locator(f".st-key-once-launch-{NAME}-reduced button").click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url(f"**/figures?figure={NAME}")
    with Reader.open(lab.home) as reader:
        sweep = reader.sweeps.recent(limit=1)[0].id
    runs = runs_of(lab, sweep)
    expect(page.get_by_text(f"in progress, 0 of {len(runs)} runs ended")).to_be_visible()
    expect(page.get_by_role("table", name="Published values of Parameter server")).to_be_visible()
    for run in runs:
        finish(lab.home, run, work=180_000, time_s=20.0, tests={1.0: 94.0, 2.0: 95.0, 3.0: 96.0})
    expect(page.get_by_text("1 not comparable", exact=True).first).to_be_visible()  # nobody touched the page
    page.wait_for_function(POINTS)
    expect(page.get_by_text("in progress")).to_have_count(0)
    page.get_by_text("Details", exact=True).first.click()
    settle(page)
    page.get_by_role("link", name=f"sweep {sweep} of Ada").first.click()
    page.wait_for_url(f"**/sweep?sweep={sweep}")
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(len(runs))
    page.get_by_role("radio", name="Time breakdown").click()
    page.wait_for_function(COMPUTE)
    page.reload()
    page.wait_for_function(COMPUTE)
