"""A hundred people watch one live run: what that takes of the console's server, and how long after its commit each of
them holds a point.

One asyncio process holds the watchers (bench/watching.py), each a session of the run's page with the questions that the
page's scripts ask; one real Chromium is on the same page. A thread looks into the store every 20 ms: a point's lag
counts from the last look that did not find it. Trainers sleep in each step, so that the run leaves cores for the
console. Run: python -m bench.watchers [--minutes 30] [--watchers 100]
"""

import argparse
import asyncio
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from bench.measuring import CHROMIUM, chromium, console, save, server_of, wait_until, wait_warm
from bench.watching import Watcher
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader, Store

LOOK_S = 0.02
SETTINGS = {"epochs": 1_000, "sleep_ms": 50, "evaluate_every": 25, "transport": "shared_memory"}
"""Two trainers of 20 steps a second each: 40 and more points a second, for 38 minutes. Over RPC each rank would keep a
core busy with asking for messages, asleep or not (docs/decisions/small-messages.md).
"""
JOIN_S = 20.0
"""Watchers open the page one after the other over so long a time."""
SETTLE_S = 12.0
"""Each asks more often in its first ten seconds; figures are of what comes after all have joined and settled."""
LEAST = 5
"""Commits of points, and of versions, that figures are of: on a busy machine the time goes on until they are there."""
START_S = 240.0
"""So long the run, the browser and the end may take on a machine that has other work; it is not what is measured."""
CATCH_UP_S = 20.0
"""What was committed before the end has to be held so soon after it; what is not counts as never held."""


SPY = """() => {
  window.seen = [];
  let newest = 0;
  const plain = window.fetch;
  window.fetch = async (...asked) => {
    const answer = await plain(...asked);
    if (String(asked[0]).includes('api/series')) answer.clone().json().then((news) => { newest = news.last_id ?? newest; });
    return answer;
  };
  const plot = document.querySelector("[data-metric='train/loss']");
  plot.on('plotly_afterplot', () => { if (newest && window.seen.at(-1)?.[1] !== newest) window.seen.push([Date.now() / 1000, newest]); });
}"""  # noqa: E501


class Commits(threading.Thread):
    """Notes between which two looks each batch of points and each version of a run was committed, until told to stop;
    the earlier look counts.
    """

    def __init__(self, home: Home, run_id: int) -> None:
        super().__init__(daemon=True)
        self.home, self.run_id = home, run_id
        self.points: list[tuple[int, float]] = []
        """(highest point id, the last moment at which it was not yet there)."""
        self.versions: list[tuple[int, float]] = []
        self.looks: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Look at the run until told to stop."""
        with Reader.open(self.home) as reader:
            while not self.over.wait(LOOK_S):
                self.looks.append(time.time())
                version, last_id = reader.db.rows(
                    "SELECT version, last_point_id FROM runs WHERE id = ?", [self.run_id]
                )[0]
                for noted, found in ((self.points, last_id), (self.versions, version)):
                    if not noted or found > noted[-1][0]:
                        noted.append((found, self.looks[-2:][0]))


class Crowd(threading.Thread):
    """The watchers, in an event loop of their own."""

    def __init__(self, address: str, run_id: int, count: int, join_s: float) -> None:
        super().__init__(daemon=True)
        self.watchers = [Watcher(address, run_id) for _ in range(count)]
        self.join_s = join_s
        self._loop = asyncio.new_event_loop()
        self._all: asyncio.Task[None] | None = None

    def run(self) -> None:
        """Watch until `leave`."""
        self._all = self._loop.create_task(self._watch())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all)
        self._loop.close()

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for watcher in self.watchers:
                tasks.create_task(watcher.watch())
                await asyncio.sleep(self.join_s / len(self.watchers))

    def reruns(self) -> int:
        """Return how many script runs the server has made for them."""
        return sum(watcher.reruns for watcher in self.watchers)

    def holds(self, last_id: int, version: int) -> bool:
        """Say whether every watcher holds the points up to an id, and knows a version of the run."""
        seen = [(watcher.points[-1:], watcher.versions[-1:]) for watcher in self.watchers]
        return all(
            points and points[0][1] >= last_id and versions and versions[0][1] >= version for points, versions in seen
        )

    def leave(self) -> None:
        """Close every page."""
        if self._all:
            self._loop.call_soon_threadsafe(self._all.cancel)
        self.join(30)


def lags(
    commits: Sequence[tuple[int, float]], held: Sequence[tuple[float, int]], start: float, end: float
) -> list[float]:
    """Return for each batch committed in [start, end] the seconds until it was held; infinite where it never was."""
    ids = [last_id for _, last_id in held]
    found = []
    for last_id, at in commits:
        if start <= at <= end:
            place = bisect_left(ids, last_id)
            found.append(held[place][0] - at if place < len(held) else float("inf"))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, p95, p99 and maximum of seconds."""
    cuts = quantiles(values, n=100, method="inclusive")
    return {
        "median": round(median(values), 3),
        "p95": round(cuts[94], 3),
        "p99": round(cuts[98], 3),
        "max": round(max(values), 3),
        "of": len(values),
    }


@contextmanager
def browser_on(address: str, run_id: int) -> Iterator[Page]:
    """Open the run's page in a real browser, which notes in `window.seen` when it drew up to which point."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), headless=True, args=CHROMIUM
        )
        context.set_default_timeout(START_S * 1000)
        page = context.pages[0]
        page.goto(f"{address}/run?run={run_id}")
        page.locator("[data-metric='train/loss'] .nsewdrag").wait_for()
        page.evaluate(SPY)
        yield page
        context.close()


@contextmanager
def live_run(home: Home) -> Iterator[int]:
    """Yield a run that records; it is cancelled, and has ended, after the block."""
    wait_warm(home)
    found = experiment("async_sgd")
    run_id = launch(
        home,
        Launch(found.name, found.configure("quick", SETTINGS).model_dump(mode="json"), "bench", "quick"),
        timeout_s=30,
    )

    def holds(true: Callable[[Reader], bool]) -> Callable[[], bool]:
        def asked() -> bool:
            with Reader.open(home) as reader:
                return true(reader)

        return asked

    try:
        wait_until(
            holds(lambda reader: any(row.count > 20 for row in reader.details.summaries(run_id))),
            START_S,
            "the run's first points",
        )
        yield run_id
    finally:
        with Store.open(home) as store:
            store.runs.cancel(run_id, by="bench")
        wait_until(holds(lambda reader: not reader.runs.one(run_id).active), START_S, "the run's end")


def watch(
    home: Home, address: str, *, watchers: int, seconds: float, join_s: float = JOIN_S, settle_s: float = SETTLE_S
) -> dict[str, Any]:
    """Return what `watchers` and a browser on a live run of the console at `address` take and see over so
    many seconds.
    """
    with live_run(home) as run_id, browser_on(address, run_id) as page:
        commits, crowd, server = Commits(home, run_id), Crowd(address, run_id, watchers, join_s), server_of(address)
        commits.start()
        crowd.start()
        page.wait_for_timeout((join_s + settle_s) * 1000)
        reruns = crowd.reruns()
        start = time.time()
        used = sum(server.cpu_times()[:2])
        page.wait_for_timeout(seconds * 1000)
        cores = (sum(server.cpu_times()[:2]) - used) / (time.time() - start)
        wait_until(
            lambda: all(sum(at > start for _, at in noted) >= LEAST for noted in (commits.points, commits.versions)),
            START_S,
            "enough commits",
        )
        stop = time.time()
        wait_until(
            lambda: commits.looks[-2] > stop, CATCH_UP_S, "a look after the end"
        )  # what the first one finds counts as committed before
        newest = commits.points[-1][0], commits.versions[-1][0]
        reruns = crowd.reruns() - reruns
        with suppress(TimeoutError):
            wait_until(lambda: crowd.holds(*newest), CATCH_UP_S, "every watcher to hold the last points")
        with suppress(PlaywrightTimeout):
            page.wait_for_function(f"() => window.seen.at(-1)?.[1] >= {newest[0]}", timeout=CATCH_UP_S * 1000)
        seen = [(float(at), int(last_id)) for at, last_id in page.evaluate("window.seen")]
        crowd.leave()
        commits.over.set()
        memory_mb = server.memory_info().rss / 1e6
    each = [lags(commits.points, watcher.points, start, stop) for watcher in crowd.watchers]
    heard = [lags(commits.versions, watcher.versions, start, stop) for watcher in crowd.watchers]
    return {
        "watchers": watchers,
        "seconds": round(stop - start),
        "points_per_second": round(
            (commits.points[-1][0] - commits.points[0][0]) / (commits.points[-1][1] - commits.points[0][1]), 1
        ),
        "commits_per_second": round(len(commits.versions) / (commits.versions[-1][1] - commits.versions[0][1]), 2),
        "server_cores": round(cores, 3),
        "server_memory_mb": round(memory_mb),
        "script_runs_per_second": round(reruns / (stop - start), 2),
        "lag_s": spread([value for values in each for value in values]),
        "worst_lag_of_each_watcher_s": spread([max(values) for values in each]),
        "lag_of_status_and_numbers_s": spread([value for values in heard for value in values]),
        "browser_draws_after_s": spread(lags(commits.points, seen, start, stop)),
        "errors": sorted({error for watcher in crowd.watchers for error in watcher.errors}),
    }


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--watchers", type=int, default=100)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with console(home) as address:
            figures = watch(home, address, watchers=asked.watchers, seconds=asked.minutes * 60)
    save("watchers", {"run": {"experiment": "async_sgd", "preset": "quick"} | SETTINGS} | figures)


if __name__ == "__main__":
    main()
