"""The path that the console stands under on its host: none, or one (`/lab`) that a proxy passes on as it is. Imports
nothing of ours.

Every address of ours that a browser is given goes through `at`; what a request asks for is told apart by `inside`.
"""

import os

VARIABLE = "PARALLAB_BASE"


def base() -> str:
    """Return the path, without a slash at its end; empty where the console has its host to itself."""
    given = os.environ.get(VARIABLE, "").strip("/")
    return f"/{given}" if given else ""


def at(path: str) -> str:
    """Return where a path of ours (`/run?run=5`) is for a browser."""
    return f"{base()}{path}"


def inside(path: str) -> str:
    """Return which path of ours a request asks for; one that lies outside is returned as it is."""
    under = base()
    if not under or not (path == under or path.startswith(f"{under}/")):
        return path
    return path.removeprefix(under) or "/"


def cookie_path() -> str:
    """Return which paths of the host get our cookies: no other program's that shares the host."""
    return base() or "/"
