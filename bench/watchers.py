"""A hundred people watch one live run: what that takes of the console's server, and how long after its commit each of
them holds a point.

One asyncio process holds the watchers (bench/watching.py), each a session of the run's page with the questions that the
page's scripts ask; one real Chromium is on the same page. A thread looks into the store every 20 ms: a point's lag
counts from the last look that did not find it, by the clock that its arrival is noted by. Trainers sleep in each step,
so that the run leaves cores for the console.

Run: python -m bench.watchers [--minutes 30] [--watchers 100]
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from bench.crowd import Commits, Crowd, lags, told
from bench.first_loss import CHROMIUM, chromium, console
from bench.measuring import save, wait_until, wait_warm
from bench.poll_cost import server_of
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Reader, Store

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
def live_run(home: Home, by: str = "bench", settings: Mapping[str, object] = SETTINGS) -> Iterator[int]:
    """Yield a run that records; it is cancelled, and has ended, after the block."""
    wait_warm(home)
    found = experiment("async_sgd")
    run_id = launch(home, found.name, found.configure("quick", settings), owner=by, preset="quick", timeout_s=30)

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
            store.runs.cancel(run_id, by=by)
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
        minutes = cores_each_minute(server, lambda pause_s: page.wait_for_timeout(pause_s * 1000), seconds)
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
    told_of = [lags(commits.versions, watcher.versions, start, stop) for watcher in crowd.watchers]
    return {
        "watchers": watchers,
        "seconds": round(stop - start),
        "points_per_second": round(
            (commits.points[-1][0] - commits.points[0][0]) / (commits.points[-1][1] - commits.points[0][1]), 1
        ),
        "commits_per_second": round(len(commits.versions) / (commits.versions[-1][1] - commits.versions[0][1]), 2),
        "server_cores": round(mean(minutes), 3),
        "server_cores_each_minute": minutes,
        "server_memory_mb": round(memory_mb),
        "script_runs_per_second": round(reruns / (stop - start), 2),
        "lag_s": told([value for values in each for value in values]),
        "worst_lag_of_each_watcher_s": told([max(values) for values in each]),
        "lag_of_status_and_numbers_s": told([value for values in told_of for value in values]),
        "browser_draws_after_s": told(lags(commits.points, seen, start, stop)),
        "between_two_looks_s": told(
            [after - before for before, after in pairwise(commits.looks) if start <= before <= stop]
        ),
        "errors": sorted({error for watcher in crowd.watchers for error in watcher.errors}),
    }


def cores_each_minute(server: psutil.Process, pause: Callable[[float], object], seconds: float) -> list[float]:
    """Let so many seconds pass by `pause`, and return the CPU time that the server took of each of their minutes, as a
    share of it.
    """
    end, found = time.time() + seconds, []
    while (left := end - time.time()) > 0:
        used, since = sum(server.cpu_times()[:2]), time.time()
        pause(min(60.0, left))
        found.append(round((sum(server.cpu_times()[:2]) - used) / (time.time() - since), 3))
    return found


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
