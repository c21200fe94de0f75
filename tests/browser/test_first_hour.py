"""The three tracks of docs/first-hour.md, walked as its steps say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.access import command_link
from engine.home import ROOT
from engine.store import Reader
from tests.browser.conftest import Console, sign_in
from tests.browser.places import settle
from tests.browser.replay import launch
from tests.transfer.readers.test_other_programs import mlflow_database
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.long]  # real runs, and three tracks in a row: minutes
SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=0)
lr = parser.parse_args().lr
for step in range(30):
    print(f"step {step}: loss {1 / (1 + lr * step):.4f}", flush=True)
"""
PASSWORD = "a long enough one 42"


def engine(console: Console, *words: str, given: str = "") -> str:
    """Carry out a command of the page in the home of a console; return what it prints."""
    surroundings = os.environ | {"PARALLAB_HOME": str(console.home.path), "PARALLAB_OWNER": "Ada"}
    called = [sys.executable, "-m", "engine", *words]
    done = subprocess.run(called, cwd=ROOT, env=surroundings, input=given, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()
    settle(page)


def change(page: Page, name: str) -> None:
    """Open the dialog of a person's account."""
    entry = page.get_by_test_id("stVerticalBlock").filter(has_text=name).filter(has_text="no request yet").last
    entry.get_by_role("button", name="Change", exact=True).click()


def ended(console: Console, *run_ids: int) -> None:
    def finished() -> bool:
        with Reader.open(console.home) as reader:
            return all(reader.runs.one(run_id).status == "finished" for run_id in run_ids)

    wait_until(finished, f"runs {run_ids} have finished", 4 * PATIENCE_S)


def test_who_learns_gets_a_result_a_reason_a_clone_and_a_ready_made_sweep(console: Console, page: Page) -> None:
    page.goto(str(command_link.current(console.home)))
    expect(page.get_by_role("link", name="First hour: guided steps")).to_be_visible()
    first = launch(page, "Run quick Hogwild!", to="run")
    ended(console, first)
    expect(page.get_by_text("Why no lock", exact=False)).to_be_visible()
    page.get_by_role("radio", name="Ranks").or_(page.get_by_role("button", name="Ranks", exact=True)).first.click()
    expect(page.get_by_role("table").get_by_text("trainer1").first).to_be_visible()
    press(page, "Clone")
    expect(page.get_by_text("Preset quick, unchanged.")).to_be_visible()
    rate = page.get_by_role("spinbutton", name="Learning rate")
    rate.fill("0.01")
    rate.press("Tab")
    expect(page.get_by_text("changed: learning rate 0.01")).to_be_visible()
    page.goto(f"{console.address}/launch")
    page.get_by_text("Lesson size", exact=True).click()
    page.get_by_role("button", name="Find the sweet spot of splits").click()  # how long it takes stands behind
    settle(page)
    expect(page.get_by_text("4 runs, one of each value: about").first).to_be_visible()
    expect(page.get_by_text("4 runs: splits 1, 2, 4, 8")).to_be_visible()


def test_a_script_and_results_of_ones_own_come_in_then_five_accounts(
    console: Console, page: Page, tmp_path: Path
) -> None:
    page.goto(str(command_link.current(console.home)))
    bring(console, page, tmp_path)
    run_a_lab(console, page)


def bring(console: Console, page: Page, folder: Path) -> None:
    (folder / "train.py").write_text(SCRIPT)
    page.goto(f"{console.address}/launch?command=")
    page.get_by_role("textbox", name="Folder").fill(str(folder))
    page.get_by_role("textbox", name="Folder").press("Tab")
    settle(page)
    page.get_by_role("textbox", name="Command", exact=True).fill(f"{sys._base_executable} train.py --lr 0.1")  # type: ignore[attr-defined]
    expect(page.get_by_text("The command as it runs")).to_be_visible()
    assert launch(page, "Launch", to="run") == 1
    ended(console, 1)
    press(page, "Rank by it")
    expect(page.get_by_text("ranked by loss, lower is better")).to_be_visible()
    press(page, "Clone")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of lr").fill("0.1, 0.03")
    expect(page.get_by_text("2 runs: ")).to_be_visible()
    press(page, "Launch sweep")
    page.wait_for_url("**/sweep?sweep=1")
    ended(console, 2, 3)
    said = engine(console, "import", str(mlflow_database(folder)))
    assert "Run 4 imported.\nOwner: " in said and "\nOn Runs, or by list --filter: id == 4\n" in said
    page.goto(f"{console.address}/runs")
    page.get_by_role("textbox", name="Filter expression").fill('source == "mlflow" and learning_rate > 0.05')
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 of 4 runs")).to_be_visible()


def run_a_lab(console: Console, page: Page) -> None:
    engine(console, "users", "add", "Ada", "--role", "admin", "--password-stdin", given=f"{PASSWORD}\n")
    sign_in(page, console.address, "Ada", PASSWORD, to="/people")
    page.get_by_text("Add accounts from a list").click()
    page.get_by_role("textbox", name="Names").fill("Ben\nCleo\nDan\nEve\nFay")
    press(page, "Add all")
    expect(page.get_by_text("5 accounts added.", exact=False)).to_be_visible()
    press(page, "Show the slips")
    press(page, "The slips are printed or saved")
    change(page, "Ben")
    press(page, "Quotas")
    page.get_by_role("textbox", name="Running runs", exact=True).fill("2")
    press(page, "Set quotas")
    expect(page.get_by_text("own quota: running runs 2")).to_be_visible()
    change(page, "Cleo")
    press(page, "Disable account")
    page.get_by_role("dialog").get_by_role("button", name="Disable account").click()
    expect(page.get_by_text("disabled", exact=True)).to_be_visible()
    page.get_by_text("Audit log", exact=True).click()
    expect(page.get_by_role("table", name="Audit log, newest first")).to_contain_text("person=Ben, running runs=2")
    assert "Restore it with" in engine(console, "backup")
