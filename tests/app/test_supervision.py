import socket

from app.sockets import send_at_once
from app.supervision import look
from engine.home import Home
from engine.runtime.runner import runner_process
from tests.browser.conftest import wait_until


def test_a_look_starts_a_runner_where_none_is_alive_and_only_there(home: Home) -> None:
    assert look(home)
    wait_until(lambda: runner_process(home) is not None, 20, "the runner is alive")
    assert not look(home)


def test_connections_to_a_listening_socket_send_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert send_at_once() >= 1
        with socket.create_connection(server.getsockname()), server.accept()[0] as answered:
            assert answered.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
