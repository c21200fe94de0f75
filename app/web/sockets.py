"""The sockets that this server listens on: where they are, and that small answers leave at once.

Streamlit's listening socket waits with them for up to 40 ms (Nagle's algorithm beside delayed ACKs).
"""

import socket
from collections.abc import Iterator

import psutil


def send_at_once() -> int:
    """Turn that waiting off on every TCP socket this process listens on; connections inherit it. Return how many there
    were.
    """
    found = list(_listening())
    for family, descriptor, _ in found:
        with socket.fromfd(descriptor, family, socket.SOCK_STREAM) as twin:
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return len(found)


def listening() -> list[str]:
    """Return the addresses that this process listens on."""
    return [address for *_, address in _listening()]


def _listening() -> Iterator[tuple[int, int, str]]:
    for one in psutil.Process().net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.fd >= 0:
            yield one.family, one.fd, one.laddr.ip
