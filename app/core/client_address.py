"""The client address of a request: of the peer, or as forwarded by a proxy in front of the console.

uvicorn trusts `X-Forwarded-For` from loopback (or `FORWARDED_ALLOW_IPS`), whether a proxy or a local user connects.
So a console without a proxy trusts no header.
"""

import os
from collections.abc import Mapping

from starlette.requests import HTTPConnection

PEER = "parallab.peer"
"""Key of the peer's address in the state of a request."""
OF_A_PROXY = ("FORWARDED_ALLOW_IPS", "PARALLAB_HTTPS", "PARALLAB_HOSTS")
"""Settings of a console behind a proxy; without any of them it answers only to loopback names."""


def place(request: HTTPConnection, environment: Mapping[str, str] = os.environ) -> str:
    """Return the client address of a request; empty for a Unix socket."""
    peer = request.scope.get("state", {}).get(PEER)
    if peer and not any(environment.get(name) for name in OF_A_PROXY):
        return str(peer)
    return request.client.host if request.client else ""
