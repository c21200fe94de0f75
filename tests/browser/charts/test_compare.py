"""Compared runs in a browser: the address follows what is chosen, and gives anyone who opens it the same picture."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.store import Store
from tests.browser.conftest import Lab, double_click, zoom
from tests.browser.places import settle
from tests.labs import compare
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
DRAWN = (
    "many => [...document.querySelectorAll('.pl-figure')].filter(node => node._fullData?.length && "
    "node.querySelector('.scatterlayer path')).length === many"
)
PICTURE = """() => [...document.querySelectorAll('.pl-figure')].map(node => node._fullData.map(trace =>
  [trace.name, trace.line?.color, trace.line?.dash, trace.opacity, Array.from(trace.x), Array.from(trace.y, value => value ?? null)]))"""  # noqa: E501


def picture(page: Page, charts: int) -> Any:
    """Return every trace drawn: name, colour, dash, opacity and points."""
    page.wait_for_function(DRAWN, arg=charts)
    settle(page)
    return page.evaluate(PICTURE)


def test_the_address_of_a_comparison_gives_anyone_the_same_picture(lab: Lab, page: Page) -> None:
    runs = f"{lab.compared[0]}-{lab.compared[4]}"
    page.goto(f"{lab.address}/compare?runs={runs}&group=none")
    single = picture(page, 2)
    assert [len(of_chart) for of_chart in single] == [5, 2 * (3 + 2 * 2)]
    expect(page.get_by_role("link", name=f"Open {lab.compared[0]}: trainers 2, seed 0")).to_be_visible()

    page.get_by_label("Group by").click()
    page.get_by_role("option", name="Trainers", exact=True).click()
    page.wait_for_url(f"**/compare?runs={runs}&group=trainers&v=3")
    page.keyboard.press("Escape")
    expect(page.get_by_text("trainers 2 (n=3)", exact=True).first).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.pl-figure')].every(node => node._fullData?.some(trace => "
        "trace.fill === 'toself'))"
    )
    grouped = picture(page, 2)
    assert [name for name, *_ in grouped[1] if "n=" in name] == ["trainers 2 (n=3)", "trainers 4 (n=2)"]

    other = page.context.new_page()
    other.goto(page.url)
    assert picture(other, 2) == grouped

    other.reload()
    assert picture(other, 2) == grouped

    page.get_by_text("Differences", exact=True).click()
    expect(page.get_by_text("equal in all 5 runs, and hidden").first).to_be_visible()
    page.wait_for_url(f"**/compare?runs={runs}&tab=differences&group=trainers&v=3")


def test_runs_are_ticked_compared_and_the_view_is_saved_under_a_name(lab: Lab, page: Page) -> None:
    ids = compare.fill(lab.home)[-2:]  # the newest two, which stand on top
    both = re.compile(rf"/compare\?runs={ids[0]}(,|%2C){ids[1]}&v=3$")
    page.goto(f"{lab.address}/compare")
    expect(page.get_by_text("No runs selected.")).to_be_visible()
    table = page.locator("[data-testid=stDataFrame]").first
    expect(table.locator("table")).to_contain_text("finished")  # the grid is drawn
    settle(page)
    box = table.bounding_box()
    assert box is not None
    for row in (1, 2):
        page.mouse.click(box["x"] + 15, box["y"] + 33 * row + 16)
        expect(page.get_by_role("button", name=f"Compare {row} run")).to_be_enabled()
        with Store.open(lab.home) as store:
            compare.add(store, trainers=2, seed=row)  # a newer run must not move the ticks
    page.get_by_role("button", name="Compare 2 runs").click()
    page.wait_for_url(both)
    picture(page, 2)

    page.get_by_role("button", name="Save view").click()
    page.get_by_role("textbox", name="View name").fill("Old against new")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("dialog").get_by_role("button", name="Save and continue", exact=True).click()
    expect(page.get_by_role("button", name="View: Old against new")).to_be_visible()
    page.goto(f"{lab.address}/compare")
    page.get_by_role("link", name="Old against new").click()
    page.wait_for_url(both)
    picture(page, 2)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_buttons_behind_a_name_are_in_one_row(lab: Lab, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{lab.address}/compare?runs={lab.compared[0]}-{lab.compared[4]}&group=none&base={lab.compared[0]}")
    rows = page.locator(".pl-lines tbody th")
    expect(rows).to_have_count(5)
    for row in rows.all():
        link, base = (row.locator(each).bounding_box() for each in ("a", ".pl-base"))
        assert link and base and abs(link["y"] - base["y"]) < link["height"] / 2


SEEN = """node => { const [from, to] = node.layout.xaxis.range; return Array.from(node._fullData[0].x).filter(x => x >= from && x <= to).length }"""  # noqa: E501


def test_a_zoom_shows_more_of_compared_runs_and_a_double_click_all_of_them(lab: Lab, page: Page) -> None:
    with Store.open(lab.home) as store:
        ids = [compare.add(store, trainers=2, seed=seed, steps=20_000) for seed in (7, 8)]
    page.goto(f"{lab.address}/compare?runs={ids[0]},{ids[1]}&metrics=train/loss&smooth=0")
    picture(page, 1)
    expect(page.get_by_text("Zoom in to see more points.")).to_be_visible()
    plot = page.locator(".pl-figure")
    whole = plot.evaluate("node => node._fullData[0].x.length")
    zoom(page, plot)
    wait_until(lambda: plot.evaluate(SEEN) > 400, "every point in sight came")
    double_click(page, plot)
    wait_until(lambda: plot.evaluate("node => node._fullData[0].x.length") == whole, "the whole is drawn as before")


LINES = """() => [...document.querySelectorAll('.pl-lines tbody tr')].map((row) => row.textContent)"""


PRESSABLE = """() => (document.querySelector('.pl-figure')?._fullData ?? []).filter((trace) => trace.meta?.press)
  .map((trace) => [trace.name, Array.from(trace.y).at(-1)])"""


def drawn_as(page: Page, *starts: str) -> list[list[Any]]:
    """Wait until exactly lines of these names are in the chart, in this order; return name and last value of each."""

    def is_drawn() -> bool:
        names = [name for name, _ in page.evaluate(PRESSABLE)]
        return [name[: len(start)] for name, start in zip(names, starts, strict=False)] == [*starts] and len(
            names
        ) == len(starts)

    wait_until(is_drawn, f"the lines {', '.join(starts)}")
    settle(page)
    found: list[list[Any]] = page.evaluate(PRESSABLE)
    return found


def test_groups_are_pinned_compared_and_opened_down_to_one_run(lab: Lab, page: Page) -> None:
    """Each press changes what is plotted, and the address has it: whoever opens that sees the same."""
    first, *_, last = lab.compared[:5]
    page.goto(f"{lab.address}/compare?runs={first}-{last}&group=trainers&metrics=test/accuracy")
    two, four = drawn_as(page, "trainers 2", "trainers 4")
    table = page.get_by_role("region", name="Lines of the charts")

    table.get_by_role("button", name="Pin trainers 4").click()
    assert drawn_as(page, "trainers 4", "trainers 2") == [four, two]
    table.get_by_role("button", name="Baseline trainers 2").click()
    assert drawn_as(page, "trainers 2", "trainers 4") == [two, four]
    delta = table.get_by_role("row").filter(has_text="trainers 4").locator(".pl-delta")
    amount, in_words = delta.inner_text().replace("\u2212", "-").split("\n")
    share, errors = (float(each.split()[0]) for each in amount.split(" · "))
    assert in_words == "too few runs to judge"
    assert share == pytest.approx(four[1] - two[1], abs=0.01) and errors * share > 0
    assert delta.get_attribute("class") == "pl-delta ", "two runs have no interval: no colour"
    assert "test images" in (delta.get_attribute("title") or "")
    whole = "node => node.scrollWidth <= node.clientWidth"
    for width in (1100, 1400):
        page.set_viewport_size({"width": width, "height": 1000})
        wait_until(lambda: table.evaluate(whole), "a column of differences is in sight")
        assert delta.evaluate("node => node.clientHeight / parseFloat(getComputedStyle(node).lineHeight)") < 2.1

    group = table.get_by_role("button", name="trainers 2", exact=True)
    before = group.bounding_box()
    group.click()
    runs = drawn_as(page, f"{first}:", f"{first + 1}:", f"{first + 2}:")
    assert sum(value for _, value in runs) / 3 == pytest.approx(two[1])
    after = group.bounding_box()
    assert before and after and after["y"] == pytest.approx(before["y"], abs=1), "the pressed row stays"
    pressed = page.url
    table.get_by_role("button", name=runs[1][0], exact=True).click()
    assert drawn_as(page, f"{first + 1}:") == [runs[1]]
    other = page.context.new_page()
    other.goto(page.url)
    assert drawn_as(other, f"{first + 1}:") == [runs[1]]
    other.close()
    table.get_by_role("button", name=runs[1][0], exact=True).click()
    assert drawn_as(page, *(name for name, _ in runs)) == runs and page.url == pressed
    plot = page.locator(".pl-figure").first
    x, y = plot.evaluate(
        "node => { const { x, y } = node._fullData[2]; const { xaxis, yaxis } = node._fullLayout; "
        "return [xaxis._offset + xaxis.d2p(x.at(-2)), yaxis._offset + yaxis.d2p(y.at(-2))]; }"
    )
    plot.hover(position={"x": x, "y": y})
    plot.click(position={"x": x, "y": y}, force=True)
    page.wait_for_url("**only=**")
    (shown,) = drawn_as(page, f"{page.url.partition('only=')[2].partition('&')[0]}:")
    assert shown in runs, "one of those that end there"
    table.get_by_role("button", name="Show all").click()
    drawn_as(page, "trainers 2", "trainers 4")

    page.get_by_role("combobox", name="Columns").click()
    page.get_by_role("option", name="Owner", exact=True).click()
    page.keyboard.press("Escape")
    table.get_by_role("button", name="Owner").click()
    page.wait_for_url("**sort=owner**")
    wait_until(lambda: ["Ada" in row for row in page.evaluate(LINES)] == [False, True], "the pinned one stays first")
    for name in ("Baseline trainers 2", "Pin trainers 4"):
        table.get_by_role("button", name=name).click()
        expect(table.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "false")
        settle(page)
    table.get_by_role("button", name="Owner").click()
    page.wait_for_url("**sort=-owner**")
    wait_until(lambda: ["Ada" in row for row in page.evaluate(LINES)] == [False, True], "Grace, then Ada")


def test_the_lines_hint_at_columns_beyond_their_edge(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    first, *_, last = lab.compared[:5]
    page.goto(f"{lab.address}/compare?runs={first}-{last}&columns=trainers,test/accuracy.last,train/loss.last")
    table = page.get_by_role("region", name="Lines of the charts")
    table.get_by_role("row").nth(1).wait_for()
    shade = "node => getComputedStyle(node.parentElement, '::after').opacity"
    wait_until(lambda: table.evaluate(shade) == "1", "a shade says that there are more columns")
    table.evaluate("node => node.scrollTo(node.scrollWidth, 0)")
    wait_until(lambda: table.evaluate(shade) == "0", "it goes at the end")
    page.set_viewport_size({"width": 1300, "height": 1400})


SIGHT = """() => [...document.querySelectorAll('.pl-figure')].map(({ _fullLayout }) =>
  [_fullLayout.xaxis, _fullLayout.yaxis].map(axis => axis.range.map(Number)))"""
NOTES = "() => [...document.querySelectorAll('.pl-figure .annotation-text')].map(node => node.textContent)"


def test_a_zoom_along_x_is_in_the_address_holds_for_all_charts_and_fits_the_y_axes(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/compare?runs={lab.compared[0]}-{lab.compared[4]}&group=none&x=step")
    picture(page, 2)
    whole = page.evaluate(SIGHT)
    zoom(page, page.locator(".pl-figure").last, to=0.8)
    page.wait_for_url(re.compile(r"zoom=[\d.]+\.\.[\d.]+"))
    expect(page.get_by_role("button", name="Show the whole x-axis")).to_be_visible()

    def is_alike(window: Page) -> bool:
        (x, y), (other, _) = window.evaluate(SIGHT)
        low, high = map(float, window.url.partition("zoom=")[2].partition("&")[0].split(".."))
        near = all(abs(one - two) < 1e-6 * high for one, two in zip([*x, *other], [low, high] * 2, strict=True))
        return near and y != whole[0][1]

    wait_until(lambda: is_alike(page), "both charts show the range, and y fits it")
    other = page.context.new_page()
    other.goto(page.url)
    picture(other, 2)
    wait_until(lambda: is_alike(other) and other.evaluate(SIGHT) == page.evaluate(SIGHT), "the address brings it back")
    double_click(page, page.locator(".pl-figure").first)
    page.wait_for_url(lambda url: "zoom=" not in url)
    wait_until(lambda: page.evaluate(SIGHT) == whole, "a double click shows all in both charts")


def test_a_range_without_points_says_so_with_a_way_back(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/compare?runs={lab.compared[0]}-{lab.compared[4]}&group=none&x=step&zoom=1e6..2e6")
    picture(page, 2)
    wait_until(lambda: page.evaluate(NOTES) == ["No points here. Double-click to see all."] * 2, "it says so")
    page.get_by_role("button", name="Show the whole x-axis").click()
    page.wait_for_url(lambda url: "zoom=" not in url)
    wait_until(lambda: not page.evaluate(NOTES), "all is shown again")
