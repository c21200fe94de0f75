"""Where a request comes from: the address of whoever connected, or what a proxy before the console says, where there is
one.

uvicorn believes `X-Forwarded-For` of loopback (or of `FORWARDED_ALLOW_IPS`), whether a proxy or a user of this machine
connects. So a console that is set up for no proxy believes nobody.
"""

import os
from collections.abc import Mapping

from starlette.requests import HTTPConnection

PEER = "parallab.peer"
"""Under what a connection keeps the address of whoever connected, in the state of its requests."""
OF_A_PROXY = ("FORWARDED_ALLOW_IPS", "PARALLAB_HTTPS", "PARALLAB_HOSTS")
"""Settings of a console that people reach through a proxy; without one of them it answers to the names of loopback
alone.
"""


def place(request: HTTPConnection, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address that a request comes from; empty where it has none (a socket file)."""
    peer = request.scope.get("state", {}).get(PEER)
    if peer and not any(environment.get(name) for name in OF_A_PROXY):
        return str(peer)
    return request.client.host if request.client else ""
