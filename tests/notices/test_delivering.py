"""Messages on their way: what the sender does with each answer, and a real runner that is killed between attempts and
in the midst of one.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from engine.home import ROOT, Home
from engine.notices import delivery
from engine.notices.delivery import FIRST_S, LONGEST_S, deliver, delivery_thread, wait_before_next
from engine.store import Demand, Launch, Reader, Store
from engine.store import store as store_thread
from engine.store.notices.outbox import Message
from tests.notices.receivers import Receiver, hangs
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def serve() -> Iterator[Callable[..., Receiver]]:
    """Serve receivers until the test ends."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Receiver(*answers).serving())


def tell(store: Store, receiver: Receiver, owner: str = "ada") -> int:
    """Have a receiver told of a run that could not be placed; return the run."""
    channels = store.db.home.notices
    with channels.open("a") as file:
        file.write(f'[to-{owner}]\nurl = "{receiver.url}"\n')
    channels.chmod(0o600)
    store.subscriptions.add(f"to-{owner}", owner=owner)
    run_id = store.runs.add(Launch("hogwild", {}, owner, "quick", demand=Demand(1, 0, 1, 1)))
    store.claims.refuse(run_id, "It asks for more than the machine has.")
    return run_id


def sent(home: Home) -> Message:
    with Reader.open(home) as reader:
        return reader.outbox.sent()[0]


def let_it_be_due(store: Store) -> None:
    store.db.connection.execute("UPDATE outbox SET due_at = '2000-01-01T00:00:00.000Z'")


def test_a_message_is_tried_until_it_arrives_each_time_with_its_key(
    home: Home,
    store: Store,
    serve: Callable[..., Receiver],
    logged: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "FIRST_S", 600.0)
    receiver = serve(500, 404, 200)
    run_id = tell(store, receiver)
    assert deliver(store) == 1
    assert "error=500" in sent(home).last_error
    assert deliver(store) == 0  # it waits
    for _ in range(2):
        let_it_be_due(store)
        deliver(store)
    assert (sent(home).state, sent(home).last_error, sent(home).attempts) == ("arrived", "", 3)
    assert len({body["id"] for body in receiver.bodies}) == 1
    assert (receiver.bodies[2]["run"], receiver.bodies[2]["kind"]) == (str(run_id), "run")
    assert "Cause: It asks for more than the machine has." in receiver.bodies[2]["message"]
    assert "subscription 1 could not be notified of run 1, attempt 1: " in str(logged)
    assert "q7Zx9" not in str(logged)


def test_a_channel_that_is_gone_gets_nothing_until_it_is_back(
    home: Home, store: Store, serve: Callable[..., Receiver]
) -> None:
    receiver = serve()
    tell(store, receiver)
    before = home.notices.read_text()
    home.notices.write_text("")
    deliver(store)
    assert "Unknown channel 'to-ada'" in sent(home).last_error
    home.notices.write_text(before)
    let_it_be_due(store)
    deliver(store)
    assert (sent(home).state, len(receiver.bodies)) == ("arrived", 1)


def test_a_bug_is_said_without_its_words_which_could_hold_a_url(
    home: Home,
    store: Store,
    serve: Callable[..., Receiver],
    monkeypatch: pytest.MonkeyPatch,
    logged: list[str],
) -> None:
    def broken(url: str, *_: object) -> str:
        raise ValueError(url)

    monkeypatch.setattr(delivery, "send", broken)
    tell(store, serve())
    deliver(store)
    assert sent(home).last_error == "Internal error (ValueError). See the runner's log."
    assert "in broken" in str(logged) and "q7Zx9" not in str(logged)


def test_one_that_hangs_holds_up_no_other_and_the_thread_ends_when_it_is_told(
    home: Home, store: Store, serve: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_thread, "CLOSE_S", 0.1)
    go_on = threading.Event()
    slow, quick = serve(hangs(go_on)), serve()
    tell(store, slow)
    tell(store, quick, "grace")
    with delivery_thread(home) as sender:
        wait_until(lambda: sent(home).state == "arrived", "the quick one got its message")
        with Reader.open(home) as reader:
            assert [(each.state, each.last_error) for each in reader.outbox.sent()] == [
                ("arrived", ""),
                ("tried 1 time", ""),
            ]
    go_on.set()
    sender._thread.join(PATIENCE_S)
    assert not sender._thread.is_alive()


def test_one_that_never_ends_is_left_after_the_time_of_an_attempt(
    home: Home, store: Store, serve: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "WHOLE_S", 0.5)
    go_on = threading.Event()
    tell(store, serve(hangs(go_on)))
    deliver(store)
    assert sent(home).last_error == "The channel did not answer within 0.5 s."
    go_on.set()


def test_waits_double_with_a_random_part_off() -> None:
    for attempts, longest in ((1, FIRST_S), (2, 2 * FIRST_S), (5, 16 * FIRST_S), (40, LONGEST_S)):
        waits = {wait_before_next(attempts) for _ in range(50)}
        assert 0.6 * longest <= min(waits) < max(waits) <= longest


@pytest.mark.processes
def test_a_runner_that_is_killed_between_attempts_or_in_one_loses_nothing(
    home: Home, store: Store, serve: Callable[..., Receiver]
) -> None:
    receiver = serve(500, hangs(threading.Event()), 200)
    tell(store, receiver)
    deliver(store)  # a runner that has gone since
    assert "error=500" in sent(home).last_error
    let_it_be_due(store)
    with runner(home):
        wait_until(lambda: len(receiver.bodies) == 2, "the runner tries again")
        beat = heartbeat(home)
        wait_until(lambda: heartbeat(home) != beat, "the runner beats on, whatever hangs")
        assert sent(home).waits
    let_it_be_due(store)  # as it is once the killed runner can't be sending any more
    with delivery_thread(home):  # the next runner, whoever it is
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
