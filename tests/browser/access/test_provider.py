"""Signing in at a provider as a person does: from a deep link, over the provider's pages and back, and out again."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from engine.home import Home
from engine.store import Reader
from tests.access.labs import Provider, lab_with_provider
from tests.browser.conftest import Console
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser
REFUSED = re.compile(
    r"Failed to load resource|Refused to execute script from '\S+' because its MIME type \('application/json'\)"
)
"""What the browser says where a page that is still loading as its person signs out gets 401 for a script, with JSON as
its body.
"""
DEEP = "/launch?experiment=dppo&preset=quick"
SIGN_OUT = (
    "document.body.insertAdjacentHTML('beforeend', '<form id=out method=post action=/signout></form>'); "
    "document.getElementById('out').submit()"
)


def sign_in(page: Page, subject: str) -> None:
    page.get_by_role("link", name="Sign in with Lab ID").click()
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize").click()


def test_the_first_people_of_a_lab_come_in_by_their_provider_and_a_sign_out_is_for_good(
    still: Home, tmp_path: Path, page: Page
) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    with lab_with_provider(still, tmp_path) as (console, provider):
        provider.knows("mo", "lab-members")
        provider.knows("ada", "lab-admins", name="Ada")
        page.goto(f"{console.address}{DEEP}")
        expect(page.get_by_role("textbox")).to_have_count(0)  # nobody has a password
        sign_in(page, "mo")
        expect(page.get_by_role("alert")).to_contain_text("This lab has no admin yet.")
        sign_in(page, "ada")
        page.wait_for_url(f"{console.address}{DEEP}")
        expect(page.get_by_text("Launching as Ada.")).to_be_visible()
        copied = session(page)
        page.evaluate(SIGN_OUT)
        page.get_by_role("button", name="End session").click()  # the provider asks whether one wants to leave it too
        expect(page.get_by_role("status")).to_have_text("You have signed out.")
        page.goto(f"{console.address}{DEEP}")
        expect(page.get_by_role("link", name="Sign in with Lab ID")).to_be_visible()
        assert (
            httpx.get(
                f"{console.address}/api/token", headers={"cookie": f"parallab_session={copied}"}, timeout=PATIENCE_S
            ).status_code
            == 401
        )
        without_its_provider(console, provider, page)
        with Reader.open(still) as reader:
            assert [(person.name, person.role) for person in reader.people.everyone()] == [("Ada", "admin")]
    assert [text for text in complaints if not REFUSED.match(text)] == []


def without_its_provider(console: Console, provider: Provider, page: Page) -> None:
    """Whoever is in when the provider goes stays in, nobody else gets in, and the sign-out still works."""
    sign_in(page, "ada")
    expect(page.get_by_text("Launching as Ada.")).to_be_visible()
    provider.stop()
    page.reload()
    expect(page.get_by_text("Launching as Ada.")).to_be_visible()
    page.evaluate(SIGN_OUT)
    expect(page.get_by_text("You have signed out.")).to_be_visible()
    page.get_by_role("link", name="Sign in with Lab ID").click()
    expect(page.get_by_role("alert")).to_contain_text("Lab ID does not respond, so sign-in is unavailable.")


def session(page: Page) -> str:
    """Return what the console's cookie holds, which no script can read."""
    (found,) = [cookie for cookie in page.context.cookies() if cookie.get("name") == "parallab_session"]
    assert (found.get("httpOnly"), found.get("sameSite")) == (True, "Lax")
    return found.get("value", "")
