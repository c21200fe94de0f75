"""How the body of a request is read: no longer than it may be, and no slower."""

import asyncio

from starlette.requests import Request

PATIENCE_S = 10.0
"""A form comes in one piece; who takes longer only holds a connection."""


async def body(request: Request, most: int) -> bytes | None:
    """Return a body of at most `most` bytes; None for a longer one, and for one that does not come in time."""
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    return None
    except TimeoutError:
        return None
    return bytes(found)
