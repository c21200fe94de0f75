"""The channels that an admin defines: what the file may hold, what of a URL is ever shown, and which addresses pass."""

from collections.abc import Callable

import pytest

from engine.access.channels import Channel, lab_channel, lab_channels
from engine.errors import ConfigError
from engine.home import Home

SECRET = "q7Zx9secretLmNop"
FILE = f"""
[team]
url = "slack://T0001/B0002/{SECRET}"
about = "#runs of our workspace"

[email]
url = "mailtos://parallab:{SECRET}@mail.lab.org?from=parallab@lab.org&to={{address}}"
domains = ["Lab.org"]

[direct]
url = "slack://xoxb-{SECRET}/{{address}}"
asks = "Slack member ID"
"""
Define = Callable[[str], None]


@pytest.fixture
def channels(home: Home, define: Define) -> dict[str, Channel]:
    define(FILE)
    return lab_channels(home)


def test_channels_are_read_from_a_file_that_only_its_owner_can_read(home: Home, define: Define) -> None:
    assert lab_channels(home) == {}
    define(FILE)
    assert [(each.name, each.takes) for each in lab_channels(home).values()] == [
        ("team", "nothing"),
        ("email", "email"),
        ("direct", "text"),
    ]
    with pytest.raises(ConfigError, match=r"Unknown channel 'teem'\. Did you mean 'team'\?"):
        lab_channel(home, "teem")
    home.notices.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read it"):
        lab_channels(home)


def test_of_a_url_the_scheme_and_a_mail_servers_host_are_shown_and_no_more(channels: dict[str, Channel]) -> None:
    assert [each.shown for each in channels.values()] == ["slack://…", "mailtos://mail.lab.org…", "slack://…"]
    assert SECRET not in repr(channels)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[team", "can't be read as TOML"),
        ("team = 'slack://a/b/c'", "must be a section"),
        ("['our team']\nurl = 'slack://a/b/c'", "letters, digits, - and _"),
        ("[team]\nabout = 'ours'", "needs a url"),
        ("[team]\nurl = 'a secret'", "needs a url"),
        ("[team]\nurl = 'släck://secret'", "needs a url"),
        ("[team]\nurl = 3", "'url' is unknown or not of its type"),
        ("[team]\nurl = 'slack://a/b/c'\npassword = 'secret'", "'password' is unknown"),
        ("[team]\nurl = 'jsons://{address}/secret'", "behind the host"),
        ("[team]\nurl = 'jsons://{address}?key=secret'", "behind the host"),
        ("[team]\nurl = 'jsons://ada:secret@{address}'", "behind the host"),
        ("[team]\nurl = 'slack://secret/{address}/{address}'", "may stand once"),
    ],
)
def test_a_file_that_does_not_do_is_refused_without_a_secret(home: Home, define: Define, text: str, words: str) -> None:
    define(text)
    with pytest.raises(ConfigError) as refused:
        lab_channels(home)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "address", "account", "goes_to"),
    [
        ("team", "", None, f"slack://T0001/B0002/{SECRET}"),
        (
            "email",
            "",
            "ada@lab.org",
            f"mailtos://parallab:{SECRET}@mail.lab.org?from=parallab@lab.org&to=ada%40lab.org",
        ),
        ("email", " ADA@lab.org", "ada@lab.org", "=ada%40lab.org"),
        ("email", "eve@LAB.org", None, "=eve%40LAB.org"),
        ("direct", "@ada", "ada@lab.org", f"slack://xoxb-{SECRET}/%40ada"),
    ],
)
def test_a_persons_address_has_its_place_in_the_url(
    channels: dict[str, Channel], name: str, address: str, account: str | None, goes_to: str
) -> None:
    channel = channels[name]
    assert channel.url_to(channel.checked_address(address, account)).endswith(goes_to)


@pytest.mark.parametrize(
    ("name", "address", "account", "words"),
    [
        ("team", "#general", None, "takes no address"),
        ("email", "eve@lab.org", "ada@lab.org", "only to your account's address"),
        ("email", "", "", "has no e-mail address"),
        ("email", "eve@evil.example", None, "evil.example is not an allowed e-mail domain"),
        ("email", "eve@evil.example, ada@lab.org", None, "must look like"),
        ("email", "ada@lab.org\r\nBcc: eve@evil.example", None, "must look like"),
        ("email", "Ada <ada@lab.org>", None, "must look like"),
        ("email", "ada@evil@lab.org", None, "must look like"),
        ("email", "ada%2Ceve%40evil.example@lab.org", None, "must look like"),
        ("email", "", None, "Enter an e-mail address"),
        ("direct", "", None, "Enter Slack member ID"),
        ("direct", "@ada,@bea", None, "must consist of"),
        ("direct", "ada/../bea", None, "must consist of"),
        ("direct", "ada?to=bea", None, "must consist of"),
        ("direct", "ädä", None, "must consist of"),
    ],
)
def test_messages_go_nowhere_else(
    channels: dict[str, Channel], name: str, address: str, account: str | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        channels[name].checked_address(address, account)
