"""The table of runs, with mouse and keyboard, as a person uses it."""

import re
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from app.links.compare import ids_text
from engine.store import Reader, Store
from engine.store.records import ALIVE
from tests.browser.conftest import Lab
from tests.browser.places import Place, go, settle
from tests.labs import basic

pytestmark = pytest.mark.browser
ROWS = ".pl-runs tbody tr[data-key]"
STILL = """() => {
  const still = performance.now();
  window.now = performance.now;
  performance.now = () => still;
}"""
"""Stops the page's clock, so that the pointer never rests long enough for rows to move."""


def keys(page: Page) -> list[str]:
    """Return the keys of the drawn rows, from top to bottom."""
    return [str(row.get_attribute("data-key")) for row in page.locator(ROWS).all()]


@pytest.mark.parametrize("width", [1300, 390])
def test_ticks_never_move_the_table(lab: Lab, page: Page, width: int) -> None:
    with Store.open(lab.home) as store:
        store.annotations.star(lab.compared[:1], by="Ada")
    page.set_viewport_size({"width": width, "height": 1300})
    page.goto(f"{lab.address}/runs?fold=false")
    table = page.locator(".pl-runs")
    page.locator(ROWS).first.wait_for()
    settle(page)
    before = table.bounding_box()
    assert before is not None
    boxes = page.locator(f"{ROWS} input")
    for ticks in (1, 2, 3):
        boxes.nth(ticks).check()
        expect(page.get_by_text(f"{ticks} {'run' if ticks == 1 else 'runs'} selected")).to_be_visible()
        expect(page.get_by_role("link", name="Compare", exact=True).last).to_be_attached()
        settle(page)
        assert table.bounding_box() == before
    boxes.nth(1).uncheck()
    expect(page.get_by_text("2 runs selected")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_columns_that_all_runs_have_fit_a_window_of_1440_px(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{lab.address}/runs")
    page.locator(ROWS).first.wait_for()
    settle(page)
    table, launched = page.locator(".pl-runs"), page.locator(".pl-runs thead th", has_text="Launched")
    within, last = table.bounding_box(), launched.bounding_box()
    assert within and last and last["x"] + last["width"] <= within["x"] + within["width"]


def test_keys_move_select_unfold_and_compare(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/runs?filter=sweep+%3E+0")
    page.locator(ROWS).first.wait_for()
    settle(page)
    found = keys(page)
    folded = next(place for place, key in enumerate(found) if key.startswith("sweep-"))
    for _ in range(folded + 1):
        page.keyboard.press("j")
    expect(page.locator(".pl-here")).to_have_attribute("data-key", found[folded])
    page.keyboard.press("o")
    expect(page.locator(".pl-runs .pl-child").first).to_be_visible()
    settle(page)
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("2 runs selected")).to_be_visible()
    ticked = [str(row.get_attribute("data-key")).removeprefix("run-") for row in page.locator(".pl-ticked").all()]
    settle(page)
    page.keyboard.press("Escape")
    expect(page.get_by_text("2 runs selected")).to_be_hidden()
    page.locator(ROWS).nth(folded + 1).locator("input").check()
    page.locator(ROWS).nth(folded + 2).locator("input").check()
    expect(page.get_by_text("2 runs selected")).to_be_visible()
    settle(page)
    page.keyboard.press("c")
    page.wait_for_url(re.compile("/compare"))
    assert {int(run_id) for run_id in ticked} == set(range(*_span(page.url)))


def test_rows_that_a_filter_hid_are_selected_no_more_when_they_come_back(lab: Lab, page: Page) -> None:
    with Reader.open(lab.home) as reader:
        one, other = (run.id for run in reader.runs.find(archived=False, limit=2))  # the first rows, which are drawn
    page.goto(f"{lab.address}/runs?fold=false")
    for run_id in (one, other):
        page.locator(f'{ROWS}[data-key="run-{run_id}"] input').check()
    expect(page.get_by_text("2 runs selected")).to_be_visible()
    field = page.get_by_role("textbox", name="Filter expression")
    for text, selected in ((f"id = {one}", "1 run selected"), ("", "1 run selected"), ("id < 0", ""), ("", "")):
        settle(page)
        field.fill(text)
        field.press("Enter")
        if text == "id < 0":
            expect(page.get_by_text("No matching runs")).to_be_visible()
        else:
            expect(page.locator(f'{ROWS}[data-key="run-{one}"]')).to_be_visible()
            expect(page.locator(f'{ROWS}[data-key="run-{other}"]')).to_have_count(0 if text else 1)
        settle(page)
        expect(page.get_by_text("selected,")).to_have_count(1 if selected else 0)
        if selected:
            expect(page.get_by_text(selected)).to_be_visible()
        expect(page.locator(f"{ROWS} input:checked")).to_have_count(1 if selected else 0)


def test_every_row_in_view_is_drawn_and_the_filters_of_an_address_are_counted(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1300, "height": 1300})
    page.goto(f"{lab.address}/runs?fold=false&of=hogwild")
    page.locator(ROWS).first.wait_for()
    settle(page)
    expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()
    empty = page.evaluate(
        """() => {
          const table = document.querySelector(".pl-runs");
          const [top, bottom] = [...table.querySelectorAll(".pl-space")].map((row) => row.getBoundingClientRect());
          return [top.height, Math.max(0, table.getBoundingClientRect().bottom - bottom.top)];
        }"""
    )
    assert empty[0] == 0 and empty[1] < 33, "blank space takes the place of rows"
    assert page.locator(ROWS).count() > 26, "so few rows would be drawn anyway"


def _span(url: str) -> tuple[int, int]:
    first, last = re.search(r"runs=(\d+)(?:-|,|%2C)(\d+)", url).groups()  # type: ignore[union-attr]
    return int(first), int(last) + 1


def test_a_heading_sorts_all_runs_and_the_address_holds_it(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/runs?fold=false")
    page.locator(ROWS).first.wait_for()
    settle(page)
    page.get_by_role("button", name="Execution", exact=False).click()
    page.wait_for_url(re.compile("sort=-duration"))
    expect(page.get_by_role("columnheader", name="Execution", exact=False)).to_have_attribute("aria-sort", "descending")
    with Reader.open(lab.home) as reader:
        baselines = [run.id for run in reader.runs.pinned().values()]
        found = reader.runs.find(order=reader.fields.order("-duration"), archived=False)
    expected = [f"run-{run_id}" for run_id in dict.fromkeys([*baselines, *(run.id for run in found)])]
    expect(page.locator(ROWS).nth(len(baselines))).to_have_attribute("data-key", expected[len(baselines)])
    on = {f"run-{run.id}" for run in found if run.status in ALIVE}  # they grow longer meanwhile
    drawn, known = ([key for key in each if key not in on] for each in (keys(page), expected))
    assert drawn == known[: len(drawn)]
    page.get_by_role("button", name="Execution", exact=False).click()
    page.wait_for_url(re.compile("sort=duration"))
    page.reload()
    expect(page.get_by_role("columnheader", name="Execution", exact=False)).to_have_attribute("aria-sort", "ascending")


def test_a_value_that_a_popover_drew_before_it_closed_is_not_sent_again(lab: Lab, page: Page) -> None:
    """After Clear filters, Back, a press on a heading and a filter with other columns."""
    page.goto(f"{lab.address}/runs?fold=false")
    page.locator(ROWS).first.wait_for()
    settle(page)
    start = page.url
    page.get_by_role("button", name="Display", exact=True).click()
    page.get_by_role("combobox", name="Sort by").fill("-seed")
    page.get_by_role("option", name="Seed ↓", exact=False).click()
    _close(page, "Display")
    page.wait_for_url(re.compile("sort=-seed"))
    page.get_by_role("button", name="Filters", exact=True).click()
    page.get_by_text("Starred", exact=True).click()
    page.get_by_role("combobox", name="Experiment").fill("Hogwild")
    page.get_by_role("option", name="Hogwild!", exact=True).click()
    _close(page, "Filters (2)")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("button", name="Filters", exact=True)).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Execution", exact=False).click()
    page.wait_for_url(re.compile("sort=-duration"))
    settle(page)
    sorted_so = {"fold": ["false"], "sort": ["-duration"]}
    for status, query in (("finished", sorted_so | {"show": ["finished"]}), ("all", sorted_so)):
        page.get_by_role("button", name=status, exact=True).click()
        page.wait_for_url(lambda url, query=query: parse_qs(urlsplit(url).query) == query)
        settle(page)
        expect(page.get_by_role("button", name="Filters", exact=True)).to_be_visible()
    assert parse_qs(urlsplit(page.url).query) == sorted_so
    page.get_by_role("button", name="Filters", exact=True).click()
    expect(
        page.get_by_role("switch", name="Starred").or_(page.get_by_role("checkbox", name="Starred"))
    ).not_to_be_checked()
    page.get_by_text("Starred", exact=True).click()
    _close(page, "Filters (1)")
    go(page, lab.address, Place("runs", urlsplit(start).path + "?fold=false", "runs. Select"))
    settle(page)
    page.get_by_role("button", name="finished", exact=True).click()
    page.wait_for_url(re.compile("show=finished"))
    settle(page)
    assert parse_qs(urlsplit(page.url).query) == {"fold": ["false"], "show": ["finished"]}


def test_a_dialog_that_a_popover_asks_for_takes_its_place(lab: Lab, page: Page) -> None:
    page.context.clear_cookies()
    page.goto(f"{lab.address}/runs?fold=false")
    page.locator(ROWS).first.wait_for()
    settle(page)
    page.locator(ROWS).first.get_by_role("checkbox").click()
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_role("textbox", name="Tag").fill("thesis")
    page.get_by_role("button", name="Add tag").click()
    field = page.get_by_role("dialog").get_by_role("textbox")
    field.wait_for()
    expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)
    field.click()
    field.fill("Ada")
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Undo: 1 run tagged", exact=False)).to_be_visible()


def test_the_count_and_the_way_back_stay_while_rows_are_selected_and_a_new_tag_is_in_view(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1300, "height": 900})
    page.goto(f"{lab.address}/runs?fold=false&of=pipeline")
    page.locator(ROWS).first.wait_for()
    settle(page)
    page.locator(f"{ROWS} input").last.check()
    expect(page.get_by_text(re.compile(r"1 run selected, \d+ of \d+ runs"))).to_be_visible()
    expect(page.get_by_role("button", name="Clear filters")).to_be_visible()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    heights = [page.locator(".st-key-runs-actions").get_by_role(kind, name=name).bounding_box() for kind, name in LIKE]
    assert len({(box["y"], box["height"]) for box in heights if box}) == 1, "actions look alike"
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_role("textbox", name="Tag").fill("base line")
    page.get_by_role("textbox", name="Tag").press("Enter")
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and continue").click()
    expect(page.locator(".pl-ticked .pl-name .pl-mark", has_text="base line")).to_be_in_viewport()


LIKE: tuple[tuple[Literal["link", "button"], str], ...] = (("link", "Compare"), ("button", "Star"), ("button", "Tag"))


def _close(page: Page, popover: str) -> None:
    """Close a popover once the console knows what was chosen in it."""
    settle(page)
    button = page.get_by_role("button", name=popover, exact=True)
    while button.count() == 0 or button.get_attribute("aria-expanded") != "false":  # first its open list, then itself
        page.mouse.click(5, 300)
        settle(page)


def test_a_new_run_keeps_the_ticks_on_their_rows_and_moves_none_under_a_moving_pointer(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/runs?fold=false")
    page.locator(ROWS).first.wait_for()
    settle(page)
    chosen = keys(page)[1]
    page.locator(f'tr[data-key="{chosen}"] input').check()
    expect(page.get_by_text("1 run selected")).to_be_visible()
    page.mouse.move(0, 0)
    with Store.open(lab.home) as store:
        new = basic.add(store, "Ada")
    row = page.locator(f'tr[data-key="run-{new}"]')
    expect(row).to_contain_text("queued")
    expect(page.locator(f'tr[data-key="{chosen}"] input')).to_be_checked()
    expect(page.get_by_text("1 run selected")).to_be_visible()
    with Store.open(lab.home) as store:
        store.runs.cancel(new, by="Ada")
    expect(row).to_contain_text("cancelled")
    settle(page)
    with Store.open(lab.home) as store:
        old = basic.add(store, "Ada")
    row = page.locator(f'tr[data-key="run-{old}"]')
    expect(row).to_contain_text("queued")
    before = keys(page)
    page.evaluate(STILL)
    page.locator(ROWS).nth(1).hover()
    with Store.open(lab.home) as store:
        new = basic.add(store, "Ada")
        store.runs.cancel(old, by="Ada")
    expect(row).to_contain_text("cancelled")
    page.evaluate("() => { performance.now = window.now; }")
    expect(page.get_by_role("button", name="1 new", exact=True)).to_be_visible()
    assert keys(page) == before, "rows keep their places while the pointer rests on them"
    page.mouse.move(0, 0)
    expect(page.locator(f'tr[data-key="run-{new}"]')).to_contain_text("queued")
    expect(page.get_by_role("button", name="1 new", exact=True)).to_have_count(0)
    page.locator(ROWS).nth(1).hover()
    with Store.open(lab.home) as store:
        last = basic.add(store, "Ada")
    page.get_by_role("button", name="1 new", exact=True).click()
    expect(page.locator(f'tr[data-key="run-{last}"]')).to_contain_text("queued")


@pytest.mark.parametrize(
    ("left", "opened"),
    [
        ("/runs?group=true&filter=seed+%3E+-1", "/compare?runs={runs}&group=trainers&v=3"),
        ("/scaling?runs={runs}", "/compare?runs={runs}&x=time&v=3"),
        ("/scaling?runs={runs}&view=Staleness", "/compare?runs={runs}&v=3"),
        ("/run?run={run}&smooth=0.5", "/compare?runs={runs}&smooth=0.5&v=3"),
    ],
)
def test_a_link_keeps_what_it_asks_for_where_the_page_left_has_the_same_names(
    lab: Lab, page: Page, left: str, opened: str
) -> None:
    names = {"runs": ids_text(lab.compared), "run": lab.compared[0]}
    page.goto(lab.address + left.format(**names))
    page.locator("h1").wait_for()
    go(page, lab.address, Place("compare", opened.format(**names), "compared runs"))
    wanted, found = (parse_qs(urlsplit(url).query) for url in (opened.format(**names), page.url))
    assert {name: found.get(name) for name in wanted} == wanted


def test_the_navigation_shows_all_runs_again(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/runs?filter=splits+%3E+0")
    page.locator(ROWS).first.wait_for()
    settle(page)
    page.get_by_test_id("stTopNav").get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_url(f"{lab.address}/runs")
    expect(page.get_by_role("textbox", name="Filter expression")).to_have_value("")


def test_hints_about_keys_are_hidden_where_there_is_no_mouse(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/runs")
    page.locator(ROWS).first.wait_for()
    hints = [page.get_by_text("Keys: j and k move"), page.locator(".pl-search kbd")]
    for hint in hints:
        expect(hint).to_be_visible()
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for hint in hints:
        expect(hint).to_be_hidden()
    devtools.detach()  # ends the emulation: others use this window too
