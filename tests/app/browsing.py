"""A client that asks our routes as a browser on this machine would, without a socket between."""

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware

from app.auth.middleware import Gate, Guard
from app.web.routes import routes

BASE = "http://127.0.0.1:8501"


class Client:
    """Our routes behind the guard."""

    def __init__(self) -> None:
        self._app = Starlette(routes=routes(), middleware=[Middleware(Guard), Middleware(Gate)])

    def get(self, address: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("GET", address, options))

    def post(self, address: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("POST", address, options))

    def put(self, address: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("PUT", address, options))

    def delete(self, address: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("DELETE", address, options))

    async def _ask(self, method: str, address: str, options: dict[str, Any]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url=BASE) as client:
            return await client.request(method, address, **options)
