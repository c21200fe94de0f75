"""`notify`: channels are listed without their URLs; subscriptions are added, tested, changed, paused and removed."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from engine.cli import main
from engine.home import Home
from engine.store import Store

CHANNELS = """
[team]
url = "slack://T/B/secret12345"
about = "#runs"
[email]
url = "mailtos://u:secret12345@mail.lab.org?to={address}"
domains = ["lab.org"]
"""
Notify = Callable[..., Result]


@pytest.fixture
def notify(home: Home) -> Notify:
    home.create()
    home.notices.write_text(CHANNELS)
    home.notices.chmod(0o600)

    def run(*words: str, owner: str = "ada") -> Result:
        told = CliRunner(env={"PARALLAB_OWNER": owner}).invoke(main, ["notify", *words])
        assert "secret" not in told.output
        return told

    return run


def test_a_subscription_is_added_tried_changed_paused_and_removed(notify: Notify, store: Store) -> None:
    assert notify("list").stdout.startswith("No subscriptions.")
    assert notify("add", "team").stdout.startswith("Subscription 1 to team added for ada.")
    assert json.loads(notify("add", "email", "--to", "ada@lab.org", "--json").stdout)["subscription"] == 2
    assert "email ada@lab.org" in notify("list").stdout
    assert "Unknown channel 'teem'. Did you mean 'team'?" in notify("add", "teem").stderr
    notify("set", "1", "--ends", "bad", "--of", "wholes")
    assert notify("test", "1").stdout == "Subscription 1 will get a test message from the runner.\n"
    assert "is already queued" in notify("test", "1").stderr
    notify("pause", "1")
    found = json.loads(notify("list", "--json").stdout)
    assert [(each["ends"], each["reach"], each["paused_because"]) for each in found["subscriptions"]] == [
        ("bad", "wholes", "Paused by ada."),
        ("all", "runs", ""),
    ]
    assert [(each["kind"], each["channel"]) for each in found["messages"]] == [("test", "team")]
    notify("resume", "1")
    assert notify("remove", "1").exit_code == 0
    assert notify("remove", "1").exit_code == 2
    assert notify("list", owner="grace").stdout.startswith("No subscriptions.")


def test_channels_are_listed_without_their_urls(notify: Notify, home: Home, store: Store) -> None:
    assert [line.split() for line in notify("channels").stdout.splitlines()[1:]] == [
        ["team", "slack://…", "#runs"],
        ["email", "mailtos://mail.lab.org…", "e-mail", "address"],
    ]
    assert [each["takes"] for each in json.loads(notify("channels", "--json").stdout)["channels"]] == [
        "nothing",
        "email",
    ]
    home.notices.write_text("")
    assert notify("channels").stdout == f"No channels. Define them in {home.notices} (docs/notifications.md).\n"


def test_what_an_earlier_version_left_is_listed_with_the_cure(notify: Notify, home: Home, store: Store) -> None:
    notify("add", "team")
    store.db.connection.execute(
        "UPDATE subscriptions SET channel = '', webhook = 'https://hooks.slack.com/secret12345'"
    )
    (home.path / "mail.toml").write_text("")
    told = notify("channels").stdout
    assert "notify set NUMBER\n--channel NAME" in told and "mail.toml is no longer read" in told
    assert ["1", "ada", "hooks.slack.com"] in [line.split() for line in told.splitlines()]
    assert json.loads(notify("channels", "--json").stdout)["without_channel"][0]["host"] == "hooks.slack.com"
    assert notify("set", "1", "--channel", "team").exit_code == 0
    assert "hooks.slack.com" not in notify("channels").stdout
