"""Where a notice may go: what passes as an address, what of it is ever shown, and where a name may lead."""

import socket

import pytest

from engine.access.receivers import (
    Kind,
    Receiver,
    Webhook,
    checked_recipient,
    checked_webhook,
    read_receiver,
    shortened,
)
from engine.errors import ConfigError
from engine.notices.dns_guard import UnsafeAddress, looked_up, refuse_unsafe

LISTED = {
    Receiver("public", "hooks.slack.com", 443),
    Receiver("public", "discord.com", 443),
    Receiver("internal", "10.0.0.5", 8080),
    Receiver("mail", "lab.org", 0),
}
SLACK = "https://hooks.slack.com/services/T01/B02/q7Zx9secretLmNop"
GOOD: list[tuple[Kind, str]] = [
    ("slack", SLACK),
    ("slack", SLACK.replace("hooks.slack.com", "HOOKS.slack.com:443")),
    ("discord", "https://discord.com/api/webhooks/1/secret?thread_id=5"),
    ("json", SLACK),
    ("json", "http://10.0.0.5:8080/hook"),
    ("json", "https://10.0.0.5:8080/hook"),
]
BAD: list[tuple[Kind, str, str]] = [
    ("slack", SLACK.replace("https", "http"), "must start with https"),
    (
        "slack",
        SLACK.replace("hooks.slack.com", "hooks.slack.com.evil.example"),
        "hooks.slack.com.evil.example is not an allowed webhook host",
    ),
    (
        "slack",
        SLACK.replace("hooks.slack.com", "hooks.slack.com:8443"),
        ("hooks.slack.com:8443 is not an allowed webhook host"),
    ),
    ("slack", SLACK.replace("hooks.slack.com", "evil.example@hooks.slack.com"), "without user"),
    ("slack", SLACK.replace("hooks.slack.com", "hooks.slack.com@evil.example"), "without user"),
    ("slack", SLACK.replace("hooks.slack.com", "hooks.slack.com\\@evil.example"), "must look like"),
    ("slack", SLACK + "\r\nX-Evil: 1", "must look like"),
    ("slack", SLACK + "#part", "must look like"),
    ("slack", "https://[::1", "must start with https"),
    ("slack", "https:///services", "must start with https"),
    ("slack", "file:///etc/passwd", "must start with https"),
    ("slack", "", "must look like"),
    ("slack", SLACK + "x" * 500, "must look like"),
    ("slack", SLACK.replace("slack", "släck"), "must look like"),
    ("slack", "http://10.0.0.5:8080/hook", "supports only channels of kind json"),
    ("discord", "https://10.0.0.5:8080/hook", "supports only channels of kind json"),
    ("json", "http://10.0.0.5:8081/hook", "must start with https"),
    ("json", "https://127.0.0.1/hook", "127.0.0.1 is not an allowed webhook host"),
    ("json", "https://2130706433/hook", "2130706433 is not an allowed webhook host"),
    ("json", "https://[::1]/hook", "[::1] is not an allowed webhook host"),
    ("json", "https://169.254.169.254/latest/meta-data", "169.254.169.254 is not an allowed webhook host"),
]


@pytest.mark.parametrize(("kind", "address"), GOOD)
def test_an_address_passes_where_an_admin_listed_its_host(kind: Kind, address: str) -> None:
    hook = checked_webhook(kind, address, LISTED)
    assert hook.path not in repr(hook)
    assert hook.internal == ("10.0.0.5" in address)


@pytest.mark.parametrize(("kind", "address", "words"), BAD)
def test_an_address_elsewhere_is_refused_without_being_repeated(kind: Kind, address: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked_webhook(kind, address, LISTED)
    assert words in str(refused.value)
    assert "q7Zx9secret" not in str(refused.value)


def test_of_an_address_the_host_and_the_end_are_shown_and_of_a_short_one_not_even_that() -> None:
    assert shortened("slack", SLACK) == "hooks.slack.com/…mNop"
    assert shortened("json", "https://hooks.slack.com/tiny") == "hooks.slack.com/…"


@pytest.mark.parametrize(
    ("address", "account", "goes_to"),
    [
        ("", "ada@lab.org", "ada@lab.org"),
        ("ADA@lab.org", "ada@lab.org", "ada@lab.org"),
        ("eve@LAB.org", None, "eve@LAB.org"),
    ],
)
def test_email_goes_to_ones_own_account_or_without_accounts_to_a_listed_domain(
    address: str, account: str | None, goes_to: str
) -> None:
    assert checked_recipient(address, account, LISTED) == goes_to


@pytest.mark.parametrize(
    ("address", "account", "words"),
    [
        ("eve@lab.org", "ada@lab.org", "only to your account's address"),
        ("", "", "has no e-mail address"),
        ("eve@evil.example", None, "evil.example is not an allowed e-mail domain"),
        ("eve@evil.example, ada@lab.org", None, "must look like"),
        ("ada@lab.org\r\nBcc: eve@evil.example", None, "must look like"),
        ("Ada <ada@lab.org>", None, "must look like"),
        ("ada@evil@lab.org", None, "must look like"),
        ("", None, "must look like"),
    ],
)
def test_email_goes_nowhere_else(address: str, account: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked_recipient(address, account, LISTED)


@pytest.mark.parametrize(
    "text", ["", "https://x.org", "a b", "x.org/path", "x.org:port", "x.org:99999", "user@x.org", "exämple.org", "[::1"]
)
def test_what_is_no_host_is_not_listed(text: str) -> None:
    with pytest.raises(ConfigError):
        read_receiver("public", text)


def test_an_internal_receiver_is_listed_with_its_port() -> None:
    assert read_receiver("internal", "Receiver.lab:8080") == Receiver("internal", "receiver.lab", 8080)
    assert str(read_receiver("internal", "[fd00::5]:8080")) == "[fd00::5]:8080"
    with pytest.raises(ConfigError, match="needs its port"):
        read_receiver("internal", "receiver.lab")


SAFE = ["54.1.2.3", "192.0.1.1", "192.88.98.1", "168.63.129.17", "2600:1f18::1", "64:ff9b::3601:203"]
OF_A_NETWORK = ["127.0.0.1", "10.0.0.5", "192.168.1.1", "172.16.0.1", "::1", "fd00::5", "::ffff:10.0.0.5"]
NEVER = [
    "169.254.169.254",
    "fe80::1",
    "224.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "::",
    "ff02::1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
]
NEVER += [
    "192.0.0.192",
    "::ffff:192.0.0.192",
    "64:ff9b::c000:c0",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd20:ce::254",
]  # clouds' own services
NOT_PUBLIC = [
    *(
        *OF_A_NETWORK,
        *NEVER,
        "100.64.0.1",
        "127.1.2.3",
        "198.18.0.1",
        "203.0.113.5",
        "fec0::1",
        "::127.0.0.1",
        "64:ff9b:1::7f00:1",
    ),
    *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2002:a00:5::1", "2001:0:0:0:0:0:80ff:fffe"),
    *("192.0.0.9", "192.88.99.1", "2002:c058:6301::1", "3fff::1", "3fff:fff::1", "5f00::1", "100:0:0:1::1"),
]


def hook(*, internal: bool) -> Webhook:
    return Webhook("https", "hooks.slack.com", 443, "/x", internal)


def test_a_public_receiver_is_out_in_the_world_and_a_listed_internal_one_may_be_in_a_network() -> None:
    refuse_unsafe(hook(internal=False), SAFE)
    refuse_unsafe(hook(internal=True), OF_A_NETWORK)
    for internal, addresses in ((False, NOT_PUBLIC), (True, NEVER)):
        for address in addresses:
            with pytest.raises(UnsafeAddress):
                refuse_unsafe(hook(internal=internal), [*SAFE, address])
    with pytest.raises(UnsafeAddress):
        refuse_unsafe(hook(internal=False), [])


def test_a_listed_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("54.1.2.3", 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(UnsafeAddress, match=r"hooks\.slack\.com resolves to an address in a private network"):
        looked_up(hook(internal=False))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers[:1])
    assert looked_up(hook(internal=False)) == ["54.1.2.3"]
