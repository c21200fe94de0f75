import asyncio
import gzip
import time

import pytest
from starlette.requests import Request

from app.bodies import KEPT, Bodies, Body


def asking(encodings: str) -> Request:
    return Request({"type": "http", "headers": [(b"accept-encoding", encodings.encode())]})


def test_all_who_ask_the_same_at_once_share_one_answer() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        time.sleep(0.05)
        return {"version": 7}

    async def everybody() -> list[Body]:
        bodies = Bodies()
        found = await asyncio.gather(*(bodies.get(("run", 1), make) for _ in range(20)))
        return [*found, await bodies.get(("run", 1), make)]

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

    async def ask() -> Body:
        bodies = Bodies()
        with pytest.raises(ValueError, match="not now"):
            await bodies.get("key", make)
        leaving = asyncio.ensure_future(bodies.get("key", make))
        staying = asyncio.ensure_future(bodies.get("key", make))
        await asyncio.sleep(0.01)
        leaving.cancel()
        return await staying

    assert asyncio.run(ask()).plain == b'"well"'
    assert len(made) == 2


def test_a_long_answer_is_sent_compressed_to_whoever_takes_that() -> None:
    long, short = Body.of(list(range(1_000))), Body.of([1])
    answer = long.answer(asking("gzip, br"))
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes(answer.body)) == long.answer(asking("identity")).body == long.plain
    assert "content-encoding" not in short.answer(asking("gzip")).headers
    assert answer.headers["cache-control"] == "no-store"


def test_only_the_newest_answers_are_kept() -> None:
    made: list[int] = []

    async def ask() -> None:
        bodies = Bodies()
        for key in [*range(KEPT + 1), KEPT, 0]:
            await bodies.get(key, lambda key=key: made.append(key))  # type: ignore[misc]

    asyncio.run(ask())
    assert made == [*range(KEPT + 1), 0]
