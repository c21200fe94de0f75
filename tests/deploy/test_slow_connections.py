"""A console under an attack of slow connections, with few files to open: it serves on, and ends those that are slow."""

import resource
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from engine.home import Home
from tests.browser.conftest import PATIENCE_S, Console

SLOW, FILES = 300, 256
ANSWER_S = 30.0


@pytest.fixture
def console(home: Home) -> Iterator[Console]:
    """A console that begins with room for fewer files than there are slow connections, as services and containers give it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    served = Console(home)
    served.settings = {"PARALLAB_RUNNER": "separate"}
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    try:
        served.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    try:
        yield served
    finally:
        served.kill()


def test_slow_connections_starve_nobody_and_are_ended(console: Console) -> None:
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        begun = time.monotonic()
        for _ in range(SLOW):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", console.port), timeout=PATIENCE_S))
            client.sendall(b"G")
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        with httpx.Client(base_url=console.address, timeout=ANSWER_S) as browser:
            answers = 0
            while selector.get_map():
                assert time.monotonic() < begun + PATIENCE_S, f"{len(selector.get_map())} slow connections are still open"
                assert browser.get("/healthz", headers={"connection": "close"}).json()["store"] == "ok"
                answers += 1
                for key, _ in selector.select(0.5):
                    with suppress(ConnectionError):
                        assert b" 408 " in key.fileobj.recv(65_536)  # type: ignore[union-attr]
                    selector.unregister(key.fileobj)
                for key in selector.get_map().values():
                    with suppress(OSError):
                        key.fileobj.send(b"E")  # type: ignore[union-attr]
    assert answers > 3
