"""Compared runs in a browser: the address follows what is chosen, and gives anyone who opens it the same picture."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from tests.app import compare_labs
from tests.browser.conftest import Console

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
BOTH = re.compile(r"/compare\?runs=5(,|%2C)6&v=1$")
DRAWN = (
    "many => [...document.querySelectorAll('.pl-figure')].filter(node => node._fullData?.length && node.querySelector('.scatterlayer path')).length === many"
)
PICTURE = """() => [...document.querySelectorAll('.pl-figure')].map(node => node._fullData.map(trace =>
  [trace.name, trace.line?.color, trace.line?.dash, trace.opacity, Array.from(trace.x), Array.from(trace.y, value => value ?? null)]))"""


@pytest.fixture(autouse=True)
def runs(home: Home) -> list[int]:
    """Fill the home before its console starts, whose runner would claim what is queued for a moment."""
    return compare_labs.fill(home)


def picture(page: Page, charts: int) -> Any:
    """Return every trace drawn: name, colour, dash, opacity and points."""
    page.wait_for_function(DRAWN, arg=charts, timeout=60_000)
    return page.evaluate(PICTURE)


def test_the_address_of_a_comparison_gives_anyone_the_same_picture(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/compare?runs=1-5")
    single = picture(page, 2)
    assert [len(of_chart) for of_chart in single] == [5, 2 * (3 + 2 * 2)]
    expect(page.get_by_role("link", name="1: trainers 2, seed 0, Ada")).to_be_visible()

    page.get_by_label("Group by").click()
    page.get_by_role("option", name="trainers", exact=True).click()
    page.wait_for_url("**/compare?runs=1-5&group=trainers&v=1")
    page.keyboard.press("Escape")
    expect(page.get_by_text("trainers 2 (n=3)", exact=True).first).to_be_visible()
    page.wait_for_function("() => [...document.querySelectorAll('.pl-figure')].every(node => node._fullData?.some(trace => trace.fill === 'toself'))")
    grouped = picture(page, 2)
    assert [name for name, *_ in grouped[1] if "n=" in name] == ["trainers 2 (n=3)", "trainers 4 (n=2)"]

    other = page.context.new_page()
    other.goto(page.url)
    assert picture(other, 2) == grouped

    other.reload()
    assert picture(other, 2) == grouped

    page.get_by_text("Differences", exact=True).click()
    expect(page.get_by_text("equal in all 5 runs, and hidden").first).to_be_visible()
    page.wait_for_url("**/compare?runs=1-5&tab=differences&group=trainers&v=1")


def test_runs_are_ticked_compared_and_the_view_is_saved_under_a_name(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/compare")
    expect(page.get_by_text("No run is chosen.")).to_be_visible()
    table = page.locator("[data-testid=stDataFrame]").first
    table.wait_for()
    box = table.bounding_box()
    assert box is not None
    for row in (1, 2):
        page.mouse.click(box["x"] + 15, box["y"] + 33 * row + 16)
    page.get_by_role("button", name="Compare 2 runs").click()
    page.wait_for_url(BOTH)
    picture(page, 2)

    page.get_by_role("button", name="Save view").click()
    page.get_by_role("textbox", name="Name of the view").fill("Old against new")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("dialog").get_by_role("button", name="Save and keep the view", exact=True).click()
    expect(page.get_by_text("Saved views (1)")).to_be_visible()
    page.goto(f"{console.address}/compare")
    page.get_by_role("link", name="Old against new").click()
    page.wait_for_url(BOTH)
    picture(page, 2)
