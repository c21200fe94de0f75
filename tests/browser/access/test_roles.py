"""People sign in and see what the rules say: what is offered, what is done, what is refused all the same;
a sign-out ends it everywhere.
"""

import os
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, WebSocket, expect

from app.core.visitor import COOKIE
from engine.access.rules import PersonStanding
from engine.errors import Forbidden
from engine.store import Reader, Store
from tests.browser.conftest import Members, sign_in
from tests.browser.places import Place, go, settle
from tests.labs import basic
from tests.labs import people as people_labs
from tests.labs.people import PASSWORD, PEOPLE, SETUP
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser
OWNERS = ("mo", "mia")
PRESSED = """(keys) => Object.fromEntries(keys.map((key) => {
  const button = document.querySelector(`.st-key-${key} button`);
  return [key, button !== null && !button.disabled];
}))"""
"""Returns of buttons, by the key of each, whether it is there and can be pressed."""


def can_press(page: Page, *keys: str) -> dict[str, bool]:
    found: dict[str, bool] = page.evaluate(PRESSED, list(keys))
    return found


def at(page: Page, address: str, path: str, seen: str) -> None:
    go(page, address, Place(path, path, seen))


def offers(
    page: Page, address: str, lab: people_labs.Lab
) -> Iterator[tuple[str, dict[str, bool], dict[str, tuple[str, str]]]]:
    """Yield for each place what can be pressed on it, and by which command on whose each button stands."""
    for owner in OWNERS:
        at(page, address, f"/runs?search={lab.running[owner]}", "1 of ")
        page.get_by_role("checkbox", name=f"Select {lab.running[owner]}:", exact=False).check()
        page.get_by_text("1 run selected").wait_for()
        settle(page)  # a button that was there before stays for a moment
        yield f"runs, of {owner}", can_press(page, "runs-cancel"), {"runs-cancel": ("cancel", owner)}
    for owner in OWNERS:
        at(page, address, f"/run?run={lab.queued[owner]}", f"Run {lab.queued[owner]}")
        page.get_by_role("button", name="Clone").wait_for()
        here = {f"cancel-{lab.queued[owner]}": ("cancel", owner), f"clone-{lab.queued[owner]}": ("launch", "")}
        yield f"run of {owner}", can_press(page, *here), here
        queue = page.get_by_role("button", name="Queue", exact=True)
        yield f"queue of {owner}", {"Queue": queue.is_enabled()}, {"Queue": ("hold", owner)}
        at(page, address, f"/sweep?sweep={lab.sweeps[owner]}", f"Sweep {lab.sweeps[owner]}")
        sweep = {
            f"{name}-sweep-{lab.sweeps[owner]}": (command, owner)
            for name, command in (("hold", "pause sweep"), ("extend", "extend sweep"))
        }
        yield f"sweep of {owner}", can_press(page, *sweep), sweep
    at(page, address, "/", "Losses of mia")
    settle(page)
    views = {f"view-change-{lab.views[owner]}": ("rename view", owner) for owner in OWNERS} | {
        "home-launch": ("launch", "")
    }
    yield "home", can_press(page, *views), views
    at(page, address, "/machine", "Leftovers")
    yield "machine", can_press(page, "clean-up"), {"clean-up": ("clean up", "")}
    page.get_by_test_id("stTopNavSection").filter(has_text="Lab").click()
    page.get_by_role("menuitem", name="Notifications", exact=True).wait_for()
    people = page.get_by_role("menuitem", name="People", exact=True)
    yield "navigation", {"People": people.count() == 1}, {"People": ("add person", "")}


def test_a_member_sees_exactly_what_the_rules_say(members: Members, page: Page) -> None:
    """The other roles: tests/app/test_roles.py."""
    members.home.run_folder(9_999).mkdir(
        parents=True, exist_ok=True
    )  # which no run has, so there is something to clean up
    os.utime(members.home.run_folder(9_999), (time.time() - 3600,) * 2)
    here = PersonStanding("mo", PEOPLE["mo"])
    sign_in(page, members.address, "mo", PASSWORD, "/runs")
    page.wait_for_url("**/runs")
    for place, found, stands in offers(page, members.address, members.people):
        assert found == {
            key: here.may(command, [owner] if owner else []) for key, (command, owner) in stands.items()
        }, place


def test_what_is_done_and_refused_and_a_sign_out_that_ends_it_all(members: Members, page: Page) -> None:
    address, home = members.address, members.home
    with Store.open(home) as store:
        store.people.add("max", "member", by=SETUP, password=PASSWORD)
        running, queued = (basic.add(store, "max") for _ in range(2))
        basic.drive(store, home, running, "running")
    sign_in(page, address, "max", "a quiet summer evening", f"/run?run={queued}")
    expect(page.get_by_role("alert")).to_have_text("Incorrect user name or password.")
    assert page.get_by_label("Password").input_value() == ""
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/run?run={queued}")

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator("[data-slot=cause]")).to_have_text("Cancelled by max.")

    at(page, address, f"/run?run={running}", "running")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel run").wait_for()
    with Store.open(home) as store:
        store.people.set_role("max", "viewer", by=SETUP)
        with pytest.raises(Forbidden, match="Only admins can"):
            store.runs.cancel(members.people.running["mia"], by="max")
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_text("Only members and admins can cancel a run", exact=False)).to_be_visible()
    with Reader.open(home) as reader:
        assert {reader.runs.one(each).status for each in (running, members.people.running["mia"])} == {"running"}

    other = page.context.new_page()
    sockets: list[WebSocket] = []
    other.on("websocket", lambda socket: sockets.append(socket))
    other.route("**/api/**", lambda route: route.abort())  # nothing is learnt by polling
    other.goto(f"{address}/runs")
    tick = other.get_by_role("checkbox", name=f"Select {running}:", exact=False)
    bar = other.get_by_role("link", name=f"Open run {running}")
    tick.check()
    expect(bar).to_be_visible()
    tick.uncheck()
    expect(bar).to_be_hidden()
    secret = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == COOKIE)
    page.goto(f"{address}/account")
    page.get_by_role("button", name="Signed in as max").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_text("You have signed out.")).to_be_visible()
    expect(page).to_have_url(f"{address}/signin?out")
    with sockets[0].expect_event("close"):
        tick.check()
    page.go_back()
    expect(page.get_by_label("Password")).to_be_visible()
    assert page.get_by_text("Permissions").count() == 0
    assert httpx.get(f"{address}/api/token", cookies={COOKIE: secret}, timeout=PATIENCE_S).status_code == 401
    assert bar.count() == 0, "a tick after the sign-out is still answered"
    other.unroute("**/api/**")
    expect(other.get_by_label("Password")).to_be_visible()
    with Store.open(home) as store:
        store.claims.end(running, "failed", "It failed.")


def test_the_sign_in_page_has_the_theme_chosen_in_the_console(members: Members, page: Page) -> None:
    grounds = set()
    for chosen, scheme in (("system", "light"), ("dark", "dark"), ("light", "light")):
        page.goto(f"{members.address}/signin")
        page.evaluate("(theme) => localStorage.setItem('parallab.theme', theme)", chosen)
        page.reload()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == (
            "light dark" if chosen == "system" else scheme
        )
        grounds.add((scheme, page.evaluate("getComputedStyle(document.body).backgroundColor")))
    page.evaluate("localStorage.removeItem('parallab.theme')")
    assert len(grounds) == 2, "the colours follow"


def test_the_actions_on_the_last_account_fit_a_low_window(members: Members, page: Page) -> None:
    page.set_viewport_size({"width": 1100, "height": 620})
    sign_in(page, members.address, "ada", PASSWORD, "/people?view=Accounts")
    with Store.open(members.home) as store:
        store.people.add("zoe", "member", by=SETUP)
    page.get_by_text("Add account").first.wait_for()  # a reload breaks off a sign-in that is under way
    page.reload()
    expect(page.locator("strong").get_by_text("zoe", exact=True)).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Change", exact=True).last.click()
    for label in ("Make a viewer", "Make an admin", "Quotas", "Set password", "Sign out everywhere", "Disable account"):
        expect(page.get_by_role("button", name=label, exact=True)).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Make a viewer").click()
    expect(page.get_by_text("zoe is viewer now.")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Change", exact=True).last.click()
    page.get_by_role("button", name="Disable account").click()
    expect(page.get_by_role("dialog")).to_contain_text("zoe is signed out immediately")


@pytest.mark.parametrize("width", [390, 1100])
def test_a_refused_list_stays_open_with_its_text_and_a_password_on_a_slip_is_one_line(
    members: Members, page: Page, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, members.address, "ada", PASSWORD, "/people")
    page.locator("strong").get_by_text("mo", exact=True).wait_for()
    settle(page)
    page.get_by_text("Add accounts from a list").click()
    names = page.get_by_role("textbox", name="Names")
    names.fill(f"yan{width}\nMO")
    settle(page)  # while parts of the opened form are being loaded, they move, and a press on its button can be lost
    page.get_by_role("button", name="Add all").click()
    expect(page.get_by_test_id("stExpander").get_by_text("Line 2: The name 'mo' is already taken")).to_be_visible()
    expect(names).to_be_visible()
    assert names.input_value() == f"yan{width}\nMO"
    names.fill(f"yan{width}")
    page.get_by_role("button", name="Add all").click()
    expect(page.get_by_role("textbox", name="Address on the slips")).to_have_value(f"{members.address}/")
    expect(page.get_by_text("opens the console on this machine only")).to_be_visible()
    page.get_by_role("textbox", name="Address on the slips").fill("https://lab.example.org")
    page.get_by_role("button", name="Show the slips").click()
    slips = page.frame_locator("iframe")
    expect(slips.get_by_text("https://lab.example.org")).to_be_visible()
    assert slips.locator(".password").evaluate(
        "node => { const lines = document.createRange(); lines.selectNodeContents(node);"
        " return lines.getClientRects().length === 1 && document.documentElement.scrollWidth <= innerWidth }"
    )
    page.keyboard.press("Escape")
    expect(slips.locator(".password")).to_be_visible()
    page.get_by_role("button", name="The slips are printed or saved").click()
    expect(page.get_by_text("1 account added.")).to_have_count(0)
    expect(page.get_by_test_id("stExpander").get_by_text("is already taken")).to_have_count(0)
