"""`python -m app.web.port_check`: says whether a console answers where the environment has it serve, for health
checks; and why a port can't be served on.

Imports nothing of ours.
"""

import contextlib
import errno
import http.client
import os
import socket
import sys

WITHIN_S = 4.0
"""A console that takes longer to say how it is, does not answer."""


def complaint(port: int, address: str = "127.0.0.1") -> str:
    """Return why the console can't be served on `port` of `address`, empty where it can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except OSError as error:
        if _is_ours(port, address):
            who = "a console of Parallab: open it in the browser"
        elif error.errno != errno.EADDRINUSE:
            return f"Port {port} of {address} can't be served on: {error.strerror}. Choose another port or address."
        else:
            who = f"another program ({error.strerror})"
        return f"Port {port} is taken by {who}. For a console of your own choose another port: make run PORT={port + 1}"
    return ""


def trouble(port: int, address: str = "127.0.0.1") -> str:
    """Return what is wrong with the console that should answer there, empty where it answers and can read its store."""
    status, body = _health(port, address)
    if b'"parallab"' not in body:
        return f"No console of Parallab answers on port {port} of {address}."
    return (
        ""
        if status == http.client.OK
        else f"The console answers with status {status}: {body.decode(errors='replace')[:500]}"
    )


def _is_ours(port: int, address: str) -> bool:
    return b'"parallab"' in _health(port, address)[1]


def _health(port: int, address: str) -> tuple[int, bytes]:
    """Return status and body of the console's health; 0 and nothing where nobody answers in HTTP."""
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
