"""Under whose name a request changes something: that of its token, or in a lab without accounts the one that it gives.
The gate let it in before.
"""

from starlette.requests import Request

from app.auth.middleware import VISITOR
from app.core.visitor import Visitor
from engine.errors import ConfigError, Problem
from engine.store.access.people import checked_name


def visitor(request: Request) -> Visitor:
    """Return who stands before the API, as the gate found them."""
    found: Visitor = request.scope[VISITOR]
    return found


def acting(request: Request, owner: str | None) -> str:
    """Return the name that a change is made under; raises ConfigError where the request gives none, or another one than
    its token's.
    """
    who = visitor(request).who
    if who is None:
        if owner is None:
            raise ConfigError(
                [Problem("owner", "This lab has no accounts, so a change needs a name: give yours as owner.")]
            )
        return checked_name(owner)
    if owner is not None and owner != who.name:
        raise ConfigError([Problem("owner", f"The token is {who.name}'s, so owner can't be '{owner}'. Leave it out.")])
    return who.name
