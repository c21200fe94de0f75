"""A sweep by hand: launched from the form, watched until its curve is whole; another one paused, and cancelled as a
whole.
"""

import pytest
from playwright.sync_api import Page, expect

from engine.store import Store
from tests.browser.conftest import Console, Lab
from tests.browser.replay import launch, launch_sweep, runs_of
from tests.labs import basic
from tests.labs.small import finish

pytestmark = pytest.mark.browser
RUNS_MS = 1_200_000
POINTS = (
    "many => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'measured' && "
    "trace.x.length === many)"
)


def test_a_sweep_is_launched_watched_to_its_end_and_found_again(lab: Lab, page: Page) -> None:
    sweep = launch_sweep(page, lab.address, "&set=epochs:2", "1, 2, 3", 3)
    expect(page.get_by_role("heading", name=f"Sweep {sweep}: Hogwild! over trainers")).to_be_visible()
    cells, first, *others = page.locator("a.pl-cell"), *runs_of(lab, sweep)
    expect(cells).to_have_count(3)
    finish(lab.home, first, work=10_000, time_s=4.0)
    expect(page.locator(".pl-figure")).to_be_visible()  # nobody touched the page
    for run in others:
        finish(lab.home, run, work=10_000, time_s=3.0)
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(3)
    page.wait_for_function(POINTS, arg=3)
    expect(page.get_by_text("3 finished", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel all")).to_have_count(0)

    cells.nth(1).click()
    page.wait_for_url(f"**/run?run={others[0].id}")
    page.get_by_role("link", name=f"sweep {sweep}", exact=True).click()
    page.wait_for_url(f"**/sweep?sweep={sweep}")
    page.wait_for_function(POINTS, arg=3)


def test_a_sweep_is_paused_let_go_on_and_cancelled_while_the_machine_page_shows_who_holds_the_cores(
    lab: Lab, page: Page
) -> None:
    sweep = launch_sweep(page, lab.address, "", "1..2", 2)
    first, second = runs_of(lab, sweep)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{lab.address}/machine")
    expect(other.get_by_role("heading", name="Slots")).to_be_visible()
    other.wait_for_function("() => document.querySelector('.pl-figure')?._fullData?.[0]?.y?.length >= 1")
    page.get_by_role("button", name="Let it go on").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    with Store.open(lab.home) as store:
        basic.drive(store, lab.home, first.id, "running")
        expect(
            other.get_by_role("link", name=f"run {first.id}", exact=True)
        ).to_be_visible()  # nobody touched this page
        expect(page.locator("a.pl-cell.pl-running")).to_have_count(1)
        page.get_by_role("button", name="Cancel all").click()
        page.get_by_role("button", name="Cancel all runs").click()
        expect(page.locator("a.pl-cell.pl-cancelled")).to_have_count(1)  # the queued one
        assert (store.read.runs.one(first.id).status, store.read.runs.one(second.id).status) == (
            "stopping",
            "cancelled",
        )
        store.claims.end(first.id, "cancelled", "Cancelled by Ada.")
    expect(page.locator("a.pl-cell.pl-cancelled")).to_have_count(2)
    expect(page.get_by_text("No run of this sweep finished, so there is nothing to draw.")).to_be_visible()
    expect(other.get_by_role("link", name=f"run {first.id}", exact=True)).to_have_count(0)
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("link", name=f"part of sweep {sweep}").first).to_be_visible()
    page.get_by_role("link", name="sweeps of runs").click()
    expect(page.get_by_role("link", name=f"{sweep}: Hogwild! over trainers")).to_be_visible()


@pytest.mark.long
def test_a_pipelines_splits_are_swept_and_drawn_beside_what_would_be_ideal(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=pipeline&preset=quick&set=batches:3")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of splits").fill("1, 2, 4")
    launch(page, "Launch 3 runs", to="sweep")
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(3, timeout=RUNS_MS)
    page.wait_for_function(POINTS, arg=3)
    drawn = page.locator(".pl-figure").evaluate("plot => plot.data.map(trace => trace.name)")
    assert any("ideal" in name for name in drawn), drawn
    assert any("stages" in name or "bound" in name for name in drawn), drawn
