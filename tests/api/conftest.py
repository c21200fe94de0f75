"""What the API's tests share: a filled lab, its people with their tokens, and a client that asks as a script on this
machine would.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from engine.access.rules import Program, Role
from engine.commands.accounts import sign_in
from engine.home import Home
from engine.store import Store
from engine.store.access.sign_ins import Scope
from engine.store.records import Status
from tests.app.browsing import Client
from tests.labs import basic

PEOPLE: dict[str, Role] = {"ada": "admin", "mo": "member", "mia": "member", "vera": "viewer"}
PASSWORD = "seven brown foxes"
API = "/api/v1"
ONE = Client()
"""For scripts of one thread: a client of our routes, whose gate keeps the store open, and opens that of the next test
by itself.
"""


@dataclass
class Script:
    """One script with its token, or none."""

    token: str = ""
    cookies: dict[str, str] = field(default_factory=dict)
    client: Client = field(default_factory=lambda: ONE)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.client.get(API + path, params=query or None, headers=self._headers())

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        headers = self._headers() | options.pop("headers", {})
        return self.client.post(API + path, headers=headers, **({"json": body} if body is not None else {}), **options)

    def put(self, path: str, content: bytes, **query: Any) -> httpx.Response:
        return self.client.put(API + path, params=query or None, headers=self._headers(), content=content)

    def delete(self, path: str, **query: Any) -> httpx.Response:
        return self.client.delete(API + path, params=query or None, headers=self._headers())

    def told(self, path: str, **query: Any) -> Any:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _headers(self) -> dict[str, str]:
        shown = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return shown | (
            {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        )


@dataclass
class Lab:
    """A lab with a run in each status."""

    home: Home
    runs: dict[Status, int]

    @contextmanager
    def store(self) -> Iterator[Store]:
        with Store.open(self.home) as opened:
            yield opened

    def token(self, person: str, scope: Scope) -> str:
        with self.store() as store:
            return store.tokens.make(person, "a script", scope, by=Program("first"))

    def script(self, person: str, scope: Scope) -> Script:
        return Script(self.token(person, scope))

    def browser(self, person: str) -> Script:
        with self.store() as store:
            store.people.set_password(person, PASSWORD, by=Program("first"))
        return Script(cookies={"parallab_session": sign_in(self.home, person, PASSWORD)})


@pytest.fixture
def open_lab(home: Home) -> Lab:
    """Give a filled lab without accounts."""
    return Lab(home, basic.filled(home))


@pytest.fixture
def lab(open_lab: Lab) -> Lab:
    """Give the same lab with accounts."""
    with open_lab.store() as store:
        for name, role in PEOPLE.items():
            store.people.add(name, role, by=Program("first"), email=f"{name}@lab.example")
    return open_lab


@pytest.fixture
def script() -> Script:
    """Give a script without a token."""
    return Script()
