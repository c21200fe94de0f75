"""Every page is open to those who can't see it well or use no mouse: axe-core finds nothing grave, every control shows its focus, a dialog gives it back."""

from collections.abc import Iterable

import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from engine.store import Status
from tests.app import labs, small_labs
from tests.browser.axe import findings, grave
from tests.browser.conftest import Console
from tests.browser.places import EMPTY, Place, go, settle, states, the_pages, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
CONTRAST = ("color-contrast", "link-in-text-block")
"""The rules that another theme can break."""
BROKEN = """() => document.querySelector('h1').insertAdjacentHTML(
  'beforebegin', '<button></button><p style="color: #999; background: #aaa">faint</p>')"""
UNSEEN = """() => {
  document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important; }</style>');
  const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true }))
    .filter((each) => !each.closest('.modebar, [data-testid=stDataFrame]'));
  const looks = (node) => [0, 1, 2, 3, 4].map(() => {
    if (!node || node === document.body) return '';
    const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor, opacity } = getComputedStyle(node);
    const beside = node.nextElementSibling ? getComputedStyle(node.nextElementSibling).boxShadow + getComputedStyle(node.nextElementSibling).borderColor : '';
    const inner = node.firstElementChild ? getComputedStyle(node.firstElementChild).boxShadow : '';
    node = node.parentElement;
    return [outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor, opacity, beside, inner].join();
  }).join('|');
  const unseen = controls.filter((each) => {
    document.activeElement?.blur();
    const before = looks(each);
    each.focus();
    return document.activeElement !== each || looks(each) === before;
  });
  return [controls.length, unseen.map((each) => each.outerHTML.slice(0, 250))];
}"""


@pytest.fixture
def on(home: Home) -> dict[Status, int]:
    """Let the home's console leave runs as they are."""
    small_labs.without_a_runner(home)
    return {}


def filled(home: Home) -> tuple[small_labs.Lab, dict[Status, int]]:
    """Fill the home with a small lab and a run in each status."""
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


def test_axe_finds_nothing_grave_on_any_page_in_light_and_dark(home: Home, on: dict[Status, int], console: Console, page: Page) -> None:
    lab, ids = filled(home)
    check(page, console.address, the_pages(lab, ids["running"]))
    page.evaluate(BROKEN)
    assert {each.rule for each in grave(findings(page))} == {"button-name", "color-contrast"}


@pytest.mark.long
def test_axe_finds_nothing_grave_where_nothing_is_yet_and_in_what_opens_on_the_pages(home: Home, on: dict[Status, int], console: Console, page: Page) -> None:
    check(page, console.address, EMPTY)
    lab, ids = filled(home)
    check(page, console.address, states(lab, ids["running"], ids["queued"]))


def test_every_control_can_be_focused_and_shows_it_and_a_dialog_gives_the_focus_back(home: Home, on: dict[Status, int], console: Console, page: Page) -> None:
    lab, ids = filled(home)
    for place in the_pages(lab, ids["running"]):
        go(page, console.address, place)
        page.keyboard.press("Tab")  # from here on the focus is a keyboard's, and has to be seen
        count, unseen = page.evaluate(UNSEEN)
        assert count > 8
        assert unseen == [], place.name
    go(page, console.address, Place("runs", "/runs", "by Ada"))
    cancel = page.get_by_role("button", name="Cancel", exact=True).first
    cancel.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert dialog.evaluate("(node) => node.contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    settle(page)
    expect(cancel).to_be_focused()
