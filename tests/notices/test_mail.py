"""E-mail handed in at a real server on loopback that wants TLS and a sign-in; and the settings that say how."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from engine.access.rules import Program
from engine.errors import ConfigError
from engine.home import Home
from engine.notices import mail
from engine.notices.delivery import Delivering
from engine.notices.formats import as_email
from engine.notices.mail_server import MailServer, Security, mail_server
from engine.notices.notice import Notice
from engine.store import Demand, Launch, Store
from engine.system.processes import me
from tests.notices.receivers import certificates

PASSWORD = "a password that nobody sees"
NOTICE = Notice(
    "0a1b2c3d",
    "run",
    "2026-01-01T00:00:00.000Z",
    "Run 12 failed: Hogwild!, quick",
    (("Why", "trainer2 raised ValueError"),),
    True,
)


class Inbox:
    """What a mail server does with each message: keep it, or answer otherwise."""

    def __init__(self) -> None:
        self.messages: list[Envelope] = []
        self.rcpt, self.data = "250 OK", "250 OK"

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data.startswith("250"):
            self.messages.append(envelope)
        return self.data


@contextmanager
def serving(inbox: Inbox, security: Security, context: ssl.SSLContext) -> Iterator[int]:
    """Serve a mail server that lets `parallab` in, over TLS alone; yields its port."""

    def let_in(server: SMTP, session: Session, envelope: Envelope, mechanism: str, said: Any) -> AuthResult:
        fits = isinstance(said, LoginPassword) and (said.login, said.password) == (b"parallab", PASSWORD.encode())
        return AuthResult(success=fits, handled=False)

    starts = {"tls_context": context, "require_starttls": True} if security == "starttls" else {}
    whole = {"ssl_context": context} if security == "tls" else {}
    common: dict[str, Any] = {
        "authenticator": let_in,
        "auth_required": starts != {},
        "auth_require_tls": starts != {},
        "server_hostname": "localhost",
        **starts,
        **whole,
    }
    controller = Controller(inbox, hostname="127.0.0.1", port=0, ready_timeout=60.0, **common)
    with asyncio.Runner() as runner:  # Controller finds no port by itself where it is given none
        controller.port = runner.run(_free_port())
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


async def _free_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_message_is_handed_in_encrypted_and_signed_in(tmp_path: Path, security: Security) -> None:
    ca_file, context = certificates(tmp_path, "localhost", "127.0.0.1")
    inbox = Inbox()
    with serving(inbox, security, context) as port:
        server = MailServer("127.0.0.1", port, security, "parallab@lab.org", "parallab", PASSWORD, str(ca_file))
        assert mail.check(server).delivered
        assert inbox.messages == []
        assert mail.send(server, as_email(NOTICE, server.sender, "ada@lab.org"), "ada@lab.org").delivered
        (envelope,) = inbox.messages
        assert (envelope.mail_from, envelope.rcpt_tos) == ("parallab@lab.org", ["ada@lab.org"])
        assert b"Message-ID: <0a1b2c3d@lab.org>" in (envelope.content or b"")
        wrong = MailServer("127.0.0.1", port, security, "parallab@lab.org", "parallab", "wrong", str(ca_file))
        assert "user or password is wrong" in mail.check(wrong).error
        stranger = MailServer("127.0.0.1", port, security, "parallab@lab.org", "parallab", PASSWORD)
        assert "invalid certificate" in mail.check(stranger).error
        for rcpt, data, words, refused in (
            ("550 5.1.1 no such user", "250 OK", "answered 550: unknown recipient", True),
            ("451 try later", "250 OK", "refused the recipient (451)", False),
            ("250 OK", "452 full", "answered 452", False),
            ("250 OK", "554 spam", "answered 554", False),
        ):
            inbox.rcpt, inbox.data = rcpt, data
            outcome = mail.send(server, as_email(NOTICE, server.sender, "ada@lab.org"), "ada@lab.org")
            assert words in outcome.error
            assert outcome.refused == refused
            assert PASSWORD not in outcome.error
    assert "could not be reached" in mail.check(server).error


def test_an_end_arrives_in_the_mailbox_of_the_owners_account(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca_file, context = certificates(tmp_path, "127.0.0.1")
    inbox = Inbox()
    with serving(inbox, "starttls", context) as port, Store.open(home) as store:
        settings = {
            "host": "127.0.0.1",
            "port": port,
            "sender": "parallab@lab.org",
            "user": "parallab",
            "password": PASSWORD,
            "ca_file": ca_file,
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"PARALLAB_MAIL_{name.upper()}", str(value))
        monkeypatch.setenv("PARALLAB_PUBLIC_URL", "https://lab.example.org")
        store.people.add("root", "admin", by=Program("first"))
        store.people.add("ada", "member", by="root", email="ada@lab.org")
        store.channels.add("email", "", owner="ada", ends="bad")
        store.claims.refuse(
            store.runs.add(Launch("hogwild", {}, "ada", name="first light", demand=Demand(1, 0, 1, 1))),
            "It asks for more than the machine has.",
        )
        assert Delivering(home, me()).deliver(store) == 1
    (envelope,) = inbox.messages
    assert envelope.rcpt_tos == ["ada@lab.org"]
    read = message_from_bytes(envelope.original_content or b"", policy=policy.default)
    assert read["Subject"] == "Run 1 failed: first light (Hogwild!)"
    text = read.get_content()
    assert "Cause: It asks for more than the machine has." in text and "https://lab.example.org/run?run=1" in text


def test_a_server_without_starttls_gets_no_message(tmp_path: Path) -> None:
    _, context = certificates(tmp_path, "localhost")
    with serving(Inbox(), "none", context) as port:
        assert "does not support" in mail.check(MailServer("127.0.0.1", port, "starttls", "parallab@lab.org")).error


def test_the_settings_come_from_a_file_that_only_its_owner_can_read_and_from_the_environment(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mail_server(home) is None
    file = home.path / "mail.toml"
    file.write_text(f'host = "mail.lab.org"\nsender = "parallab@lab.org"\nuser = "parallab"\npassword = "{PASSWORD}"\n')
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read it"):
        mail_server(home)
    file.chmod(0o600)
    found = mail_server(home)
    assert found == MailServer("mail.lab.org", 587, "starttls", "parallab@lab.org", "parallab", PASSWORD)
    assert PASSWORD not in repr(found)
    monkeypatch.setenv("PARALLAB_MAIL_SECURITY", "tls")
    assert (mail_server(home) or found).port == 465


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"security": "ssl"}, "must be one of"),
        ({"security": "none"}, "only for a server on this machine"),
        ({"port": "0"}, "port of the mail server"),
        ({"user": "parallab"}, "needs both"),
        ({"sender": "Parallab"}, "must be an e-mail address"),
        ({"ca_file": "none/such.pem"}, "doesn't exist"),
    ],
)
def test_settings_that_do_not_do_are_said(
    home: Home, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    for name, value in ({"host": "mail.lab.org", "sender": "parallab@lab.org"} | changes).items():
        monkeypatch.setenv(f"PARALLAB_MAIL_{name.upper()}", value)
    with pytest.raises(ConfigError, match=words):
        mail_server(home)
