"""A sweep of twenty runs, launched in the browser, outlives the death of console and runner half-way."""

import os
import signal

import pytest
from playwright.sync_api import Page, expect

from engine.store import Reader, Sweep
from engine.system.runner_process import runner_process
from engine.upkeep.leftovers import leftovers
from tests.browser.conftest import Console
from tests.browser.replay import launch_shown_sweep
from tests.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(2_400)]
HALF_S, WHOLE_S = 600.0, 1_200.0


def test_a_sweep_of_20_runs_survives_a_kill_of_console_and_runner_half_way(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=epochs:2&set=threads_per_rank:1")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of trainers").fill("1, 2")
    page.get_by_role("spinbutton", name="Seeds", exact=True).fill("10")
    page.get_by_role("spinbutton", name="Seeds", exact=True).press("Enter")
    assert launch_shown_sweep(page, 20) == 1
    expect(page.locator("a.pl-cell")).to_have_count(20)
    wait_until(
        lambda: sweep(console).ended >= 8 and "running" in sweep(console).statuses,
        "half of the runs have ended, and one is on",
        HALF_S,
    )

    first = runner_process(console.home)
    assert first is not None
    console.kill()
    os.kill(first.pid, signal.SIGKILL)
    at_death = sweep(console)
    assert at_death.active
    console.start()  # a person starts it again; it finds that the runner died and starts one
    wait_until(lambda: (now := runner_process(console.home)) is not None and now != first, "another runner serves")
    page.reload()
    expect(page.locator("a.pl-cell.pl-finished")).to_have_count(20, timeout=WHOLE_S * 1000)
    assert sweep(console).statuses == {"finished": 20}
    with Reader.open(console.home) as reader:
        starts = {run.id: reader.runs.one(run.id).starts for run in reader.sweeps.runs(1)}
        wait_until(lambda: leftovers(console.home, reader) == [], "nothing is left over")
    assert sum(starts.values()) <= 21, "at most the run that was being handed over was started twice"


def sweep(console: Console) -> Sweep:
    with Reader.open(console.home) as reader:
        return reader.sweeps.one(1)
