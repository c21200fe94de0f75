"""One notice sent by apprise to real servers on loopback that answer well, badly, elsewhere or not at all: webhooks,
and a mail server that wants TLS and a sign-in.
"""

import asyncio
import logging
import logging.config
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import requests
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from engine.access.rules import Program
from engine.notices import delivery
from engine.notices.delivery import deliver, send
from engine.notices.notice import Notice
from engine.store import Demand, Launch, Store
from tests.notices.receivers import SECRET, Answer, Receiver, certificates, closes, hangs

PASSWORD = "a-password-that-nobody-sees"
HOSTILE = "Run 12 failed: <!channel> @everyone *bold* [click](https://evil.example)"
NOTICE = Notice(
    "0a1b2c3d", HOSTILE, (("Cause", "<@U123> raised ValueError: ünequal"),), True, "https://lab.org/run?run=12"
)


def sent(receiver: Receiver) -> str:
    return send(f"{receiver.url}", NOTICE, {"kind": "run", "run": "12"})


# ---- webhooks ------------------------------------------------------------------------------------------------------


def test_a_message_arrives_with_its_key_and_nothing_of_its_address_is_logged(
    logged: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with Receiver(204).serving() as receiver:
        assert sent(receiver) == ""
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})  # as uvicorn does when it starts
        assert sent(receiver) == ""
    body = receiver.bodies[0]
    assert (body["title"], body["type"], body["id"], body["kind"], body["run"], body["link"], body["bad"]) == (
        *(HOSTILE, "failure", "0a1b2c3d", "run", "12", "https://lab.org/run?run=12", "true"),
    )
    assert body["message"] == "Cause: <@U123> raised ValueError: ünequal\nhttps://lab.org/run?run=12"
    assert receiver.headers[0]["Idempotency-Key"] == "0a1b2c3d"
    said = capfd.readouterr()
    assert "q7Zx9" not in str(logged) + said.out + said.err


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (500, "error=500"),
        ((404, {}, SECRET.encode()), "error=404"),
        ((307, {"Location": "http://127.0.0.1:1/"}, b""), "error=307"),
        (closes, "A Connection error occurred sending JSON notification to 127.0.0.1"),
    ],
)
def test_what_a_receiver_answers_is_said_without_the_url(answer: Answer, words: str) -> None:
    with Receiver(answer).serving() as receiver:
        error = sent(receiver)
    assert words in error
    assert "q7Zx9" not in error


def test_a_redirect_is_not_followed() -> None:
    with Receiver().serving() as other, Receiver((307, {"Location": other.address}, b"")).serving() as receiver:
        assert "error=307" in sent(receiver)
        assert other.bodies == []


def test_a_receiver_that_hangs_is_left_after_the_time_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "ANSWER_S", 0.4)
    go_on = threading.Event()
    with Receiver(hangs(go_on)).serving() as receiver:
        assert "A Connection error occurred" in sent(receiver)
        go_on.set()


def test_a_url_that_apprise_does_not_know_is_said_to_the_admin_without_it() -> None:
    error = send(f"nosuch:/{SECRET}", NOTICE, {})
    assert "does not accept the channel's URL" in error and "q7Zx9" not in error


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "https://discord.com/api/webhooks/1234567890/secretTokenABC?thread_id=5",
        "ntfys://ntfy.sh/topic",
    ],
)
def test_in_chats_a_name_calls_nobody_and_makes_no_link(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    posted: list[str] = []

    def request(*_: object, data: str, **__: object) -> requests.Response:
        posted.append(data.encode().decode("unicode_escape"))
        answer = requests.Response()
        answer.status_code = 200
        answer._content = b"ok"
        return answer

    monkeypatch.setattr(requests.Session, "request", request)
    assert send(url, NOTICE, {}) == ""
    (text,) = posted
    assert "Run 12 failed" in text and "https://lab.org/run?run=12" in text
    assert not any(mark in text for mark in ("<!channel>", "@everyone", "<@U123>", "](https"))


# ---- e-mail --------------------------------------------------------------------------------------------------------


class Inbox:
    """What a mail server does with each message: keep it, or answer otherwise."""

    def __init__(self) -> None:
        self.messages: list[Envelope] = []
        self.rcpt = "250 OK"

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.messages.append(envelope)
        return "250 OK"

    def read(self) -> EmailMessage:
        (envelope,) = self.messages
        return message_from_bytes(envelope.original_content or b"", policy=policy.default)


@contextmanager
def serving(inbox: Inbox, mode: str, context: ssl.SSLContext) -> Iterator[int]:
    """Serve a mail server that lets `parallab` in, over TLS alone; yields its port."""

    def let_in(server: SMTP, session: Session, envelope: Envelope, mechanism: str, said: Any) -> AuthResult:
        fits = isinstance(said, LoginPassword) and (said.login, said.password) == (b"parallab", PASSWORD.encode())
        return AuthResult(success=fits, handled=False)

    starts = {"tls_context": context, "require_starttls": True} if mode == "starttls" else {}
    whole = {"ssl_context": context} if mode == "ssl" else {}
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


def mail_url(port: int, mode: str, *, password: str = PASSWORD, to: str = "ada%40lab.org") -> str:
    return f"mailtos://parallab:{password}@127.0.0.1:{port}?from=parallab@lab.org&mode={mode}&to={to}"


@pytest.mark.parametrize("mode", ["starttls", "ssl"])
def test_a_message_is_handed_in_encrypted_and_signed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    ca_file, context = certificates(tmp_path, "localhost", "127.0.0.1")
    inbox = Inbox()
    with serving(inbox, mode, context) as port:
        stranger = send(mail_url(port, mode), NOTICE, {})
        assert "Connection error while submitting email" in stranger and inbox.messages == []
        monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
        assert send(mail_url(port, mode), NOTICE, {}) == ""
        message, (envelope,) = inbox.read(), inbox.messages
        assert (envelope.mail_from, envelope.rcpt_tos) == ("parallab@lab.org", ["ada@lab.org"])
        assert (message["To"], message["Bcc"], message["Subject"]) == ("ada@lab.org", None, HOSTILE)
        assert (message.get_content_type(), message["Auto-Submitted"]) == ("text/plain", "auto-generated")
        assert "<@U123> raised ValueError: ünequal" in message.get_content()
        if mode == "starttls":
            assert "Connection error while submitting email" in send(mail_url(port, mode, password="wrong"), NOTICE, {})
        inbox.rcpt = "550 5.1.1 no such user"
        error = send(mail_url(port, mode), NOTICE, {})
        assert "failed" in error and PASSWORD not in error
    assert "Connection error" in send(mail_url(port, mode), NOTICE, {})


def test_a_server_without_starttls_gets_no_message(tmp_path: Path) -> None:
    _, context = certificates(tmp_path, "localhost")
    inbox = Inbox()
    with serving(inbox, "none", context) as port:
        assert "Connection error" in send(mail_url(port, "starttls"), NOTICE, {})
    assert inbox.messages == []


def test_an_end_arrives_in_the_mailbox_of_the_owners_account(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, define: Callable[[str], None]
) -> None:
    ca_file, context = certificates(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    monkeypatch.setenv("PARALLAB_PUBLIC_URL", "https://lab.example.org")
    inbox = Inbox()
    with serving(inbox, "starttls", context) as port:
        define(f'[email]\nurl = "{mail_url(port, "starttls", to="{address}")}"')
        store.people.add("root", "admin", by=Program("first"))
        store.people.add("ada", "member", by="root", email="ada@lab.org")
        store.subscriptions.add("email", owner="ada", ends="bad")
        store.claims.refuse(
            store.runs.add(Launch("hogwild", {}, "ada", name="first light", demand=Demand(1, 0, 1, 1))),
            "It asks for more than the machine has.",
        )
        assert deliver(store) == 1
    assert inbox.messages[0].rcpt_tos == ["ada@lab.org"]
    message = inbox.read()
    assert message["Subject"] == "Run 1 failed: first light (Hogwild!)"
    text = message.get_content()
    assert "Cause: It asks for more than the machine has." in text and "https://lab.example.org/run?run=1" in text
