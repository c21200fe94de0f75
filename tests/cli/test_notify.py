"""`notify`: channels are added without their address on the command line, listed without it, tested, paused, removed;
hosts and mail are an admin's.
"""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from engine.access.rules import Program
from engine.cli import main
from engine.home import Home
from engine.store import Store

HOOK = "https://hooks.slack.com/services/T/B/secret12345"
Notify = Callable[..., Result]


@pytest.fixture
def notify(home: Home) -> Notify:
    def run(*words: str, typed: str = "", owner: str = "ada") -> Result:
        told = CliRunner(env={"PARALLAB_OWNER": owner}).invoke(main, ["notify", *words], input=typed)
        assert "secret" not in told.output
        return told

    return run


def test_a_channel_is_added_tried_changed_paused_and_removed(notify: Notify, store: Store) -> None:
    assert notify("list").stdout.startswith("No channels.")
    assert notify("add", "slack", "--address-stdin", typed=f"{HOOK}\n").stdout.startswith("Channel 1 added for ada.")
    assert (
        json.loads(notify("add", "discord", "--json", typed="https://discord.com/api/webhooks/1/secret\n").stdout)[
            "channel"
        ]
        == 2
    )
    assert "hooks.slack.com/…2345" in notify("list").stdout
    notify("set", "1", "--ends", "bad", "--of", "wholes")
    assert notify("test", "1").stdout == "Channel 1 will get a test message from the runner.\n"
    assert "is already queued" in notify("test", "1").stderr
    notify("pause", "1")
    found = json.loads(notify("list", "--json").stdout)
    assert [(each["ends"], each["reach"], each["paused_because"]) for each in found["channels"]] == [
        ("bad", "wholes", "Paused by ada."),
        ("all", "runs", ""),
    ]
    assert [each["kind"] for each in found["messages"]] == ["test"]
    notify("resume", "1")
    assert notify("remove", "1").exit_code == 0
    assert notify("remove", "1").exit_code == 2
    assert "applies only to e-mail" in notify("add", "slack", "--to", HOOK).stderr
    assert notify("list", owner="grace").stdout.startswith("No channels.")


def test_hosts_are_listed_allowed_and_refused_by_admins_alone(notify: Notify, store: Store) -> None:
    for name, role in (("root", "admin"), ("ada", "member")):
        store.people.add(name, role, by=Program("first"))  # type: ignore[arg-type]
    assert ("may not change the allowed receivers: that requires the role admin") in notify(
        "hosts", "--add", "hooks.example.org"
    ).stderr
    notify("hosts", "--add", "hooks.example.org", "--add-internal", "10.0.0.5:8080", owner="root")
    assert notify("hosts").stdout.splitlines()[-1].split()[:5] == ["10.0.0.5:8080", "webhooks", "of", "kind", "json"]
    notify("hosts", "--remove", "10.0.0.5:8080", owner="root")
    listed = [(each["receiver"]["host"], each["added_by"]) for each in json.loads(notify("hosts", "--json").stdout)]
    assert listed == [("discord.com", "parallab"), ("hooks.example.org", "root"), ("hooks.slack.com", "parallab")]
    assert "Receiver 'evil.example' is not listed" in notify("hosts", "--remove", "evil.example", owner="root").stderr
    assert notify("mail").exit_code == 2
    assert "has no mail server" in notify("mail", owner="root").stderr


def test_the_mail_server_is_said_without_its_password(notify: Notify, home: Home) -> None:
    file = home.path / "mail.toml"
    file.write_text(
        'host = "127.0.0.1"\nport = 1\nsecurity = "none"\nsender = "parallab@lab.org"\nuser = "u"\npassword = '
        '"secret"\n'
    )
    file.chmod(0o600)
    assert notify("mail").stdout == "Sender parallab@lab.org, server 127.0.0.1:1, security none, with sign-in.\n"
    checked = notify("mail", "--check", "--json")
    assert checked.exit_code == 1
    assert "could not be reached" in json.loads(checked.stdout)["error"]
