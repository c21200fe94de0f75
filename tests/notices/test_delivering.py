"""Messages on their way: what the sender does with each answer, and a real runner that is killed between attempts and
in the midst of one.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from engine.home import ROOT, Home
from engine.notices import delivery
from engine.notices.delivery import FIRST_S, LONGEST_S, Delivering, delivery_thread, wait_before_next
from engine.store import Demand, Launch, Reader, Store
from engine.store import store as store_thread
from engine.store.notices.channels import Channel
from engine.store.notices.outbox import Sent
from engine.system.processes import me
from tests.notices.receivers import Answer, Receiver, hangs
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def serve() -> Iterator[Callable[..., Receiver]]:
    """Serve receivers until the test ends."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Receiver(*answers).serving())


def tell(store: Store, receiver: Receiver, owner: str = "ada") -> int:
    """Have a receiver told of a run that could not be placed; return the run."""
    store.channels.allow_receiver("internal", f"127.0.0.1:{receiver.port}", by="root")
    store.channels.add("json", receiver.address, owner=owner)
    run_id = store.runs.add(Launch("hogwild", {}, owner, "quick", demand=Demand(1, 0, 1, 1)))
    store.claims.refuse(run_id, "It asks for more than the machine has.")
    return run_id


def sent(home: Home) -> Sent:
    with Reader.open(home) as reader:
        return reader.outbox.sent()[0]


def channel(home: Home) -> Channel:
    with Reader.open(home) as reader:
        return reader.channels.of()[0]


def let_it_be_due(store: Store) -> None:
    store.db.connection.execute("UPDATE outbox SET due_at = '2000-01-01T00:00:00.000Z'")


def test_a_message_is_tried_until_it_arrives_each_time_with_its_key(
    home: Home,
    store: Store,
    serve: Callable[..., Receiver],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(delivery, "FIRST_S", 600.0)
    receiver = serve(500, (429, {"Retry-After": "9000"}, b""), 200)
    run_id, sender = tell(store, receiver), Delivering(home, me())
    assert sender.deliver(store) == 1
    assert sent(home).last_error == "127.0.0.1 answered 500."
    assert sender.deliver(store) == 0  # it waits
    let_it_be_due(store)
    sender.deliver(store)
    assert (datetime.fromisoformat(sent(home).due_at) - datetime.now(UTC)).total_seconds() > 8_900
    let_it_be_due(store)
    sender.deliver(store)
    assert sent(home).state == "arrived"
    assert len({body["id"] for body in receiver.bodies}) == 1
    assert (receiver.bodies[2]["run"]["id"], receiver.bodies[2]["run"]["cause"]) == (
        run_id,
        "It asks for more than the machine has.",
    )
    assert "channel 1 could not be notified of run 1, attempt 1: 127.0.0.1 answered 500." in caplog.text
    assert "q7Zx9" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [(404, "answered 404"), ((302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects are not followed")],
)
def test_a_receiver_that_wants_no_more_pauses_its_channel(
    home: Home, store: Store, serve: Callable[..., Receiver], answer: Answer, words: str
) -> None:
    tell(store, serve(answer))
    Delivering(home, me()).deliver(store)
    assert words in channel(home).paused_because
    assert sent(home).state == "given up"


def test_a_host_that_is_listed_no_more_gets_nothing(home: Home, store: Store, serve: Callable[..., Receiver]) -> None:
    receiver = serve()
    tell(store, receiver)
    store.channels.refuse_receiver("internal", f"127.0.0.1:{receiver.port}", by="root")
    Delivering(home, me()).deliver(store)
    assert receiver.bodies == []
    assert "must start with https" in channel(home).paused_because


def test_without_a_mail_server_email_waits_and_says_so(home: Home, store: Store) -> None:
    store.channels.allow_receiver("mail", "lab.org", by="root")
    store.channels.test(store.channels.add("email", "ada@lab.org", owner="ada"), by="ada")
    Delivering(home, me()).deliver(store)
    assert "has no mail server" in sent(home).last_error


def test_one_that_hangs_holds_up_no_other_and_the_thread_ends_when_it_is_told(
    home: Home, store: Store, serve: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_thread, "CLOSE_S", 0.1)
    go_on = threading.Event()
    slow, quick = serve(hangs(go_on)), serve()
    tell(store, slow)
    tell(store, quick, "grace")
    with delivery_thread(home, me()) as sender:
        wait_until(lambda: sent(home).state == "arrived", "the quick one got its message")
        with Reader.open(home) as reader:
            assert [(each.state, each.last_error) for each in reader.outbox.sent()] == [
                ("arrived", ""),
                ("tried 1 time", ""),
            ]
    go_on.set()
    sender._thread.join(PATIENCE_S)
    assert not sender._thread.is_alive()


def test_waits_double_with_a_random_part_off_and_are_no_shorter_than_asked_for() -> None:
    for attempts, longest in ((1, FIRST_S), (2, 2 * FIRST_S), (5, 16 * FIRST_S), (40, LONGEST_S)):
        waits = {wait_before_next(attempts) for _ in range(50)}
        assert 0.6 * longest <= min(waits) < max(waits) <= longest
    assert wait_before_next(1, 600.0) == 600.0


@pytest.mark.processes
def test_a_runner_that_is_killed_between_attempts_or_in_one_loses_nothing(
    home: Home, store: Store, serve: Callable[..., Receiver]
) -> None:
    receiver = serve((500, {"Retry-After": "600"}, b""), hangs(threading.Event()), 200)
    tell(store, receiver)
    Delivering(home, me()).deliver(store)  # a runner that has gone since
    assert sent(home).last_error == "127.0.0.1 answered 500."
    let_it_be_due(store)
    with runner(home):
        wait_until(lambda: len(receiver.bodies) == 2, "the runner tries again")
        beat = heartbeat(home)
        wait_until(lambda: heartbeat(home) != beat, "the runner beats on, whatever hangs")
        assert sent(home).waits
    with delivery_thread(home, me()):  # the next runner, whoever it is
        wait_until(lambda: sent(home).state == "arrived", "the message arrives")
    assert [body["id"] for body in receiver.bodies] == [receiver.bodies[0]["id"]] * 3
    assert sent(home).attempts == 3
    assert "q7Zx9" not in home.runner_log.read_text()


class runner:  # noqa: N801 -- reads as what it is
    """A real runner, from entering on, killed with -9 at the end."""

    def __init__(self, home: Home) -> None:
        with home.runner_log.open("ab") as log:
            command = [sys.executable, "-m", "engine", "serve"]
            environment = os.environ | {"PARALLAB_HOME": str(home.path)}
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> None:
        """Give nothing: what it does is seen in the store."""

    def __exit__(self, *_: object) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def heartbeat(home: Home) -> str:
    with Reader.open(home) as reader:
        row = reader.runner.current()
    return row.heartbeat_at if row else ""
