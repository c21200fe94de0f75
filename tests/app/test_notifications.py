"""The Notifications page: a subscription is added, tried, changed, paused and deleted there, and no URL is seen."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.access.rules import Program
from engine.home import Home
from engine.store import Demand, Launch, Reader, Store
from engine.store.notices.subscriptions import Subscription
from tests.app.reading import html, opened, said

CHANNELS = """
[team]
url = "slack://T/B/secret12345"
about = "#runs of our workspace"
[other]
url = "discord://1/secret12345"
[email]
url = "mailtos://u:secret12345@lab.org?to={address}"
domains = ["lab.org"]
"""


@pytest.fixture(autouse=True)
def cookies(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the cookies that the page sees: none at first, where AppTest would make some up."""
    given: dict[str, str] = {}
    monkeypatch.setattr("app.ui.current_user._cookies", lambda: given)
    return given


@pytest.fixture(autouse=True)
def channels(home: Home) -> None:
    home.create()
    home.notices.write_text(CHANNELS)
    home.notices.chmod(0o600)


def page(name: str = "Ada") -> AppTest:
    test = opened("notifications")
    test.session_state["person"] = name
    return test.run()


def subscriptions(home: Home) -> list[Subscription]:
    with Reader.open(home) as reader:
        return reader.subscriptions.of()


def press(test: AppTest, key: str) -> AppTest:
    test = test.button(key=key).click().run()
    assert not test.exception
    return test


def test_a_subscription_goes_through_its_life_on_the_page(home: Home) -> None:
    test = page()
    assert "No subscriptions yet" in said(test)
    assert "#runs of our workspace" in said(test)
    test = press(test, "notify.add")
    test = press(test, "notify.add")
    assert "Ada already has a subscription to 'team'" in said(test)
    assert [each.channel for each in subscriptions(home)] == ["team"]
    test = press(test, "notify.Send test.1")
    assert "<td>test</td>" in html(test)
    assert "No runner is running" in said(test)
    test.selectbox(key="notify.channel.1").select("other")
    test = press(test.selectbox(key="notify.ends.1").select("bad").run(), "notify.Save.1")
    assert "sweeps and duels: failures only (failed, lost" in html(test) and "other, subscription 1" in html(test)
    test = press(test, "notify.Pause.1")
    assert "Paused by Ada" in said(test)
    test = press(test, "notify.Resume.1")
    assert "secret12345" not in said(test) + html(test)
    press(test, "notify.Delete.1")
    assert subscriptions(home) == []


def test_an_address_is_asked_for_where_a_channel_takes_one(home: Home) -> None:
    test = page().selectbox(key="notify.channel").select("email").run()
    test = press(test.text_input(key="notify.address.email").input("ada@evil.example").run(), "notify.add")
    assert "evil.example is not an allowed e-mail domain" in said(test)
    press(test.text_input(key="notify.address.email").input("ada@lab.org").run(), "notify.add")
    assert [each.title for each in subscriptions(home)] == ["email ada@lab.org"]


def test_an_address_typed_just_before_the_click_counts_and_an_empty_field_says_to_enter_one(home: Home) -> None:
    test = page().selectbox(key="notify.channel").set_value("email").run()
    test = press(test, "notify.add")
    assert "Enter an e-mail address." in said(test).replace("\\", "")
    test.text_input(key="notify.address.email").set_value("ada@lab.org")
    press(test, "notify.add")
    assert [each.title for each in subscriptions(home)] == ["email ada@lab.org"]


def test_a_lab_without_channels_says_who_defines_them_and_an_invalid_file_why(home: Home) -> None:
    home.notices.write_text("")
    test = page()
    assert "This lab has no channels, so nothing can be sent yet. An admin defines them." in said(test)
    assert 'href="/docs?page=notifications"' in html(test)
    assert any(f"chmod 600 {home.notices}" in each.value for each in test.code)
    home.notices.write_text("[team]\nurl = 3")
    assert "'url' is unknown or not of its type" in said(page())


def test_a_webhook_of_an_earlier_version_is_replaced_by_a_channel(home: Home, store: Store) -> None:
    store.subscriptions.add("team", owner="Ada")
    store.db.connection.execute(
        "UPDATE subscriptions SET channel = '', webhook = 'https://hooks.slack.com/secret12345', paused_at = created_at"
    )
    test = page()
    assert "webhook at hooks.slack.com, subscription 1" in html(test)
    test = press(test.selectbox(key="notify.channel.1").select("team").run(), "notify.Save.1")
    press(test, "notify.Resume.1")
    assert [(each.title, each.paused_at) for each in subscriptions(home)] == [("team", None)]
    assert "secret12345" not in said(test) + html(test)


def test_messages_are_listed_with_why_they_did_not_arrive(home: Home, store: Store) -> None:
    store.subscriptions.add("team", owner="Ada")
    store.claims.refuse(store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1))), "Too large.")
    store.delivery.note_failed(store.delivery.take_due()[0], "Failed to send <b>now</b>: error=404.", 600.0)
    shown = html(page())
    assert "tried 1 time" in shown and "/run?run=1" in shown
    assert "Failed to send &lt;b&gt;now&lt;/b&gt;: error=404. Next attempt in " in shown


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_with_accounts_a_viewer_is_told_why_not_and_email_goes_to_the_account(
    home: Home, cookies: dict[str, str], role: str
) -> None:
    with Store.open(home) as store:
        store.people.add("Root", "admin", by=Program("first"))
        store.people.add("Ada", role, by="Root", email="ada@lab.org")  # type: ignore[arg-type]
        secret = store.sign_ins.begin("Ada", "password")
    cookies["parallab_session"] = secret
    test = opened("notifications")
    if role == "viewer":
        assert "Ada is a viewer" in said(test)
        return
    test = test.selectbox(key="notify.channel").select("email").run()
    assert "E-mail is sent to your account's address, ada@lab.org" in said(test)
    press(test, "notify.add")
    assert [(each.owner, each.title) for each in subscriptions(home)] == [("Ada", "email")]
