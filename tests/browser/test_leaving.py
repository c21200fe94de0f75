"""Leaving a page in the moment in which it learns of news: the page that was asked for comes, and is not empty."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Lab
from tests.browser.places import settle
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
LEAVE = """([words, role]) => {
  const looking = [...document.querySelectorAll('*')].find((each) => each.pulse);
  const pressed = [...document.querySelectorAll(role)].find((each) => each.textContent.trim() === words);
  if (!looking || !pressed) return false;
  let token = 1_000_000;
  const fetchReally = (window.fetchReally ??= window.fetch);
  window.asked = 0;
  window.fetch = async (url, ...more) => {
    if (!/[/]api[/](token|home)/.test(url)) return fetchReally(url, ...more);
    window.asked += 1;
    token += 1; // each time there is news
    return new Response(JSON.stringify({ token, version: token }));
  };
  const { pulse } = looking;
  pulse.schedule(0); // before the click: a fast server may take the page away before a later timer fires
  pressed.click();
  for (let moment = 0; moment < 100; moment += 3) setTimeout(() => pulse.schedule(0), moment);
  return true;
}"""
"""Leaves as soon as the page looks for news; says whether it does."""
LEAVE_WITH_A_BEAT = """([words, role]) => {
  const looking = [...document.querySelectorAll('*')].find((each) => each.pulse);
  const pressed = role && [...document.querySelectorAll(role)].find((each) => each.textContent.trim() === words);
  if (!looking || pressed === undefined) return false;
  looking.pulse.beat(1_000_000);
  if (role) pressed.click();
  else {
    history.pushState({}, '', words);
    window.dispatchEvent(new PopStateEvent('popstate'));
  }
  return true;
}"""
"""Requests a rerun, then leaves the page before that request is sent: by a click, or as the browser's Back does. Says
whether the page was ready.
"""


@pytest.mark.parametrize(
    ("path", "words", "role", "seen"),
    [("/runs", "Launch", "a[href]", "Launch"), ("/", "Launch a run", "button", "Launch")],
)
def test_news_that_come_right_behind_a_click_do_not_spoil_the_new_page(
    page: Page, lab: Lab, path: str, words: str, role: str, seen: str
) -> None:
    page.goto(lab.address + path)
    heading = page.get_by_role("heading", level=1).first
    left = heading.inner_text()
    for time in range(3):
        if time:
            page.go_back()
            page.evaluate("() => { window.fetch = window.fetchReally; }")
        expect(heading).to_have_text(left)
        settle(page)
        wait_until(lambda: page.evaluate(LEAVE, [words, role]), "the page looks for news and is left")
        wait_until(lambda: page.evaluate("window.asked > 0"), "the page asked")
        page.wait_for_timeout(500)  # what the news would have set off
        settle(page)
        expect(heading).to_have_text(seen)


@pytest.mark.parametrize(
    ("path", "words", "role", "seen"),
    [
        ("/machine", "Runs", "a[href]", "Select rows to open, compare or mark them"),
        ("/", "Launch a run", "button", "One process: the baseline for speed-up"),
        ("/machine", "/runs", "", "Select rows to open, compare or mark them"),
    ],
)
def test_a_page_requested_before_a_rerun_was_sent_is_not_empty(
    page: Page, lab: Lab, path: str, words: str, role: str, seen: str
) -> None:
    page.goto(lab.address + path)
    settle(page)
    wait_until(lambda: page.evaluate(LEAVE_WITH_A_BEAT, [words, role]), "the page looks for news and is left")
    page.get_by_text(seen).first.wait_for()
    page.wait_for_timeout(500)  # what the news would have set off
    settle(page)
    expect(page.get_by_text(seen).first).to_be_visible()


def test_a_link_that_is_replaced_while_it_is_pressed_is_followed(page: Page, lab: Lab) -> None:
    page.goto(lab.address)
    settle(page)
    link = page.locator("[data-testid=stHtml] a[href*='/run?run=']:visible").first
    link.scroll_into_view_if_needed()
    address, box = link.get_attribute("href"), link.bounding_box()
    assert address and box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    link.evaluate("({ parentElement }) => (parentElement.innerHTML = String(parentElement.innerHTML))")
    page.mouse.up()
    page.wait_for_url(f"**{address}")
