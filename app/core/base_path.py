"""The console's base path on its host: none, or one (`/lab`) that a proxy forwards unchanged. Standard library only.

`at` makes every address that is sent to a browser; `inside` reads the path of a request.
"""

import os

VARIABLE = "PARALLAB_BASE"


def base() -> str:
    """Return the base path without trailing slash; empty if the console has no base path."""
    given = os.environ.get(VARIABLE, "").strip("/")
    return f"/{given}" if given else ""


def at(path: str) -> str:
    """Return the address of a console path (`/run?run=5`) for a browser."""
    return f"{base()}{path}"


def inside(path: str) -> str:
    """Return a request's path without the base path; one outside the base path is returned unchanged."""
    under = base()
    if not under or not (path == under or path.startswith(f"{under}/")):
        return path
    return path.removeprefix(under) or "/"


def cookie_path() -> str:
    """Return the path attribute of our cookies, so that other programs on the host don't get them."""
    return base() or "/"
