"""A channel made in the browser, and a test message that the real runner sends to a real receiver."""

import pytest
from playwright.sync_api import Page, expect

from app.core import visitor
from engine.store import Store
from tests.browser.conftest import Console
from tests.notices.receivers import Receiver

pytestmark = pytest.mark.browser


def test_a_channel_is_added_and_a_test_message_arrives_without_its_address_being_seen(
    real: Console, page: Page
) -> None:
    with Receiver(503).serving() as receiver, Store.open(real.home) as store:
        store.channels.allow_receiver("internal", f"127.0.0.1:{receiver.port}", by="root")
        page.context.add_cookies(
            [{"name": visitor.NAME_COOKIE, "value": visitor.sign(real.home, "Ada"), "url": real.address}]
        )
        page.goto(f"{real.address}/notifications")
        page.get_by_role("radio", name="Webhook (JSON)").click()
        expect(page.get_by_text(f"127.0.0.1:{receiver.port}.")).to_be_visible()  # the form is that of this kind by now
        field = page.get_by_role("textbox", name="Webhook URL")
        field.fill(receiver.address)
        field.press("Enter")
        page.get_by_role("button", name="Add channel").click()
        expect(page.get_by_text(f"127.0.0.1:{receiver.port}/…mNop")).to_be_visible()
        expect(field).to_have_value("")
        page.get_by_role("button", name="Send test").click()
        expect(page.get_by_text("127.0.0.1 answered 503.")).to_be_visible()
        receiver.answers = [204]
        expect(page.get_by_role("cell", name="arrived")).to_be_visible()  # the page looks again by itself
        assert len(receiver.bodies) >= 2 and {body["kind"] for body in receiver.bodies} == {"test"}
        assert "q7Zx9" not in page.content()
