"""The Home page in a real browser: what ends while it is open appears on it, and no script runs again for that."""

import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from engine.store import Store
from tests.app import compare_labs
from tests.browser.conftest import Console
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("still"), pytest.mark.timeout(600)]


def test_what_ends_while_home_is_open_appears_without_a_script_run_and_a_new_view_with_one(console: Console, page: Page, home: Home) -> None:
    with Store.open(home) as store:
        compare_labs.add(store, trainers=2)
    page.goto(console.address)
    news, best = page.locator("[data-slot='home-news']"), page.locator("[data-slot='home-best']")
    expect(news).to_contain_text("1 run has ended")
    settle(page)
    best.evaluate("element => { element.drawn_once = true; }")
    with Store.open(home) as store:
        ahead = compare_labs.add(store, trainers=4, level=0.1, owner="Grace")
    expect(news).to_contain_text("2 runs have ended")
    expect(best.get_by_role("link", name=f"{ahead}, quick")).to_be_visible()
    expect(page.locator("[data-slot='home-machine']")).to_contain_text("CPU")
    assert best.evaluate("element => element.drawn_once === true"), "the script ran again"
    with Store.open(home) as store:
        store.save_view("Speed by trainers", "compare", "runs=1-2&v=1", owner="Ada")
    page.get_by_role("link", name="Speed by trainers").click()
    page.wait_for_url("**/compare?runs=1-2*")
    page.get_by_role("link", name="Home", exact=True).click()
    page.get_by_role("button", name="Launch a run").click()
    expect(page.get_by_role("heading", name="Launch", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{console.address}/launch")
