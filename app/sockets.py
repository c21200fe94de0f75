"""Lets small answers leave at once: Streamlit's listening socket waits with them for up to 40 ms (Nagle's algorithm beside delayed ACKs)."""

import socket

import psutil


def send_at_once() -> int:
    """Turn that waiting off on every TCP socket this process listens on; connections inherit it. Return how many there were."""
    listening = [one for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN and one.fd >= 0]
    for one in listening:
        with socket.fromfd(one.fd, one.family, socket.SOCK_STREAM) as twin:
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return len(listening)
