"""Ticks in the table of results, one after the other, as a person sets them."""

import pytest
from playwright.sync_api import Page, expect

from engine.store import Store
from tests.browser.conftest import Lab
from tests.browser.places import settle

pytestmark = pytest.mark.browser
ROW_PX = 33


@pytest.mark.parametrize("width", [1300, 390])
def test_ticks_never_move_the_table(lab: Lab, page: Page, width: int) -> None:
    with Store.open(lab.home) as store:
        store.annotations.star(lab.compared[:1], by="Ada")
    page.set_viewport_size({"width": width, "height": 1300})
    page.goto(f"{lab.address}/results")
    table = page.locator("[data-testid=stDataFrame]").first
    expect(table.locator("table")).to_contain_text("Hogwild!")  # the grid is drawn
    settle(page)
    before = table.bounding_box()
    assert before is not None
    for ticks in (1, 2, 3):
        page.mouse.click(before["x"] + 15, before["y"] + ROW_PX * (ticks + 0.5))
        expect(page.get_by_text(f"{ticks} {'run' if ticks == 1 else 'runs'} ticked.")).to_be_visible()
        expect(page.get_by_role("link", name="Compare", exact=True).last).to_be_attached()
        settle(page)
        assert table.bounding_box() == before
    page.mouse.click(before["x"] + 15, before["y"] + ROW_PX * 1.5)
    expect(page.get_by_text("2 runs ticked.")).to_be_visible()
