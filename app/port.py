"""`python -m app.port 8501`: says in a sentence when a port is taken, before the console is started on it. Imports nothing of ours."""

import contextlib
import http.client
import socket
import sys


def complaint(port: int) -> str:
    """Return why the console can't be served on 127.0.0.1:`port`, empty where it can."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            who = "a console of Parallab: open it in the browser" if _is_ours(port) else f"another program ({error.strerror})"
            return f"Port {port} is taken by {who}. For a console of your own choose another port: make run PORT={port + 1}"
    return ""


def _is_ours(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return b'"parallab"' in connection.getresponse().read()
    return False


if __name__ == "__main__":
    sys.exit(complaint(int(sys.argv[1])) or 0)
