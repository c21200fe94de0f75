"""The first load of a page: nothing that a reader sees moves while its parts come."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Lab
from tests.browser.places import settle

pytestmark = pytest.mark.browser
MOST = 0.1
"""The cumulative layout shift up to which a page counts as steady."""
WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push([entry.value, entry.sources.map(({ node }) => node?.className)]);
}).observe({ type: 'layout-shift', buffered: true });
"""  # noqa: E501


def test_no_page_moves_while_it_loads(lab: Lab, page: Page) -> None:
    page.add_init_script(WATCH)
    wide = [
        (1440, path) for path in ("/", "/launch", "/runs", f"/run?run={lab.running}", "/figures", "/museum", "/machine")
    ]
    for width, path in (*wide, (390, "/launch"), (390, "/runs")):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(lab.address + path)
        page.locator("h1").wait_for()
        settle(page)
        found = page.evaluate("window.shifts")
        assert sum(value for value, _ in found) < MOST, (width, path, found)


def test_the_styles_are_in_the_page_survive_a_reload_and_win_over_streamlits(lab: Lab, page: Page) -> None:
    for _ in range(2):
        answer = page.goto(lab.address)
        assert answer and answer.status == 200
        assert answer.text().count("span.pl-cell {") == 1 and "etag" not in answer.headers
    page.goto(f"{lab.address}/run?run={lab.running}")
    crumbs, title = page.locator(".pl-breadcrumb li").first, page.locator("h1")
    assert crumbs.bounding_box()["x"] == pytest.approx(title.bounding_box()["x"], abs=1), "ours win over Streamlit's"  # type: ignore[index]


def test_what_is_side_by_side_is_level(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    labels, headings = "[data-testid=stWidgetLabel]", page.locator(".st-key-home-columns h2")
    rows = {
        "/runs": [
            [page.locator(labels, has_text=name) for name in ("Status", "Search", "Filter expression")],
            [page.get_by_role("button", name=name, exact=True) for name in ("active", "Filters")],
        ],
        f"/run?run={lab.compared[0]}": [[page.locator(labels, has_text=name) for name in ("X-axis", "Smoothing")]],
        "/": [[headings.get_by_text(name, exact=True) for name in ("Running", "Recent", "Machine")]],
    }
    for path, several in rows.items():
        page.goto(lab.address + path)
        page.locator("h1").wait_for()
        settle(page)
        for row in several:
            assert len({box["y"] for each in row if (box := each.bounding_box())}) == 1, (path, row)
