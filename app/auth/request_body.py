"""Read a request's body, with limits on length and time."""

import asyncio

from starlette.requests import Request

PATIENCE_S = 10.0
"""A form arrives in one piece; slower clients only hold a connection."""


async def body(request: Request, most: int) -> bytes | None:
    """Return a body of at most `most` bytes; None for a longer or late one."""
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
