import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from app.port import complaint


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers as the console's health route, or as anything else."""

    body = b"hello"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr("app.port.WITHIN_S", 60.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_free_port_is_no_reason_to_complain() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert complaint(port) == ""


def test_a_taken_port_is_told_with_the_next_one(served: int) -> None:
    assert f"Port {served} is taken by another program" in complaint(served)
    assert f"make run PORT={served + 1}" in complaint(served)


def test_a_second_console_is_sent_to_the_first(served: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answer, "body", b'{"console":"parallab"}')
    assert "a console of Parallab: open it in the browser" in complaint(served)
