"""Who gets in and what a link brings: addresses, origins, names, rules beside fields."""

import os
import signal

import httpx
import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from engine.home import Home
from engine.runtime.running import runner_process
from engine.store import Store
from tests.app import labs
from tests.browser.conftest import Console, wait_until
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("still")
def test_a_link_fills_the_form_and_a_broken_rule_stands_beside_its_field(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=trainers:99&set=nonsense:1")
    expect(page.get_by_text("trainers must be at most 64 (allowed: 1 to 64), got 99.")).to_be_visible()
    expect(page.get_by_text("No setting is named 'nonsense'.", exact=False)).to_be_visible()
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
    field = page.get_by_role("spinbutton", name="Trainers")
    field.fill("2")
    field.press("Enter")
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_enabled()
    expect(page.get_by_text("trainer1, trainer2")).to_be_visible()


@pytest.mark.usefixtures("still")
def test_a_name_is_asked_once_and_kept_over_a_reload(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("button", name="Save and launch").click()
    expect(page.get_by_text("A name has at least one letter")).to_be_visible()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/run?run=1")
    page.goto(f"{console.address}/launch")
    expect(page.get_by_text("Launches as Ada.")).to_be_visible()
    assert [cookie["httpOnly"] for cookie in page.context.cookies() if cookie.get("name") == "parallab_name"] == [True]


@pytest.mark.usefixtures("still")
def test_a_foreign_origin_and_a_foreign_host_are_refused_by_the_real_server(console: Console) -> None:
    with httpx.Client(base_url=console.address, timeout=60) as client:
        assert client.get("/api/token").status_code == 200
        assert client.get("/api/token", headers={"origin": "http://evil.example"}).status_code == 403
        assert client.post("/api/name", json={"name": "Eve"}, headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400
        assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]


def test_the_console_starts_its_runner_and_starts_it_again_when_it_was_killed(console: Console) -> None:
    wait_until(lambda: console.health()["runner"] == "alive", 120, "a runner is alive")
    runner = runner_process(console.home)
    assert runner
    os.kill(runner.pid, signal.SIGKILL)
    wait_until(lambda: runner_process(console.home) not in (None, runner), 120, "another runner serves")
    wait_until(lambda: console.health()["runner"] == "alive", 120, "another runner is alive")


@pytest.mark.usefixtures("still")
def test_no_page_is_refused_anything_by_the_browser(console: Console, page: Page, home: Home) -> None:
    with Store.open(home) as store:
        run_id = labs.add(store, "Ada")
        labs.drive(store, home, run_id, "finished")
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} {message.location['url']}")

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith((console.address, "data:", "blob:")) else complaints.append(request.url))
    run = f"/run?run={run_id}"
    for address in ("/", "/launch", "/runs", run, f"{run}&section=Machine", f"{run}&section=Log", f"{run}&section=Notes", "/results"):
        page.goto(console.address + address)
        page.get_by_role("heading").first.wait_for()
        settle(page)
        page.wait_for_timeout(1_000)
        assert page.get_by_test_id("stException").count() == 0
    assert complaints == []
