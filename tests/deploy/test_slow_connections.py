"""A console under an attack of slow connections, with few files to open: it serves on, an open page and an upload at 20
kB/s too, and ends what is slow.
"""

import resource
import selectors
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection

from engine.home import Home
from tests.access.test_doors import Door, talk
from tests.browser.conftest import Console
from tests.waiting import PATIENCE_S

SLOW, FILES = 300, 256


@pytest.fixture
def console(home: Home) -> Iterator[Console]:
    """A console that begins with room for fewer files than there are slow connections, as services and containers give
    it.
    """
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


def session_of(page: ClientConnection) -> str:
    """Have a page's script run once, and return its session."""
    page.send(BackMsg(rerun_script=ClientState(page_name="machine")).SerializeToString())
    while True:
        message = ForwardMsg.FromString(page.recv(timeout=PATIENCE_S, decode=False))
        if message.WhichOneof("type") == "new_session":
            return str(message.new_session.initialize.session_id)


def upload(address: str, session: str) -> int:
    """Upload a file as a page does, at 20 kB/s for 13 s; return the status of the answer."""
    head, tail = b'--x\r\nContent-Disposition: form-data; name="file"; filename="runs.zip"\r\n\r\n', b"\r\n--x--\r\n"
    length, rate = 260_000, 20_000

    def parts() -> Iterator[bytes]:
        begun, sent = time.monotonic(), 0
        yield head
        while sent < length:
            due = min(length, int((time.monotonic() - begun) * rate))
            yield b"a" * (due - sent)
            sent = due
            time.sleep(0.1)
        yield tail

    with httpx.Client(base_url=address, timeout=PATIENCE_S) as browser:
        token = browser.get("/_stcore/health").cookies["_streamlit_xsrf"]
        headers = {
            "content-type": "multipart/form-data; boundary=x",
            "content-length": str(len(head) + length + len(tail)),
            "x-xsrftoken": token,
        }
        return browser.put(f"/_stcore/upload_file/{session}/1", content=parts(), headers=headers).status_code


@pytest.mark.processes
def test_slow_connections_starve_nobody_and_are_ended(console: Console) -> None:
    with ExitStack() as stack, selectors.DefaultSelector() as selector, ThreadPoolExecutor(1) as pool:
        page = stack.enter_context(Door(console, console.home).open())
        uploaded = pool.submit(upload, console.address, session_of(page))
        begun = time.monotonic()
        for _ in range(SLOW):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", console.port), timeout=PATIENCE_S))
            client.sendall(b"G")
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        with httpx.Client(base_url=console.address, timeout=PATIENCE_S) as browser:
            answers = 0
            while selector.get_map():
                assert time.monotonic() < begun + PATIENCE_S, (
                    f"{len(selector.get_map())} slow connections are still open"
                )
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
        assert uploaded.result(PATIENCE_S) == 204
        talk(page)  # the page's socket, quiet all the while, still runs its script
