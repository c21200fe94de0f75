"""The Notifications page: a channel is added, tried, changed, paused and deleted there, and its address is seen
nowhere.
"""

import pytest
from streamlit.testing.v1 import AppTest

from engine.access.rules import Program
from engine.home import Home
from engine.store import Demand, Launch, Reader, Store
from engine.store.notices.channels import Channel
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html
from tests.waiting import PATIENCE_S

HOOK = "https://hooks.slack.com/services/T/B/secret12345"


@pytest.fixture(autouse=True)
def cookies(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the cookies that the page sees: none at first, where AppTest would make some up."""
    given: dict[str, str] = {}
    monkeypatch.setattr("app.ui.current_user._cookies", lambda: given)
    return given


def page(name: str = "Ada") -> AppTest:
    test = opened("notifications")
    test.session_state["person"] = name
    return test.run()


def channels(home: Home) -> list[Channel]:
    with Reader.open(home) as reader:
        return reader.channels.of()


def press(test: AppTest, key: str) -> AppTest:
    test = test.button(key=key).click().run()
    assert not test.exception
    return test


def test_a_channel_goes_through_its_life_on_the_page(home: Home) -> None:
    test = page()
    assert "No channels yet" in said(test)
    test = press(test.text_input(key="notify.address").input("https://evil.example/secret12345").run(), "notify.add")
    assert "evil.example is not an allowed webhook host" in said(test).replace("\\", "")
    test = press(test.text_input(key="notify.address").input(HOOK).run(), "notify.add")
    assert test.text_input(key="notify.address").value == ""
    assert [each.shown for each in channels(home)] == ["hooks.slack.com/…2345"]
    assert "hooks.slack.com/…2345" in html(test)
    test = press(test, "notify.Send test.1")
    assert "<td>test</td>" in html(test)
    assert "No runner is running" in said(test)
    test = press(test.selectbox(key="notify.ends.1").select("bad").run(), "notify.Save.1")
    assert "sweeps and duels: failures only (failed, lost" in html(test)
    test = press(test, "notify.Pause.1")
    assert "Paused by Ada" in said(test)
    test = press(press(test, "notify.Resume.1"), "notify.delete.1")
    assert "hooks.slack.com/…2345: its address and all pending messages will be deleted" in said(test).replace("\\", "")
    assert "secret12345" not in said(test) + html(test)


def test_a_channel_is_deleted_after_one_more_question(home: Home, store: Store) -> None:
    store.channels.add("slack", HOOK, owner="Ada")

    def script() -> None:
        from app.notifications.channels import ask_delete
        from engine.home import Home
        from engine.store import Reader

        with Reader.open(Home.find()) as reader:
            found = reader.channels.of()
        if found:
            ask_delete(found[0])

    test = AppTest.from_function(script, default_timeout=PATIENCE_S)
    test.session_state["person"] = "Ada"
    test.run()
    next(button for button in test.button if button.label == "Delete channel").click().run()
    assert not test.exception
    assert channels(home) == []


def test_messages_are_listed_with_why_they_did_not_arrive(home: Home, store: Store) -> None:
    store.channels.add("slack", HOOK, owner="Ada")
    store.claims.refuse(store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1))), "Too large.")
    store.delivery.note_refused(store.delivery.take_due("me")[0], "me", "hooks.slack.com answered 404 <b>now</b>.")
    shown = html(page())
    assert "given up" in shown and "/run?run=1" in shown
    assert "404 &lt;b&gt;now&lt;/b&gt;." in shown


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_with_accounts_a_viewer_is_told_why_not_and_email_goes_to_the_account(
    home: Home, cookies: dict[str, str], role: str
) -> None:
    file = home.path / "mail.toml"
    file.write_text('host = "localhost"\nsecurity = "none"\nsender = "parallab@lab.org"\n')
    file.chmod(0o600)
    with Store.open(home) as store:
        store.people.add("Root", "admin", by=Program("first"))
        store.people.add("Ada", role, by="Root", email="ada@lab.org")  # type: ignore[arg-type]
        secret = store.sign_ins.begin("Ada", "password")
    cookies["parallab_session"] = secret
    test = opened("notifications")
    if role == "viewer":
        assert "Ada is a viewer" in said(test).replace("\\", "")
        return
    test = test.button_group(key="notify.kind").set_value("email").run()
    assert "E-mail is sent to your account's address, ada@lab.org" in said(test).replace("\\", "")
    press(test, "notify.add")
    assert [(each.owner, each.kind, each.shown) for each in channels(home)] == [("Ada", "email", "account's address")]
