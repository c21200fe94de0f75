import asyncio
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.often import SLOWER, Often
from app.pace import LOOK_S, MOST, USUAL_S, Pace
from app.routes import often_asked
from engine.home import Home
from engine.store import Store
from tests.app import labs
from tests.app.browsing import BASE

FURTHER = "what stands behind"


def asked(method: str, address: str, pace: Pace | None = None) -> httpx.Response:
    """Ask the routes that are asked often, with an app behind them that answers all else with one text."""
    everything = Route("/{path:path}", lambda _: PlainTextResponse(FURTHER), methods=["GET", "POST"])
    app = Starlette(routes=[everything], middleware=[Middleware(Often, routes=often_asked(), pace=pace or Pace())])

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
            return await client.request(method, address)

    return asyncio.run(ask())


@pytest.fixture
def live(home: Home) -> None:
    """Give the home one run, which is on."""
    with Store.open(home) as store:
        labs.drive(store, home, labs.add(store, "Ada"), "running")


@pytest.mark.parametrize("address", ["token", "token?run=1", "series?run=1", "standing?run=1&section=", "home?since=2026-01-01T00:00:00Z"])
@pytest.mark.usefixtures("live")
def test_what_is_asked_often_is_answered_before_all_that_stands_behind(address: str) -> None:
    answer = asked("GET", f"/api/{address}")
    assert (answer.status_code, answer.headers["content-type"], answer.headers["cache-control"]) == (200, "application/json", "no-store")
    assert SLOWER not in answer.headers


@pytest.mark.parametrize(("method", "address"), [("POST", "/api/token"), ("GET", "/api/token/"), ("GET", "/api/tokens"), ("GET", "/api/log"), ("GET", "/")])
def test_all_else_goes_on(home: Home, method: str, address: str) -> None:
    assert asked(method, address).text == FURTHER


def test_an_error_is_the_sentence_that_the_route_has_for_it(home: Home) -> None:
    Store.open(home).close()
    answer = asked("GET", "/api/series?run=99")
    assert answer.status_code == 404
    assert "No run has the id 99" in answer.json()["error"]


@pytest.mark.usefixtures("live")
def test_a_console_that_is_late_asks_pages_to_wait_and_takes_it_back() -> None:
    pace = Pace()
    for _ in range(200):
        pace.note(3 * USUAL_S)
    assert asked("GET", "/api/token", pace).headers[SLOWER] == "3"
    for _ in range(200):
        pace.note(100.0)
    assert asked("GET", "/api/token", pace).headers[SLOWER] == f"{MOST:g}"
    for _ in range(400):
        pace.note(-0.001)
    assert SLOWER not in asked("GET", "/api/token", pace).headers


def test_one_late_moment_is_no_reason_to_wait() -> None:
    pace = Pace()
    pace.note(0.8)
    assert pace.slower == 1.0


def test_a_loop_that_is_held_up_is_seen_to_be_late() -> None:
    pace = Pace()

    async def held_up() -> None:
        looks = asyncio.create_task(pace.keep())
        for _ in range(3):
            await asyncio.sleep(LOOK_S / 2)
            time.sleep(2 * LOOK_S)
        await asyncio.sleep(0)
        looks.cancel()

    asyncio.run(held_up())
    assert pace.late_s > LOOK_S / 20
