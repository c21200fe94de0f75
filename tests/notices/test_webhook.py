"""One notice sent to a real server on loopback that answers well, badly, late, elsewhere or not at all."""

import asyncio
import logging
import logging.config
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from engine.access.receivers import Webhook
from engine.notices import webhook
from engine.notices.outcome import DeliveryOutcome
from tests.notices.receivers import SECRET, Answer, Receiver, certificates, closes, drips, hangs, pours


def sent(
    receiver: Receiver, host: str = "127.0.0.1", *, internal: bool = True, secure: bool = False
) -> DeliveryOutcome:
    hook = Webhook("https" if secure else "http", host, receiver.port, SECRET, internal)
    return asyncio.run(webhook.post(hook, {"text": "Run 12 failed"}, "a key"))


def leads_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every name lead to this machine; return those that are asked for."""
    asked: list[str] = []

    def answer(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_a_message_arrives_with_its_key_and_nothing_of_its_address_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})  # as uvicorn does when it starts
    caplog.set_level(logging.DEBUG)
    with Receiver(204).serving() as receiver:
        assert sent(receiver).delivered
    assert receiver.bodies == [{"text": "Run 12 failed"}]
    assert (receiver.headers[0]["Idempotency-Key"], receiver.headers[0]["Content-Type"]) == (
        "a key",
        "application/json",
    )
    assert "Cookie" not in receiver.headers[0]
    assert not any("q7Zx9" in record.getMessage() for record in caplog.records)


ANSWERS: list[tuple[Answer, str, bool, float]] = [
    (500, "answered 500.", False, 0),
    ((503, {"Retry-After": "17"}, b""), "answered 503.", False, 17),
    ((429, {"Retry-After": "2.5"}, b"{}"), "answered 429.", False, 2.5),
    ((429, {"Retry-After": "99999999"}, b""), "answered 429.", False, webhook.LONGEST_WAIT_S),
    ((429, {"Retry-After": "nan"}, b""), "answered 429.", False, 0),
    ((404, {}, b"no_service"), "answered 404 (no_service): the receiver no longer accepts messages", True, 0),
    ((410, {}, SECRET.encode()), "answered 410: the receiver no longer accepts messages", True, 0),
    (401, "answered 401: the receiver no longer accepts messages", True, 0),
    (closes, "closed the connection", False, 0),
]


@pytest.mark.parametrize(("answer", "words", "refused", "wait_s"), ANSWERS)
def test_what_a_receiver_answers_is_told_and_judged(answer: Answer, words: str, refused: bool, wait_s: float) -> None:
    with Receiver(answer).serving() as receiver:
        outcome = sent(receiver)
    assert not outcome.delivered
    assert words in outcome.error
    assert (outcome.refused, "q7Zx9" in outcome.error) == (refused, False)
    assert outcome.wait_s == wait_s


def test_a_time_to_come_back_at_is_kept_to() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=900))
    with Receiver((429, {"Retry-After": at}, b"")).serving() as receiver:
        assert sent(receiver).wait_s == pytest.approx(900, abs=60)


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver().serving() as inside, Receiver((307, {"Location": inside.address}, b"")).serving() as receiver:
        outcome = sent(receiver)
        assert outcome.refused and "redirects are not followed" in outcome.error
        assert inside.bodies == []


@pytest.mark.parametrize("answer", [hangs(threading.Event()), drips])
def test_a_receiver_that_hangs_or_drips_is_left_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., None]
) -> None:
    monkeypatch.setattr(webhook, "ANSWER_S", 0.4)
    monkeypatch.setattr(webhook, "WHOLE_S", 0.8)
    with Receiver(answer).serving() as receiver:
        assert "did not answer within" in sent(receiver).error


def test_of_a_flood_only_a_start_is_read() -> None:
    with Receiver(pours).serving() as receiver:
        assert sent(receiver).delivered


def test_nothing_is_sent_where_a_listed_name_leads_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_here(monkeypatch)
    with Receiver().serving() as receiver:
        outcome = sent(receiver, "hooks.slack.com", internal=False)
        assert outcome.refused and "in a private network" in outcome.error
        assert receiver.bodies == []


def test_the_certificate_is_held_against_the_name_and_the_connection_goes_to_the_address_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca_file, context = certificates(tmp_path, "receiver.lab")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    asked = leads_here(monkeypatch)
    with Receiver(context=context).serving() as receiver:
        assert sent(receiver, "receiver.lab", secure=True).delivered
        assert receiver.headers[0]["Host"] == f"receiver.lab:{receiver.port}"
        assert asked == ["receiver.lab"]
        assert "invalid certificate" in sent(receiver, "other.lab", secure=True).error
    assert "no connection" in sent(receiver, "receiver.lab", secure=True).error
