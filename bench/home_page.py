"""How fast the Home page answers on a store of 10,000 runs, and what a hundred open ones cost the console's server.

The page's script is run as the server runs it, anew each time, and once after a run has ended, when the best results
are reckoned anew. Those who have it open ask as pulse.js does; the runner's samples of the machine are news to all of
them. Run: python -m bench.home_page [--runs 10000] [--people 100]
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
from streamlit.testing.v1 import AppTest

from app.home import summary
from app.ui.components import HOME_MS
from bench.first_loss import console
from bench.measuring import save
from bench.poll_cost import server_of
from bench.store_size import fill, timed
from engine.home import ROOT, Home
from engine.store import Demand, Reader, Store
from engine.system.processes import me

REPEATS = 7
WATCHED_S = 30.0


def page(home: Home) -> dict[str, dict[str, int]]:
    """Return what the page's script takes in milliseconds for a person who comes again, and after a run has ended."""
    test = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60)
    test.session_state["person"] = "person3"
    found = {"first": _run(test)}
    again = [_run(test) for _ in range(REPEATS)]
    after = []
    for _ in range(REPEATS):
        end_one(home)
        after.append(_run(test))
    return found | {"again": _median(again), "after_a_run_ended": _median(after)}


def _run(test: AppTest) -> dict[str, int]:
    start, worked = time.perf_counter(), time.process_time()
    test.run()
    took = {"ms": round((time.perf_counter() - start) * 1000), "cpu": round((time.process_time() - worked) * 1000)}
    assert not test.exception and test.title[0].value == "Home"
    return took


def _median(found: list[dict[str, int]]) -> dict[str, int]:
    return {name: round(median(each[name] for each in found)) for name in ("ms", "cpu")}


def end_one(home: Home) -> None:
    """Let one more run end."""
    with Store.open(home) as store:
        run_id = store.runs.add("hogwild", {"trainers": 2, "seed": 1}, owner="person3", demand=Demand(2, 0, 2, 1))
        store.claims.claim(run_id, me(), ())
        store.worker.begin(run_id, me(), {})
        store.worker.mark_running(run_id, 0.5)
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=1.0)


async def watch(address: str, people: int) -> float:
    """Have people keep the page open; return how often a second all of them asked."""
    end = time.monotonic() + WATCHED_S

    async def one(client: httpx.AsyncClient, number: int) -> int:
        asked, version = 0, 0
        await asyncio.sleep(HOME_MS / 1000 * number / people)
        while time.monotonic() < end:
            answer = await client.get(
                f"{address}/api/home",
                params={"since": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z", "version": version},
            )
            version, asked = answer.json()["version"], asked + 1
            await asyncio.sleep(HOME_MS / 1000)
        return asked

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=people), timeout=30) as client:
        return sum(await asyncio.gather(*(one(client, number) for number in range(people)))) / WATCHED_S


def crowd(home: Home, people: int) -> dict[str, float]:
    """Return what people who have the page open cost the server, in shares of a core."""
    with console(home) as address:
        server = server_of(address)
        time.sleep(5)
        before = sum(server.cpu_times()[:2])
        asked = asyncio.run(watch(address, people))
        return {
            "people": people,
            "asked_a_second": round(asked, 1),
            "cores": round((sum(server.cpu_times()[:2]) - before) / WATCHED_S, 3),
        }


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--people", type=int, default=100)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        os.environ["PARALLAB_HOME"] = str(home.path)
        fill(home, asked.runs, 40 * asked.runs, long=1_000)
        with Store.open(home) as store, Reader.open(home) as reader:
            store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            since = reader.visits.new_since()
        figures = {
            "runs": asked.runs,
            "page_ms": page(home),
            "made_for_all_ms": timed(lambda: summary.standing(home, since)),
            "open": crowd(home, asked.people),
        }
    save("home_page", figures)


if __name__ == "__main__":
    main()
