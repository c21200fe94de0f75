"""A subscription made in the browser, and a test message that the real runner sends to a real receiver."""

import pytest
from playwright.sync_api import Page, expect

from app.core import visitor
from tests.browser.conftest import Console
from tests.notices.receivers import Receiver

pytestmark = pytest.mark.browser


def test_a_subscription_is_added_and_a_test_message_arrives_without_its_url_being_seen(
    real: Console, page: Page
) -> None:
    with Receiver(503).serving() as receiver:
        real.home.notices.write_text(f'[hook]\nurl = "{receiver.url}"')
        real.home.notices.chmod(0o600)
        page.context.add_cookies(
            [{"name": visitor.NAME_COOKIE, "value": visitor.sign(real.home, "Ada"), "url": real.address}]
        )
        page.goto(f"{real.address}/notifications")
        page.get_by_role("button", name="Add subscription").click()
        expect(page.get_by_text("hook, subscription 1")).to_be_visible()
        page.get_by_role("button", name="Send test").click()
        expect(page.get_by_text("error=503")).to_be_visible()
        receiver.answers = [204]
        expect(page.get_by_role("cell", name="arrived")).to_be_visible()  # the page looks again by itself
        assert len(receiver.bodies) >= 2 and {body["kind"] for body in receiver.bodies} == {"test"}
        assert "q7Zx9" not in page.content()
