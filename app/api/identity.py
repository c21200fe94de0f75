"""The name that a change is made under: the token's person, or in a lab without accounts the name in the request."""

from starlette.requests import Request

from app.auth.middleware import VISITOR
from app.core.visitor import Visitor
from engine.errors import ConfigError, Problem
from engine.store.access.people import checked_name


def visitor(request: Request) -> Visitor:
    """Return the visitor of a request, as authenticated by the middleware."""
    found: Visitor = request.scope[VISITOR]
    return found


def acting(request: Request, owner: str | None) -> str:
    """Return the name that a change is made under; raises ConfigError for a missing name, or one other than the token's
    person.
    """
    who = visitor(request).who
    if who is None:
        if owner is None:
            raise ConfigError(
                [Problem("owner", "owner is required for changes in a lab without accounts. Set it to your name.")]
            )
        return checked_name(owner)
    if owner is not None and owner != who.name:
        raise ConfigError([Problem("owner", f"owner must be the token's person ({who.name}); got '{owner}'. Omit it.")])
    return who.name
