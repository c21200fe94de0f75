"""Tokens that scripts show: where they are taken, whom they stand for, and what is said to who shows none, a dead one,
or one of too small a scope.
"""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from app.core.base_path import inside
from app.core.caches import NEVER_STORE
from app.core.visitor import Visitor
from engine.store import Reader
from engine.store.access.sign_ins import key_of

API, METRICS = "/api/v1", "/metrics"
"""A token opens these and nothing else; pages and their routes take a browser's sign-in alone."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
REALM = 'Bearer realm="Parallab"'
NONE = (
    "Show a token (Authorization: Bearer plab_…), or sign in with a browser. A token is made by: python -m engine "
    "tokens make NAME --scope read"
)
DEAD = (
    "That token lets nobody in: it was never made here, was taken back, is too old, or its person is shut out. "
    "Another one: python -m engine tokens make NAME"
)
READS = (
    "This token has the scope read, and {method} takes one of the scope launch: python -m engine tokens make NAME "
    "--scope launch"
)
BROWSER = "A browser's sign-in reads here and changes nothing; show a token of the scope launch."
LONGEST = 200
"""Characters of a token that are looked at; ours are shorter."""


def takes_tokens(scope: Scope) -> bool:
    """Say whether a request goes to where tokens are taken."""
    path = inside(scope["path"])
    return scope["type"] == "http" and (path == METRICS or path.startswith(f"{API}/"))


def token_of(scope: Scope) -> str | None:
    """Return the token that a request shows where tokens are taken; None where it shows none, empty for an
    Authorization of another kind.
    """
    said = Headers(scope=scope).get("authorization")
    if said is None or not takes_tokens(scope):
        return None
    kind, _, token = said.partition(" ")
    return token.strip() if kind.lower() == "bearer" and len(token) <= LONGEST else ""


def visitor(reader: Reader, token: str) -> Visitor:
    """Return whom a token stands for at this moment; in a lab without accounts everyone is welcome. Raises StoreError
    where it has lost them.
    """
    reader.access.require_accounts()
    asked = reader.access.has_people()
    return Visitor(asked, reader.tokens.holder(token) if asked and token else None, key_of(token))


def refusal(scope: Scope, found: Visitor) -> Response | None:
    """Return why a request may not go on to where tokens are taken, None where it may."""
    if not found.welcome:
        shown = token_of(scope) is not None
        return _refuse(401, DEAD if shown else NONE, f'{REALM}, error="invalid_token"' if shown else REALM)
    if found.who is None or scope["method"] in SAFE or found.who.scope == "launch":
        return None
    said = BROWSER if found.who.scope is None else READS.format(method=scope["method"])
    return _refuse(403, said, f'{REALM}, error="insufficient_scope", scope="launch"')


def _refuse(status: int, sentence: str, challenge: str) -> Response:
    return JSONResponse({"error": sentence}, status, NEVER_STORE | {"www-authenticate": challenge})
