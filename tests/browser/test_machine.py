"""What is left over is cleaned up on the Machine page, after a second click."""

import os
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Lab

pytestmark = pytest.mark.browser


def test_what_is_left_over_is_cleaned_up_after_a_second_click(lab: Lab, page: Page) -> None:
    orphan = lab.home.run_folder(7_777)
    orphan.mkdir(parents=True)
    (orphan / "checkpoint.pt").write_bytes(bytes(2**20))
    os.utime(orphan, (0, 0))
    page.goto(f"{lab.address}/machine")
    expect(page.get_by_text(str(orphan), exact=True)).to_be_visible()
    page.get_by_role("button", name="Clean up", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(f"1 folder (1.0 MB) will be moved to {lab.home.aside}.", exact=False)).to_be_visible()
    assert orphan.exists()
    dialog.get_by_role("button", name="Clean up", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    assert orphan.exists()
    page.get_by_role("button", name="Save and continue").click()
    expect(
        page.get_by_text(re.compile(f"Cleaned up: .*folder {orphan}"))
    ).to_be_visible()  # beside what other tests have left
    expect(page.get_by_text(str(orphan), exact=True)).to_have_count(0)
    assert [path.stat().st_size for path in lab.home.aside.glob("orphans-*/7777/checkpoint.pt")] == [2**20]
    expect(page.locator(".pl-log-text")).to_contain_text(re.compile(f"Ada cleaned up: .*folder {orphan}"))
