"""A lab with accounts, and how a browser signs in to it without a socket between."""

from http.cookies import SimpleCookie

import httpx

from app.core.visitor import COOKIE
from engine.home import Home
from engine.store import Store
from tests.app.browsing import BASE, Client

PASSWORD = "a fine long sentence"


def settle(home: Home, *names: str) -> None:
    """Give ada, the admin, and others, who are members, accounts with one password."""
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="root", password=PASSWORD)
        for name in names:
            store.people.add(name, "member", by="ada", password=PASSWORD)


def come_in(
    client: Client, name: str = "ada", password: str = PASSWORD, *, cookie: str = "", **headers: str
) -> httpx.Response:
    """Send the form as our own page does."""
    sent = {"origin": BASE} | ({"cookie": cookie} if cookie else {}) | headers
    return client.post("/signin", data={"name": name, "password": password, "next": "/runs"}, headers=sent)


def cookies_of(answer: httpx.Response) -> SimpleCookie:
    """Return what an answer sets."""
    found = SimpleCookie()
    for line in answer.headers.get_list("set-cookie"):
        found.load(line)
    return found


def secret_of(answer: httpx.Response) -> str:
    """Return the secret of a sign-in that was granted."""
    assert answer.status_code == 303, answer.text
    return cookies_of(answer)[COOKIE].value


def is_in(client: Client, secret: str) -> bool:
    """Say whether a browser with that secret is let in."""
    status = client.get("/api/token", headers={"cookie": f"{COOKIE}={secret}"}).status_code
    assert status in (200, 401)
    return status == 200
