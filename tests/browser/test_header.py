"""The tools of the header: search by keyboard, the theme, and their place on narrow screens."""

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from app.ui.html import TERMS
from engine.home import ROOT
from tests.browser.axe import findings, grave
from tests.browser.consoles import Console, Lab
from tests.browser.places import settle, turn
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser
SCHEME = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).colorScheme"
INK = "() => getComputedStyle(document.querySelector('.pl-figure .xtick text, .pl-panels .xtick text')).fill"
FOCUSED = "() => document.activeElement?.getAttribute('aria-label')"
OUTSIDE = """() => [document.documentElement.scrollWidth > innerWidth,
  ...[...document.querySelectorAll('.pl-tools button, [data-testid=stHeader] a, [data-testid=stHeader] button')]
    .filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())
    .map((box) => box.left < 0 || box.right > innerWidth)]"""
COVERED = """() => {
  const tools = document.querySelector('.pl-tools').getBoundingClientRect();
  return [...document.querySelectorAll('[data-testid=stHeader] :is(a, button)')]
    .filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > tools.left).length;
}"""


def opened(page: Page, address: str, path: str) -> None:
    page.goto(address + path)
    settle(page)


def test_a_run_is_found_and_opened_by_keyboard_without_a_reload(lab: Lab, page: Page, complaints: list[str]) -> None:
    opened(page, lab.address, "/machine")
    page.evaluate("window.here = true")
    page.get_by_role("button", name="Search").focus()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search runs, experiments, pages and saved views")
    expect(box).to_be_focused()
    page.keyboard.type(f"run {lab.running}")
    first = page.get_by_role("dialog").get_by_role("option").first
    expect(first).to_contain_text(f"Run {lab.running}:")
    expect(first).to_have_attribute("aria-selected", "true")
    assert box.get_attribute("aria-activedescendant") == first.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Run {lab.running}")
    expect(page).to_have_url(f"{lab.address}/run?run={lab.running}")
    assert page.evaluate("window.here") is True
    settle(page)
    page.keyboard.press("Control+k")
    page.keyboard.type(f"run {lab.small.failed}")
    expect(first).to_contain_text(f"Run {lab.small.failed}:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Run {lab.small.failed}")
    settle(page)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Run {lab.running}")
    assert complaints == []


def test_arrows_choose_escape_gives_the_focus_back_axe_finds_nothing_grave_and_terms_are_found(
    lab: Lab, page: Page
) -> None:
    opened(page, lab.address, "/machine")
    button = page.get_by_role("button", name="Search")
    button.focus()
    page.keyboard.press("Enter")
    options = page.get_by_role("dialog").get_by_role("option")
    expect(options.nth(5)).to_be_visible()
    count = options.count()
    chosen = page.locator("[role=option][aria-selected=true]")
    for key, place in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("ArrowUp", 0), ("ArrowUp", count - 1)):
        page.keyboard.press(key)
        expect(chosen).to_have_attribute("id", f"pl-option-{place}")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        settle(page, scheme)
        assert not grave(findings(page)), scheme
    page.keyboard.type("nothing has this name")
    expect(page.get_by_role("status").filter(has_text="No results.")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate(FOCUSED) == "Search"
    page.keyboard.press("Control+k")
    page.keyboard.type("staleness")
    expect(options.first).to_contain_text(TERMS["staleness"][:40])
    page.keyboard.press("Enter")
    meaning = page.get_by_role("dialog", name="Help")
    expect(meaning).to_contain_text(TERMS["staleness"])
    expect(meaning.get_by_role("textbox", name="Search documentation and glossary")).to_have_value("staleness")
    expect(page).to_have_url(f"{lab.address}/machine")


def test_the_theme_is_chosen_by_keyboard_charts_follow_and_every_page_keeps_it(lab: Lab, page: Page) -> None:
    opened(page, lab.address, f"/run?run={lab.running}")
    page.locator(".pl-panels .xtick text").first.wait_for()
    page.evaluate("window.here = true")
    light = page.evaluate(INK)
    page.get_by_role("button", name="Theme").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="System")).to_be_focused()
    page.keyboard.press("ArrowUp")  # from the first to the last
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    settle(page, "dark")
    page.wait_for_function(f"(light) => ({INK})() !== light", arg=light)
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) == "Theme"
    assert page.evaluate("window.here") is True
    for path in ("/", "/machine"):
        page.goto(lab.address + path)
        settle(page, "dark")
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("radio", name="System").check()
    settle(page, "light")
    page.emulate_media(color_scheme="dark")
    settle(page, "dark")
    page.evaluate("localStorage.clear()")


def test_the_veil_behind_a_dialog_darkens_the_page_in_both_themes(lab: Lab, page: Page) -> None:
    opened(page, lab.address, f"/run?run={lab.running}")
    page.get_by_role("button", name="Cancel").click()
    veil = page.get_by_test_id("stDialog")
    expect(veil.get_by_role("button", name="Keep running")).to_be_visible()
    for scheme in ("light", "dark"):
        turn(page, scheme)
        expect(veil).to_have_css("background-color", re.compile(r"rgba\(0, 0, 0, 0\.\d+\)"))


def test_a_term_opens_its_definition_and_the_glossary_finds_others(lab: Lab, page: Page) -> None:
    opened(page, lab.address, f"/run?run={lab.small.stale}")
    term = page.get_by_role("button", name="updates old")
    term.focus()
    page.keyboard.press("Enter")
    meaning = page.get_by_role("dialog", name="Definition")
    expect(meaning).to_contain_text(TERMS["staleness"])
    expect(meaning.get_by_role("button", name="Glossary")).to_be_focused()
    assert not grave(findings(page))
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    expect(term).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    glossary = page.get_by_role("dialog", name="Help")
    search = glossary.get_by_label("Search documentation and glossary")
    expect(search).to_have_value("staleness")
    expect(glossary.get_by_text("Staleness", exact=True)).to_be_visible()
    expect(glossary.get_by_text("Rank", exact=True)).to_be_hidden()
    assert not grave(findings(page))

    def below(upper: Locator, lower: Locator) -> bool:
        above, under = upper.bounding_box(), lower.bounding_box()
        return bool(above and under and above["y"] + above["height"] <= under["y"])

    documents, defined = glossary.locator("li"), glossary.locator("#pl-defined dt")
    search.fill("step")
    expect(documents.first).to_be_visible()
    expect(glossary.locator("dt").first).to_have_text("Step")
    expect(glossary.locator("#pl-terms dt")).to_have_text(["Step", "Environment step"])
    assert below(glossary.locator("#pl-terms"), documents.first) and below(documents.last, defined.first)
    search.fill("idle")
    expect(glossary.locator("dt:visible")).to_have_text(["Bubble"])
    search.fill("security")
    found = glossary.get_by_role("link", name="Security", exact=True)
    expect(found).to_be_visible()
    expect(glossary.get_by_text("No results.")).to_be_hidden()
    assert not grave(findings(page))
    assert "/docs?page=security" in str(found.get_attribute("href"))
    search.fill("xyzzyx")
    expect(glossary.get_by_text("No results.")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(glossary).to_be_hidden()
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(term).to_be_focused()


def test_relative_times_go_on_by_themselves(lab: Lab, timed_page: Page) -> None:
    page = timed_page
    opened(page, lab.address, f"/run?run={lab.compared[0]}")
    launched = page.locator(".pl-facts time").first
    expect(launched).to_have_text(re.compile("ago$|just now"))
    page.clock.fast_forward(2 * 3_600_000)
    expect(launched).to_have_text(re.compile("^[2-9] h ago$"))


def test_help_leads_to_the_tour_with_its_pictures_and_links(lab: Lab, page: Page, complaints: list[str]) -> None:
    opened(page, lab.address, "/machine")
    page.locator("[data-opens=pl-help]").click()
    expect(page.get_by_role("link", name="Page guide")).to_have_attribute("href", "/docs?page=operations")
    page.get_by_role("link", name="Tour").click()
    page.wait_for_url(f"{lab.address}/docs?page=tour")
    settle(page)
    expect(page.get_by_role("heading", name="Tour", level=1)).to_be_visible()
    pictures = page.get_by_test_id("stMain").locator("img")
    expect(pictures).to_have_count(len(list((ROOT / "docs" / "images" / "tour").glob("*.png"))))
    page.get_by_role("link", name="groups and bands").click()
    page.wait_for_url(f"{lab.address}/docs?page=compare")
    settle(page)
    expect(page.get_by_role("heading", name="Comparing runs", level=1)).to_be_visible()
    assert complaints == []


def test_an_unknown_address_or_id_has_a_page_with_a_way_on(lab: Lab, page: Page) -> None:
    for path in ("/nonsense", "/deep/inside/run", "/machine.php"):
        answer = page.goto(lab.address + path)
        assert answer
        assert answer.status == 404
        settle(page)
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
        expect(page.get_by_text(f"There is no page at {path}.")).to_be_visible()
        expect(page.get_by_test_id("stDialog")).to_have_count(0)
    page.get_by_test_id("stMain").get_by_role("link", name="Machine").click()
    page.wait_for_url(f"{lab.address}/machine")
    for path in ("/favicon.png", "/manifest.json", "/_stcore/health", "/runs", "/"):
        assert httpx.get(lab.address + path, timeout=PATIENCE_S).status_code == 200, path
    opened(page, lab.address, "/run?run=99999")
    expect(page.get_by_role("heading", name="Run 99999 doesn't exist")).to_be_visible()
    expect(page).to_have_title("Run 99999 doesn't exist · Parallab")
    page.get_by_role("link", name="See all runs").click()
    page.wait_for_url(f"{lab.address}/runs")


def test_header_and_palette_fit_a_phone_and_a_zoom_of_150_percent(lab: Lab, page: Page) -> None:
    opened(page, lab.address, "/machine")
    for width, height in ((390, 800), (960, 600), (1100, 700)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"() => !({OUTSIDE})().some(Boolean)")
        page.wait_for_function(f"() => ({COVERED})() === 0")  # the navigation folds itself
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog").get_by_role("option").first).to_be_visible()
        box = page.get_by_role("dialog").bounding_box()
        assert box
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert box["y"] >= 0 and box["y"] + box["height"] <= height
        assert not page.evaluate(OUTSIDE)[0], width
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_console_that_is_gone_is_said_in_the_words_of_the_lab_and_the_page_reconnects(
    console: Console, page: Page
) -> None:
    page.goto(f"{console.address}/launch")
    page.locator("h1").wait_for()
    console.stop()
    dialog = page.get_by_role("dialog", name="Connection error")
    expect(dialog).to_contain_text("The console is not responding", timeout=1_000 * PATIENCE_S)
    expect(dialog).not_to_contain_text("Streamlit")
    expect(dialog.get_by_role("button", name="Reload")).to_be_visible()
    console.start()
    expect(dialog).to_have_count(0, timeout=1_000 * PATIENCE_S)
