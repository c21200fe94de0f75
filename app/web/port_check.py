"""`python -m app.web.port_check`: health check of the console at the address of the environment; also checks whether a
port is free.

Imports no module of ours.
"""

import contextlib
import errno
import http.client
import os
import socket
import sys

WITHIN_S = 4.0
"""Timeout of the health check."""


def complaint(port: int, address: str = "127.0.0.1") -> str:
    """Return why the console can't listen on `port` of `address`, empty if it can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except OSError as error:
        if is_console(port, address):
            who = "a Parallab console: open it in the browser"
        elif error.errno != errno.EADDRINUSE:
            return f"Can't listen on port {port} of {address}: {error.strerror}. Choose another port or address."
        else:
            who = f"another program ({error.strerror})"
        return (
            f"Port {port} is in use by {who}. To start another console, choose another port: make run PORT={port + 1}"
        )
    return ""


def trouble(port: int, address: str = "127.0.0.1") -> str:
    """Return the problem with the console at this address, empty if it is healthy."""
    status, body = _health(port, address)
    if b'"parallab"' not in body:
        return f"No Parallab console responds on port {port} of {address}."
    return (
        ""
        if status == http.client.OK
        else f"The console responds with status {status}: {body.decode(errors='replace')[:500]}"
    )


def is_console(port: int, address: str = "127.0.0.1") -> bool:
    """Return whether a console of Parallab answers there."""
    return b'"parallab"' in _health(port, address)[1]


def _health(port: int, address: str) -> tuple[int, bytes]:
    """Return status and body of the health check; 0 and an empty body without an HTTP response."""
    connection = http.client.HTTPConnection(
        {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address), port, timeout=WITHIN_S
    )
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz", headers={"host": f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    return 0, b""


if __name__ == "__main__":
    sys.exit(
        trouble(int(os.environ.get("PARALLAB_PORT") or 8501), os.environ.get("PARALLAB_ADDRESS") or "127.0.0.1") or 0
    )
