"""A duel from the form to its verdict in a real browser, though console and runner die between its two stages."""

import os
import signal

import pytest
from playwright.sync_api import Page, expect

from engine.duel.evidence import DuelEvidence, gather
from engine.store import Reader
from engine.store.records import ENDED
from engine.system.runner_process import runner_process
from tests.browser.conftest import Console
from tests.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
WHOLE_MS = 900_000


def evidence(console: Console) -> DuelEvidence:
    with Reader.open(console.home) as reader:
        return gather(reader, 1)


@pytest.mark.long
def test_a_duel_goes_on_to_its_verdict_though_console_and_runner_die(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/duel")
    page.get_by_role("spinbutton", name="Amount (passes)").fill("4")
    page.get_by_role("textbox", name="Learning rates").fill("0.05")
    page.get_by_role("spinbutton", name="Evaluation seeds").fill("1")
    page.get_by_role("spinbutton", name="Tuning seeds").fill("1")
    page.get_by_role("textbox", name="Name", exact=True).fill("Small one")
    page.get_by_role("textbox", name="Name", exact=True).press("Enter")
    page.get_by_text("Evaluation", exact=True).click()
    page.get_by_text("Exclusive (for timing)", exact=True).click()
    expect(page.get_by_text("Total run time, at most")).to_be_visible()
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/duel?duel=1")
    expect(page.get_by_role("heading", name="Duel 1: Small one")).to_be_visible()
    wait_until(
        lambda: any(
            run.status in ("starting", "running", *ENDED) for runs in evidence(console).runs.values() for run in runs
        ),
        "it has begun",
    )

    first = runner_process(console.home)
    assert first is not None
    console.kill()
    os.kill(first.pid, signal.SIGKILL)
    assert evidence(console).stored.stage == "tuning"
    console.start()  # it finds that the runner died and starts one, which goes on from what the store says
    page.reload()
    expect(page.get_by_text("ended", exact=True)).to_be_visible(timeout=WHOLE_MS)  # nobody touched the page
    expect(page.get_by_text("Too few seeds: at least 5 pairs of runs are needed")).to_be_visible()
    page.wait_for_function(
        "() => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'Hogwild! (n=1)')"
    )
    found = evidence(console)
    assert [each.complete for each in found.cells] == [True] * 4
    assert {each.seed for each in found.of("tuning")}.isdisjoint(each.seed for each in found.of("judging"))
