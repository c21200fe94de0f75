"""A sweep by hand: launched from the form, watched until its curve is whole; another one paused, and cancelled as a
whole; one beside a busy program, flagged and measured again.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from engine.analysis.comparability import in_words
from engine.registry import experiment
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.records import ENDED, RunRow
from engine.sweep.launch import launch_sweep as queue_sweep
from engine.system.machine import machine
from tests.browser.conftest import Console, Lab
from tests.browser.places import give_name
from tests.browser.replay import launch_shown_sweep, launch_sweep, runs_of
from tests.labs import basic
from tests.labs.small import finish
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.browser
RUNS_MS = 1_200_000
LOOP = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
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
    page.get_by_role("button", name="Resume").click()
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
    expect(page.get_by_text("Nothing to plot: no run of this sweep finished.")).to_be_visible()
    expect(other.get_by_role("link", name=f"run {first.id}", exact=True)).to_have_count(0)
    page.get_by_test_id("stTopNav").get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name=f"Sweep {sweep}: Hogwild!").click()
    page.wait_for_url(f"**/sweep?sweep={sweep}")
    expect(page.get_by_role("heading", name=f"Sweep {sweep}")).to_be_visible()


@pytest.mark.long
def test_a_pipelines_splits_are_swept_and_drawn_beside_what_would_be_ideal(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=pipeline&preset=quick&set=batches:3")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of splits").fill("1, 2, 4")
    launch_shown_sweep(page, 3)
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(3, timeout=RUNS_MS)
    page.goto(f"{page.url}&view=Scaling&disturbed=true")  # disturbed ones are of a busy machine
    page.wait_for_function(POINTS, arg=3)
    drawn = page.locator(".pl-figure").first.evaluate("plot => plot.data.map(trace => trace.name)")
    assert {"measured", "ideal"} <= {*drawn}


@contextmanager
def hogs() -> Iterator[None]:
    """Keep every core busy."""
    processes = [subprocess.Popen([sys.executable, "-c", LOOP, str(core)]) for core in machine().core_ids]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.long  # 65 s of real runs; the flags are also tested in tests/app/test_disturbance.py
def test_cells_beside_a_busy_program_are_flagged_and_a_repeat_takes_their_place(console: Console, page: Page) -> None:
    def runs() -> list[RunRow]:
        with Reader.open(console.home) as reader:
            return reader.sweeps.runs(sweep)

    def flagged(cells: list[RunRow]) -> None:
        """Expect on the page just the flags that the store holds."""
        for run in cells:
            cell = page.locator(f"a.pl-cell[href$='run={run.id}']").first  # until a rerun ends, its former is below it
            expect(cell).to_contain_text("disturbed" if run.disturbed else "s")
            if not run.disturbed:
                expect(cell).not_to_contain_text("disturbed")

    quick = {**experiment("hogwild").preset("quick").settings, "epochs": 2}
    del quick["trainers"]
    runs_of_both = Launch("hogwild", quick, "Ada", "quick")
    sweep = queue_sweep(console.home, SweepLaunch(runs_of_both, {"trainers": [1, 2]}))
    page.goto(f"{console.address}/sweep?sweep={sweep}")
    with hogs():
        wait_until(lambda: all(run.status in ENDED for run in runs()), "both runs have ended", PATIENCE_S)
    first = runs()
    assert [(run.status, run.disturbed) for run in first] == [("finished", True)] * 2, first
    flagged(first)
    expect(page.locator(f"a.pl-cell[href$='run={first[0].id}']").first).to_contain_text(
        in_words(first[0].disturbance or 0.0)
    )
    told = page.get_by_text("of the CPU time of 2 of 2 runs: repeat them on an idle machine")
    expect(told).to_be_visible()

    page.get_by_role("button", name="Measure again (2)").click()
    give_name(page)
    wait_until(lambda: len(runs()) == 4 and all(run.status in ENDED for run in runs()), "the repeats have ended")
    again = runs()[2:]
    assert [(run.status, run.config["trainers"]) for run in again] == [("finished", 1), ("finished", 2)]
    flagged(again)  # on a busy machine they are flagged too
    with Reader.open(console.home) as reader:
        assert reader.sweeps.one(sweep).exclusive
    starts = [run.started_at or "" for run in again]
    assert (again[0].ended_at or "") < starts[1], "one at a time"
    if not any(run.disturbed for run in again):
        expect(told).to_have_count(0)
