"""Every page is open to those who can't see it well or use no mouse: axe-core finds nothing grave, every control shows its focus, a dialog gives it back."""

from collections.abc import Callable, Iterable

import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from engine.store import Status
from tests.app import duel_labs, labs, museum_labs, people_labs, small_labs
from tests.browser.axe import findings, grave
from tests.browser.conftest import Console, sign_in
from tests.browser.places import EMPTY, OF_ACCOUNTS, Place, go, settle, states, the_pages, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
SOON_MS = 120_000
CONTRAST = ("color-contrast", "link-in-text-block")
"""The rules that another theme can break."""
FOCUSED = ("launch", "run", "compare", "a figure")
"""Pages that together have every kind of control."""
BROKEN = """() => document.querySelector('h1').insertAdjacentHTML(
  'beforebegin', '<button></button><p style="color: #999; background: #aaa">faint</p>')"""
UNSEEN = """async () => {
  document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important; }</style>');
  const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 30)));
  const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]:not(main)')]
    .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true }))
    .filter((each) => !each.closest('.modebar, [data-testid=stDataFrame]') && !(each.role === 'radio' && each.ariaChecked === 'false'));
  const of = (node) => {
    if (!node) return '';
    const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor, opacity } = getComputedStyle(node);
    return [outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor, opacity].join();
  };
  const around = (node) => [node, node.nextElementSibling, node.firstElementChild, ...[1, 2, 3, 4].map(() => (node = node?.parentElement))];
  const look = (node) => around(node).map(of).join('|');
  const unseen = [];
  for (const each of controls) {
    document.activeElement?.blur();
    const before = look(each);
    each.focus();
    if (look(each) === before) await drawn();
    if (document.activeElement !== each || look(each) === before) unseen.push(each.outerHTML.slice(0, 250));
  }
  return [controls.length, unseen];
}"""
"""Gives the focus to each control (of choices side by side to the chosen one, from which the arrows lead on).

Returns how many there are, and those on which, or right round which, nothing changes then.
"""


def filled(home: Home) -> tuple[small_labs.Lab, dict[Status, int]]:
    """Fill the home with a small lab, a run in each status, a duel, and an exhibit of the museum."""
    duel_labs.whole(home)
    museum_labs.visited(home, "aliased_weights", ["aliased_weights"])
    return small_labs.fill(home), labs.fill(home)


def check(page: Page, address: str, places: Iterable[Place]) -> None:
    """Go to each place and fail with all that axe finds there in both themes."""
    found = []
    for place in places:
        go(page, address, place)
        seen = findings(page)
        turn(page, "dark")
        seen += findings(page, *CONTRAST)
        turn(page, "light")
        found += [f"{place.name}: {each}" for each in grave(seen)]
    assert not found, "\n".join(found)


def test_axe_finds_nothing_grave_on_any_page_in_light_and_dark(still: Home, console: Console, page: Page) -> None:
    lab, ids = filled(still)
    check(page, console.address, the_pages(lab, ids["running"]))
    page.evaluate(BROKEN)
    assert {each.rule for each in grave(findings(page))} == {"button-name", "color-contrast"}


@pytest.mark.long
def test_axe_finds_nothing_grave_where_nothing_is_yet_and_in_what_opens_on_the_pages(still: Home, console: Console, page: Page) -> None:
    check(page, console.address, EMPTY)
    lab, ids = filled(still)
    check(page, console.address, states(lab, ids["running"], ids["queued"]))


@pytest.mark.long
def test_every_control_can_be_focused_and_shows_it_and_a_dialog_gives_the_focus_back(still: Home, console: Console, page: Page) -> None:
    lab, ids = filled(still)
    for place in the_pages(lab, ids["running"]):
        if place.name in FOCUSED:
            go(page, console.address, place, anew=True)
            page.keyboard.press("Tab")  # from here on the focus is a keyboard's, and has to be seen
            count, unseen = page.evaluate(UNSEEN)
            assert count > 8
            assert unseen == [], place.name
    go(page, console.address, Place("runs", "/runs", "by Ada"), anew=True)
    cancel = page.get_by_role("button", name="Cancel", exact=True).first
    cancel.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=SOON_MS)
    assert dialog.evaluate("(node) => node.contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0, timeout=SOON_MS)
    settle(page)
    expect(cancel).to_be_focused(timeout=SOON_MS)


def test_axe_finds_nothing_grave_on_the_pages_of_accounts_and_on_the_way_in(still: Home, console: Console, somebody: Callable[[], Page]) -> None:
    page = somebody()
    people_labs.fill(still, passwords=True)
    sign_in(page, console.address, "ada", people_labs.PASSWORD, "/account")
    page.get_by_text("Make a token").wait_for()
    check(page, console.address, OF_ACCOUNTS)
    found = []
    for path in ("/password", "/signin"):
        if path == "/signin":
            page.context.clear_cookies()
        page.goto(console.address + path)
        page.get_by_role("button").first.wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [f"{path}, {scheme}: {each}" for each in grave(findings(page))]
    assert not found, "\n".join(found)
