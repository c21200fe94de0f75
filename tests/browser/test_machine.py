"""The Machine page and a pause by hand: what is on shows on the page without a touch, and a paused sweep waits."""

import os

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.browser.test_sweeps import launch

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
RUN_MS = 600_000
LOOK_MS = 120_000


def test_a_sweep_is_paused_and_let_go_on_while_the_machine_page_shows_who_holds_the_cores(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=epochs:1000&set=threads_per_rank:1")
    launch(page, "1, 2", "Launch 2 runs")
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/sweep?sweep=1")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{console.address}/machine")
    expect(other.get_by_role("heading", name="Slots")).to_be_visible()
    expect(other.locator(".pl-log-text")).to_contain_text("serves")
    expect(other.get_by_text("Nothing is left over")).to_be_visible()
    page.get_by_role("button", name="Let it go on").click()
    expect(page.get_by_role("button", name="Pause", exact=True).or_(page.locator("a.pl-cell.pl-running")).first).to_be_visible()
    expect(other.get_by_role("link", name="run 1", exact=True)).to_be_visible(timeout=RUN_MS)  # nobody touched this page
    other.wait_for_function("() => document.querySelector('.pl-figure')?._fullData?.[0]?.y?.length >= 1", timeout=RUN_MS)
    page.get_by_role("button", name="Cancel all").click()
    page.get_by_role("button", name="Cancel all runs").click()
    expect(page.locator("a.pl-cell.pl-cancelled")).to_have_count(2, timeout=RUN_MS)
    expect(other.get_by_text("0 of ", exact=False).first).to_be_visible()


@pytest.mark.usefixtures("still")
def test_what_is_left_over_is_cleaned_up_after_a_second_click(console: Console, page: Page) -> None:
    orphan = console.home.run_folder(77)
    orphan.mkdir(parents=True)
    (orphan / "checkpoint.pt").write_bytes(bytes(2**20))
    os.utime(orphan, (0, 0))
    page.goto(f"{console.address}/machine")
    expect(page.get_by_text(str(orphan), exact=True)).to_be_visible(timeout=LOOK_MS)
    page.get_by_role("button", name="Clean up", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(f"1 folder (1.0 MB) is moved to {console.home.aside}.")).to_be_visible(timeout=LOOK_MS)
    assert orphan.exists()
    dialog.get_by_role("button", name="Clean up", exact=True).click()
    expect(page.get_by_text(f"Cleaned up: folder {orphan}.")).to_be_visible(timeout=LOOK_MS)
    expect(page.get_by_text("Nothing is left over")).to_be_visible(timeout=LOOK_MS)
    assert [path.stat().st_size for path in console.home.aside.glob("orphans-*/77/checkpoint.pt")] == [2**20]
    expect(page.locator(".pl-log-text")).to_contain_text("someone cleaned up: folder", timeout=LOOK_MS)
