"""The gate fails shut: whatever has become of the store, nobody comes in whom it does not vouch for, and an open lab is
open to its own machine alone.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.auth import middleware
from app.auth.middleware import CLOSED, Gate, Guard
from app.core.console_address import FAR
from app.core.visitor import COOKIE
from app.web.routes import routes
from engine.access.rules import LOST
from engine.home import Home
from engine.store import Store
from engine.store.schema.migrations import steps
from tests.access.asgi import Browser, Ended
from tests.app.browsing import BASE

PAGE = {"accept": "text/html"}


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    with suppress(WebSocketDisconnect):
        while True:
            await socket.send_text(await socket.receive_text())


def _app() -> Starlette:
    async def page(request: object) -> object:
        raise AssertionError("a page was reached")

    ours = [Route("/", page), WebSocketRoute("/_stcore/stream", _echo), *routes()]
    return Starlette(routes=ours, middleware=[Middleware(Guard), Middleware(Gate)])


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser(_app()) as found:
        yield found


@pytest.fixture
def secret(home: Home) -> str:
    """Give the lab an account, and the secret of its sign-in."""
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="root")
        return store.sign_ins.begin("ada", "password")


def _garbage(database: Path) -> None:
    _away(database)
    database.write_bytes(b"not a database at all" * 400)


def _away(database: Path) -> None:
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def _newer(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'from_the_future', '')",
            [steps.name],
        )
    database.touch()


def _emptied(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM people")


BROKEN: dict[str, Callable[[Path], None]] = {"damaged": _garbage, "gone": _away, "without its people": _emptied}


@pytest.mark.parametrize("how", BROKEN)
def test_a_store_that_breaks_lets_nobody_in_and_ends_open_sockets(
    browser: Browser, secret: str, home: Home, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "AGAIN_S", (0.0, 0.05))
    cookie = {"cookie": f"{COOKIE}={secret}"}
    assert browser.get("/api/token", headers=cookie).status_code == 200
    with browser.socket(cookie) as socket:
        assert socket.say("one") == "one"
        BROKEN[how](home.database)
        with pytest.raises(Ended) as ended:
            socket.say("two")
        assert ended.value.code == 1008
    for headers in ({}, cookie, PAGE, cookie | PAGE):
        answer = browser.get("/", headers=headers)
        assert answer.status_code == 503
        assert (
            browser.post(
                "/signin", data={"name": "ada", "password": "x"}, headers=headers | {"origin": BASE}
            ).status_code
            == 503
        )
    assert how == "damaged" or LOST in unescape(answer.text)
    with pytest.raises(Ended), browser.socket(cookie):
        pass


def test_a_store_that_is_locked_or_of_a_newer_version_lets_nobody_in(browser: Browser, secret: str, home: Home) -> None:
    cookie = {"cookie": f"{COOKIE}={secret}"}
    holder = sqlite3.connect(home.database, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    assert browser.get("/api/token", headers=cookie).status_code == 503
    assert browser.get("/", headers=PAGE).status_code == 503
    holder.close()
    assert browser.get("/api/token", headers=cookie).status_code == 200
    _newer(home.database)
    with Browser(_app()) as again:
        answer = again.get("/", headers=cookie | PAGE)
        far = again.get("/", headers=cookie | PAGE | {"x-forwarded-for": "10.1.1.1"})
    assert answer.status_code == 503
    assert "from_the_future" in answer.text, "on its own machine the sentence says what is wrong"
    assert (far.status_code, str(home.path) in far.text) == (503, False)
    assert CLOSED in unescape(far.text)


@pytest.mark.parametrize("place", ["10.0.0.7", "192.168.1.5", "0.0.0.0", "2001:db8::1"])
def test_a_lab_without_accounts_answers_loopback_alone(home: Home, place: str) -> None:
    open_to_all = [Middleware(Guard, hosts=lambda: ["*"]), Middleware(Gate)]
    app = Starlette(routes=[WebSocketRoute("/_stcore/stream", _echo), *routes()], middleware=open_to_all)
    host = f"[{place}]" if ":" in place else place
    with Browser(app, f"http://{host}:8501") as far:
        assert [far.get(path).status_code for path in ("/", "/api/token", "/healthz", "/signin")] == [403] * 4
        assert far.get("/").json()["error"] == FAR
        with pytest.raises(Ended), far.socket():
            pass
    with Browser(app) as near:
        assert near.get("/api/token").status_code == 200
        for header in middleware.FORWARDED:
            assert near.get("/api/token", headers={header: "for=10.0.0.7"}).status_code == 403, (
                "a proxy's people are not on this machine"
            )


def test_the_first_account_shuts_the_door_on_sockets_that_are_open(browser: Browser, home: Home) -> None:
    with Store.open(home):
        pass
    with browser.socket() as socket:
        assert socket.say("one") == "one"
        with Store.open(home) as store:
            store.people.add("ada", "admin", by="root")
        with pytest.raises(Ended):
            socket.say("two")
    assert browser.get("/api/token").status_code == 401


@pytest.mark.parametrize("origin", ["http://localhost:8501", "http://127.0.0.1:9999", "https://evil.example", "null"])
def test_a_page_of_another_port_or_site_opens_no_socket(browser: Browser, secret: str, origin: str) -> None:
    cookie = {"cookie": f"{COOKIE}={secret}"}
    with pytest.raises(Ended), browser.socket(cookie | {"origin": origin}):
        pass
    with pytest.raises(Ended), browser.socket(cookie | {"host": "evil.example"}):
        pass
    with browser.socket(cookie | {"origin": BASE}) as socket:
        assert socket.say("one") == "one"
