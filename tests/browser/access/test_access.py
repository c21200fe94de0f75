"""Every page is open to those who can't see it well or use no mouse, and to every name.

Axe-core finds nothing grave, every control shows its focus, a dialog gives it back, and what people write stays text.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from tests.browser.axe import findings, grave
from tests.browser.conftest import Console, Lab, Members, sign_in
from tests.browser.consoles import NAME, PERSON
from tests.browser.places import EMPTY, OF_ACCOUNTS, Place, go, settle, states, the_pages, turn
from tests.labs import people, small

pytestmark = pytest.mark.browser
CONTRAST = ("color-contrast", "link-in-text-block")
"""The rules that another theme can break."""
OTHERWISE = (
    """() => [window.hurt, document.querySelectorAll('.katex, [src*=evil], [href*=evil], [href^=javascript]').length]"""
)
TEXTS = dict.fromkeys(("home", "runs", "run", "sweep", "duel"), (NAME, PERSON)) | {
    **dict.fromkeys(("machine", "Events", "people"), (PERSON,)),
    **dict.fromkeys(("account", "audit log"), (NAME[:60],)),
}
"""What has to stand on a page to the letter: no script of it runs, no picture of it is asked for, no formula is set."""
FOCUSED = ("launch", "run", "compare", "a figure")
"""Pages that together have every kind of control: the quicker test has axe look at these, in both themes, and at those
of accounts, which the longer one has not.
"""
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
}"""  # noqa: E501
"""Gives the focus to each control (of choices side by side to the chosen one, from which the arrows lead on).

Returns how many there are, and those on which, or right round which, nothing changes then.
"""


def found_at(page: Page, address: str, place: Place) -> list[str]:
    """Go to a place and return what axe finds there, in both themes."""
    go(page, address, place)
    assert page.get_by_test_id("stException").count() == 0, place.name
    seen = findings(page)
    turn(page, "dark")
    seen += findings(page, *CONTRAST)
    turn(page, "light")
    return [f"{place.name}: {each}" for each in grave(seen)]


def places(lab: small.Lab, running: int) -> Iterator[Place]:
    """Yield every page of a lab with accounts, where all have names that would do harm."""
    for place in the_pages(lab, running):
        seen = {"home": "Published figures", "sweep": "Runs counted", "notifications": "New subscription"}.get(
            place.name, place.seen
        )
        yield Place(place.name, place.path, seen, place.do)
    for section, seen in {"Notes": "Note", "Events": "queued", "Machine": "running", "Log": "running"}.items():
        yield Place(section, f"/run?run={running}&section={section}", seen)
    yield Place("run, failed", f"/run?run={lab.failed}", "RuntimeError: boom")
    yield from OF_ACCOUNTS


def test_on_no_page_axe_finds_anything_grave_the_browser_refuses_anything_or_what_people_write_is_more_than_text(
    members: Members, page: Page, complaints: list[str]
) -> None:
    sign_in(page, members.address, "ada", people.PASSWORD, "/account")
    page.get_by_role("button", name="Create token").wait_for()
    found = []
    for place in places(members.small, members.running):
        if place.name in FOCUSED or place in OF_ACCOUNTS:
            found += found_at(page, members.address, place)
        else:
            go(page, members.address, place)
            assert page.get_by_test_id("stException").count() == 0, place.name
        shown = " ".join(page.evaluate("document.body.innerText").split())
        found += [
            f"{place.name} lacks {text}" for text in TEXTS.get(place.name, ()) if " ".join(text.split()) not in shown
        ]
        assert page.evaluate(OTHERWISE) == [None, 0], place.name
    assert not found, "\n".join(found)
    assert complaints == []
    page.evaluate(BROKEN)
    assert {each.rule for each in grave(findings(page))} == {"button-name", "color-contrast"}
    for path in ("/password", "/signin"):
        if path == "/signin":
            page.context.clear_cookies()
        page.goto(members.address + path)
        page.get_by_role("button").first.wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [f"{path}, {scheme}: {each}" for each in grave(findings(page))]
    assert not found, "\n".join(found)


@pytest.mark.long
def test_axe_finds_nothing_grave_in_either_theme_on_empty_pages_on_those_at_work_and_in_what_opens_on_them(
    still: Home, console: Console, lab: Lab, page: Page, complaints: list[str]
) -> None:
    found = [each for place in EMPTY for each in found_at(page, console.address, place)]
    at_work = (*the_pages(lab.small, lab.running), *states(lab.small, lab.running, lab.queued))
    found += [each for place in at_work for each in found_at(page, lab.address, place)]
    assert not found, "\n".join(found)
    assert complaints == []


@pytest.mark.long
def test_every_control_can_be_focused_and_shows_it_and_a_dialog_gives_the_focus_back(lab: Lab, page: Page) -> None:
    for place in the_pages(lab.small, lab.running):
        if place.name in FOCUSED:
            go(page, lab.address, place, anew=True)
            page.keyboard.press("Tab")  # from here on the focus is a keyboard's, and has to be seen
            count, unseen = page.evaluate(UNSEEN)
            assert count > 8
            assert unseen == [], place.name
    go(page, lab.address, Place("run", f"/run?run={lab.running}", "running"), anew=True)
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
