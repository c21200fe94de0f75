"""Bearer tokens of scripts: accepted paths, the token's owner, and the errors for a missing, invalid or insufficient
token.
"""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from app.core.assets import inside
from app.core.caches import NEVER_STORE
from app.core.visitor import Visitor
from engine.access.agents import HEADER, ActingAgent
from engine.store import Reader
from engine.store.access.sign_ins import key_of

API, METRICS = "/api/v1", "/metrics"
"""Tokens are accepted only here; pages and their routes require a browser's sign-in."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
REALM = 'Bearer realm="Parallab"'
NONE = (
    "Authentication required: send a token (Authorization: Bearer plab_…) or sign in with a browser. Create a token "
    "with: python -m engine tokens make NAME --scope read"
)
DEAD = (
    "Invalid token: it is unknown, revoked or expired, or its account is disabled. Create a new one with: "
    "python -m engine tokens make NAME"
)
READS = (
    "Insufficient scope: {method} requires a token with scope launch; got scope read. Create one with: "
    "python -m engine tokens make NAME --scope launch"
)
BROWSER = "A browser's sign-in is read-only for the API. Send a token with scope launch."
LONGEST_AGENT = 60
LONGEST = 200
"""Maximum length of an accepted token, in characters."""


def takes_tokens(scope: Scope) -> bool:
    """Say whether a request goes to a path that accepts tokens."""
    path = inside(scope["path"])
    return scope["type"] == "http" and (path == METRICS or path.startswith(f"{API}/"))


def token_of(scope: Scope) -> str | None:
    """Return a request's bearer token; None without one or where tokens aren't accepted, empty for another scheme."""
    header = Headers(scope=scope).get("authorization")
    if header is None or not takes_tokens(scope):
        return None
    kind, _, token = header.partition(" ")
    return token.strip() if kind.lower() == "bearer" and len(token) <= LONGEST else ""


def visitor(reader: Reader, token: str) -> Visitor:
    """Return the token's owner; in a lab without accounts every visitor is welcome. Raises StoreError where the account
    database is missing.
    """
    reader.access.require_accounts()
    asked = reader.access.has_people()
    return Visitor(asked, reader.tokens.holder(token) if asked and token else None, key_of(token))


def agent_of(scope: Scope, found: Visitor) -> ActingAgent | None:
    """Return the agent that sends a request: that of its token, or in a lab without accounts the one it names."""
    if found.who is not None or found.asked or not takes_tokens(scope):
        return found.who.agent if found.who else None
    named = " ".join(Headers(scope=scope).get(HEADER, "").split())[:LONGEST_AGENT]
    return ActingAgent(named) if named.isprintable() and named else None


def refusal(scope: Scope, found: Visitor) -> Response | None:
    """Return the error response of a request to a token path; None if it is allowed."""
    if not found.welcome:
        shown = token_of(scope) is not None
        return _refuse(401, DEAD if shown else NONE, f'{REALM}, error="invalid_token"' if shown else REALM)
    if found.who is None or scope["method"] in SAFE or found.who.scope in ("launch", "agent"):
        return None
    sentence = BROWSER if found.who.scope is None else READS.format(method=scope["method"])
    return _refuse(403, sentence, f'{REALM}, error="insufficient_scope", scope="launch"')


def _refuse(status: int, sentence: str, challenge: str) -> Response:
    return JSONResponse({"error": sentence}, status, NEVER_STORE | {"www-authenticate": challenge})
