"""Polled routes: their short way, how a late console slows pages down, and the caches behind them."""

import asyncio
import gzip
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.core.caches import KEPT, CachedBody, ResponseCache, VersionedCache
from app.ui.components import rest_ms
from app.web import polling
from app.web.polling import MOST_LOAD, SLOWER, USUAL_S, Backpressure, PollingRoutes
from app.web.routes import polled_routes
from engine.home import Home
from engine.store import Store
from tests.app.browsing import BASE
from tests.labs import basic

LOOK_S = 0.05
FURTHER = "what stands behind"


def asked(method: str, address: str, backpressure: Backpressure | None = None) -> httpx.Response:
    """Ask the polled routes, with an app behind them that answers all else with one text."""
    everything = Route("/{path:path}", lambda _: PlainTextResponse(FURTHER), methods=["GET", "POST"])
    polled = Middleware(PollingRoutes, routes=polled_routes(), backpressure=backpressure or Backpressure())
    app = Starlette(routes=[everything], middleware=[polled])

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
            return await client.request(method, address)

    return asyncio.run(ask())


@pytest.fixture
def live(home: Home) -> None:
    """Give the home one run, which is on."""
    with Store.open(home) as store:
        basic.drive(store, home, basic.add(store, "Ada"), "running")


@pytest.mark.parametrize(
    "address", ["token", "token?run=1", "series?run=1", "standing?run=1&section=", "home?since=2026-01-01T00:00:00Z"]
)
@pytest.mark.usefixtures("live")
def test_a_polled_route_is_answered_before_streamlits_middleware(address: str) -> None:
    answer = asked("GET", f"/api/{address}")
    assert (answer.status_code, answer.headers["content-type"], answer.headers["cache-control"]) == (
        200,
        "application/json",
        "no-store",
    )
    assert SLOWER not in answer.headers


@pytest.mark.parametrize(
    ("method", "address"),
    [("POST", "/api/token"), ("GET", "/api/token/"), ("GET", "/api/tokens"), ("GET", "/api/log"), ("GET", "/")],
)
def test_all_else_goes_on(home: Home, method: str, address: str) -> None:
    assert asked(method, address).text == FURTHER


@pytest.mark.usefixtures("live")
def test_an_error_is_a_sentence_and_a_late_console_asks_pages_to_wait(home: Home) -> None:
    Store.open(home).close()
    answer = asked("GET", "/api/series?run=99")
    assert answer.status_code == 404
    assert "Run 99 doesn't exist" in answer.json()["error"]
    backpressure = Backpressure()
    for _ in range(200):
        backpressure.note(3 * USUAL_S)
    assert asked("GET", "/api/token", backpressure).headers[SLOWER] == "3"
    for _ in range(200):
        backpressure.note(100.0)
    assert asked("GET", "/api/token", backpressure).headers[SLOWER] == f"{MOST_LOAD:g}"
    for _ in range(400):
        backpressure.note(-0.001)
    assert SLOWER not in asked("GET", "/api/token", backpressure).headers
    backpressure = Backpressure()
    backpressure.note(0.8)
    assert backpressure.slower == 1.0


def test_a_loop_that_is_held_up_is_seen_to_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LOOK_S", LOOK_S)
    backpressure = Backpressure()

    async def held_up() -> None:
        looks = asyncio.create_task(backpressure.keep())
        for _ in range(3):
            await asyncio.sleep(LOOK_S / 2)
            time.sleep(2 * LOOK_S)
        await asyncio.sleep(0)
        looks.cancel()

    asyncio.run(held_up())
    assert backpressure.late_s > LOOK_S / 20


def asking(encodings: str) -> Request:
    return Request({"type": "http", "headers": [(b"accept-encoding", encodings.encode())]})


def test_all_who_ask_the_same_at_once_share_one_answer() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        time.sleep(0.05)
        return {"version": 7}

    async def everybody() -> list[CachedBody]:
        responses = ResponseCache()
        found = await asyncio.gather(*(responses.get(("run", 1), make) for _ in range(20)))
        return [*found, await responses.get(("run", 1), make)]

    found = asyncio.run(everybody())
    assert {body.plain for body in found} == {b'{"version":7}'}
    assert len(made) == 1


def test_an_answer_that_failed_is_made_anew_and_one_asker_who_leaves_takes_nothing_from_the_others() -> None:
    made: list[int] = []

    def make() -> str:
        time.sleep(0.05)
        made.append(1)
        if len(made) == 1:
            raise ValueError("not now")
        return "well"

    async def ask() -> CachedBody:
        responses = ResponseCache()
        with pytest.raises(ValueError, match="not now"):
            await responses.get("key", make)
        leaving = asyncio.ensure_future(responses.get("key", make))
        staying = asyncio.ensure_future(responses.get("key", make))
        await asyncio.sleep(0.01)
        leaving.cancel()
        return await staying

    assert asyncio.run(ask()).plain == b'"well"'
    assert len(made) == 2


def test_long_answers_are_compressed_and_only_the_newest_are_kept() -> None:
    long, short = CachedBody.of(list(range(1_000))), CachedBody.of([1])
    answer = long.response(asking("gzip, br"))
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes(answer.body)) == long.response(asking("identity")).body == long.plain
    assert "content-encoding" not in short.response(asking("gzip")).headers
    assert answer.headers["cache-control"] == "no-store"
    made: list[int] = []

    async def ask() -> None:
        responses = ResponseCache()
        for key in [*range(KEPT + 1), KEPT, 0]:
            await responses.get(key, lambda key=key: made.append(key))  # type: ignore[misc]

    asyncio.run(ask())
    assert made == [*range(KEPT + 1), 0]


def test_a_version_of_a_value_is_made_once_for_all_threads_and_the_oldest_names_are_dropped() -> None:
    made: list[int] = []

    def make() -> int:
        time.sleep(0.01)
        made.append(1)
        return len(made)

    kept: VersionedCache[int] = VersionedCache(most=2)
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: kept.get("a", 1, make), range(20))) == {1}
    asked = [("a", 1), ("a", 2), ("b", 1), ("a", 2), ("a", 1)]
    assert [kept.get(*each, make) for each in asked] == [1, 2, 3, 2, 4], "a version that comes back is made anew"
    kept.get("c", 1, make)
    assert kept.get("b", 1, make) == 6, "b was the oldest of three"
    with pytest.raises(ZeroDivisionError):
        kept.get("d", 1, lambda: 1 // 0)
    assert kept.get("d", 1, make) == 7


@pytest.mark.parametrize(("took_s", "rests_ms"), [(0.0, 5_000), (0.1, 5_000), (0.2, 10_000), (5.0, 30_000)])
def test_a_view_that_takes_long_to_draw_rests_longer_within_bounds(took_s: float, rests_ms: int) -> None:
    assert rest_ms(took_s) == rests_ms
