"""A command of one's own by hand: paste it, sweep it, watch it, cancel one run, compare the rest; send
one to a cluster.
"""

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.access import command_link
from engine.store import Reader
from tests.browser.conftest import Console
from tests.browser.places import ran
from tests.browser.replay import launch_shown_sweep
from tests.browser.test_launch_form import CUT_OFF
from tests.browser.test_way_of_a_run import drawn
from tests.labs import clusters
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
SCRIPT = """
import argparse, itertools, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01, help="Step size.")
args = parser.parse_args()
for step in itertools.count():
    print(f"step {step}: loss {1 / (1 + args.lr * step):.4f} acc {step:.1f}", flush=True)
    if step == 20 and args.lr < 0.4:
        break
    time.sleep(0.02 if step < 20 else 0.5)
"""


def test_a_pasted_command_is_swept_watched_cancelled_compared_and_sent_to_a_cluster(
    console: Console, page: Page, tmp_path: Path
) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    page.goto(str(command_link.current(console.home)))
    page.goto(f"{console.address}/launch?command=")
    page.get_by_role("textbox", name="Folder").fill(str(folder))
    with ran(page):
        page.get_by_role("textbox", name="Folder").press("Tab")
    page.get_by_role("textbox", name="Command", exact=True).focus()
    page.keyboard.insert_text(f"$ {sys._base_executable} train.py \\\n  --lr 0.1")  # type: ignore[attr-defined]
    expect(page.get_by_text("1 setting, read from the script's source")).to_be_visible()
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of lr").fill("0.4, 0.1, 0.2")
    assert launch_shown_sweep(page, 3) == 1

    page.goto(f"{console.address}/run?run=1")
    drawn(page, "loss")
    expect(page.get_by_text(f"In {folder}")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_text("cancelled", exact=True)).to_be_visible()
    wait_until(lambda: statuses(console) == ["cancelled", "finished", "finished"], "the other runs have finished")

    page.goto(f"{console.address}/compare?runs=2,3")
    expect(page.get_by_role("link", name="2: lr 0.1, repeat 0")).to_be_visible()
    compared = page.locator("[aria-label='loss by step, 2 runs'] .scatterlayer .trace")
    expect(compared).to_have_count(2)
    for is_shown in (False, True):
        page.goto(f"{console.address}/run?run=2")
        drawn(page, "acc")
        page.get_by_text("Recognised numbers").click()
        page.locator("label").filter(has=page.get_by_role("switch", name="Show loss")).click()
        expect(page.locator("[data-metric='loss']:visible")).to_have_count(int(is_shown))
        page.goto(f"{console.address}/compare?runs=2,3")
        expect(page.locator("[aria-label='acc by step, 2 runs'] .scatterlayer .trace")).to_have_count(2)
        expect(compared).to_have_count(2 * is_shown)

    clusters.write(console.home)
    page.goto(f"{console.address}/launch?command=")
    field = page.get_by_role("textbox", name="Command", exact=True)
    field.fill("python gone.py")
    field.press("Control+Enter")  # what is pasted before the page is whole is sent by no event
    expect(page.get_by_text(f"gone.py isn't a file in {folder}")).to_have_count(2)  # at the folder, and at Launch
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
    field.fill("python train.py --lr 0.3")
    expect(page.get_by_text("1 setting, read from the script's source")).to_be_visible()
    page.get_by_role("radio", name="lab", exact=True).click()
    expect(page.get_by_text(f"In {folder}, as a node of lab sees it.")).to_be_visible()
    assert page.evaluate(CUT_OFF) == []
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url("**/run?run=4")
    with Reader.open(console.home) as reader:
        run = reader.runs.one(4)
    assert (run.target, run.config) == ("lab", {"lr": 0.3})


def statuses(console: Console) -> list[str]:
    with Reader.open(console.home) as reader:
        return [run.status for run in reader.sweeps.runs(1)]
