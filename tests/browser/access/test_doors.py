"""Who gets in and what a link brings: addresses, origins, names, rules beside fields."""

import os
import signal

import httpx
import pytest
from playwright.sync_api import Page, expect

from engine.system.runner_process import runner_process
from tests.browser.conftest import Console, Lab
from tests.browser.places import settle
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.browser


def test_a_link_fills_the_form_and_a_broken_rule_stands_beside_its_field(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/launch?experiment=hogwild&preset=quick&set=trainers:99&set=nonsense:1")
    expect(page.get_by_text("trainers must be at most 64 (allowed: 1 to 64), got 99.")).to_be_visible()
    expect(page.get_by_text("Unknown setting 'nonsense'.", exact=False)).to_be_visible()
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
    field = page.get_by_role("spinbutton", name="Trainers")
    field.fill("2")
    field.press("Enter")
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_enabled()
    expect(page.get_by_text("trainer1, trainer2")).to_be_visible()


def test_a_name_is_asked_once_and_kept_over_a_reload(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/launch")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("button", name="Save and launch").click()
    expect(page.get_by_text("A name needs at least one letter")).to_be_visible()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/run?run=*")
    page.goto(f"{lab.address}/launch")
    expect(page.get_by_text("Launching as Ada.")).to_be_visible()
    assert [cookie["httpOnly"] for cookie in page.context.cookies() if cookie.get("name") == "parallab_name"] == [True]


def test_a_foreign_origin_and_a_foreign_host_are_refused_by_the_real_server(lab: Lab) -> None:
    with httpx.Client(base_url=lab.address, timeout=PATIENCE_S) as client:
        assert client.get("/api/token").status_code == 200
        assert client.get("/api/token", headers={"origin": "http://evil.example"}).status_code == 403
        assert (
            client.post("/api/name", json={"name": "Eve"}, headers={"origin": "http://evil.example"}).status_code == 403
        )
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400
        assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]


def test_the_console_starts_its_runner_and_starts_it_again_when_it_was_killed(real: Console, page: Page) -> None:
    wait_until(lambda: real.health()["runner"] == "alive", "a runner is alive")
    runner = runner_process(real.home)
    assert runner
    os.kill(runner.pid, signal.SIGKILL)
    wait_until(lambda: runner_process(real.home) not in (None, runner), "another runner serves")
    wait_until(lambda: real.health()["runner"] == "alive", "another runner is alive")
    page.goto(f"{real.address}/machine")
    expect(page.locator(".pl-log-text")).to_contain_text("serves")
    expect(page.get_by_role("heading", name="Leftovers")).to_be_visible()  # other programs may have left some
    settle(page)
    expect(page.get_by_text(f"Created by process {runner.pid}")).to_have_count(0)
