"""Limit the size of request bodies: refuse a declared size above the limit unread, and stop reading at the limit
otherwise.
"""

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import refusal

TOO_LONG = 413


class ShortBodies:
    """ASGI middleware that refuses bodies of more than `most` bytes."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most
        self.sentence = f"The request body must be at most {most // 1024} KB."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared[:18]) > self.most:
            await refusal(TOO_LONG, self.sentence)(scope, receive, send)
            return
        heard = 0

        async def counted() -> Message:
            nonlocal heard
            message = await receive()
            heard += len(message.get("body", b""))
            if heard > self.most:
                raise HTTPException(TOO_LONG, self.sentence)
            return message

        await self.app(scope, counted, send)
