"""The Home page in a real browser: what ends while it is open appears on it, and no script runs again for that."""

import re

from playwright.sync_api import Page, expect

from engine.store import Store
from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.browser.test_live import pytestmark, store
from tests.labs import compare
from tests.waiting import wait_until

__all__ = ["pytestmark", "store"]


def test_what_ends_while_home_is_open_appears_without_a_script_run_and_a_new_view_with_one(
    lab: Lab, page: Page, store: Store
) -> None:
    page.goto(lab.address)
    news, best = page.locator("[data-slot='home-news']"), page.locator("[data-slot='home-best']")

    def count() -> int:
        found = re.search(r"(\d+) runs? ended", news.inner_text())
        return int(found[1]) if found else 0

    wait_until(count, "the page counts what has ended")
    before = count()
    settle(page)
    best.evaluate("element => { element.drawn_once = true; }")
    ahead = compare.add(store, trainers=4, level=0.01, owner="Grace")
    wait_until(lambda: count() == before + 1, "it counts one more")
    expect(best.get_by_role("link", name=f"{ahead}, quick")).to_be_visible()
    expect(page.locator("[data-slot='home-machine']")).to_contain_text("CPU")
    assert best.evaluate("element => element.drawn_once === true"), "the script ran again"
    store.views.save("Speed by trainers", "compare", "runs=1-2&v=1", owner="Ada")
    page.get_by_role("link", name="Speed by trainers").click()
    page.wait_for_url(
        re.compile(r"/compare\?runs=1(-|%2C)2&v=1")
    )  # the page soon writes the view's runs in its own way
    page.get_by_role("link", name="Home", exact=True).click()
    page.get_by_role("button", name="Launch a run").click()
    expect(page.get_by_role("heading", name="Launch", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{lab.address}/launch")


def test_ages_never_run_backwards_when_content_that_was_made_earlier_arrives(lab: Lab, page: Page) -> None:
    page.goto(lab.address)
    news = page.locator("[data-slot='home-news']")
    expect(news.locator("time").first).to_be_visible()
    said = news.evaluate(
        """element => {
            const moment = new Date(Date.now() - 250_000).toISOString();
            element.innerHTML = `<p>by Ada <time datetime="${moment}">3 min ago</time></p>`;
            return new Promise((done) => queueMicrotask(() => done(element.textContent)));
        }"""
    )
    assert said == "by Ada 4 min ago"


def test_on_a_phone_the_best_results_are_whole(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(lab.address)
    table = page.locator("[data-slot='home-best'] .pl-scroll")
    expect(table.get_by_role("link").first).to_be_visible()
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth")
    page.set_viewport_size({"width": 1300, "height": 1400})
