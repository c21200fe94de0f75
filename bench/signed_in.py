"""A hundred signed-in people walk the pages of a lab while a run is on: errors, how long a page takes, and whether the
console's memory stays flat.

One asyncio process holds them (bench/walking.py), each with an account, a cookie and a tab of their own, on the live
run's page, Results, Compare and Home; a real Chromium signs in by the form before them, and once more among them: in
between it would take the cores that the server is measured on. A page counts from the click to the end of its script,
as the tab sees it. Figures begin when people have walked for a while: a tab holds more with each page that it shows,
until it is loaded anew, so a console holds less before.

Run: python -m bench.signed_in [--minutes 30] [--warm 12] [--people 100] [--stays 30 150]
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, mean, median
from typing import Any

import httpx
import psutil
from playwright.sync_api import sync_playwright

from bench.crowd import told
from bench.first_loss import CHROMIUM, chromium, console
from bench.measuring import save
from bench.poll_cost import server_of
from bench.store_size import fill
from bench.walking import Place, Walker
from bench.watchers import SETTINGS, cores_each_minute, live_run
from engine.access.rules import Program, Role
from engine.home import Home
from engine.store import Store
from engine.store.records import ProcessIdentity
from engine.system.processes import identity

PASSWORD = "the sentence that everybody here has"
RUNS, POINTS, LONG = 300, 300_000, 50_000
"""The lab's past: ended runs that people look up and compare."""
LIVE = SETTINGS | {"batch_size": 8}
"""The run that is on, twice as long by twice as many steps an epoch."""
JOIN_S, SETTLE_S = 40.0, 10.0
"""People sign in one after the other over so long a time; their walk begins so long after the last."""
LOOK_S, BEFORE_S = 5.0, 15.0
WITHHELD = (0, 10, 20, 40)
TARGET_S = 1.5


class Looks(threading.Thread):
    """Notes the server's resident memory, and how much of the machine its host withheld, every few seconds until told
    to stop.
    """

    def __init__(self, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.seen: list[tuple[float, float]] = []
        """(moment, MB)."""
        self.withheld: list[tuple[float, float]] = []
        """(moment, percent since the look before)."""

    def run(self) -> None:
        """Look until told to stop."""
        before = psutil.cpu_times()
        while not self.over.wait(LOOK_S):
            at, times = time.time(), psutil.cpu_times()
            self.seen.append((at, self.server.memory_info().rss / 1e6))
            self.withheld.append(
                (at, 100 * (getattr(times, "steal", 0.0) - getattr(before, "steal", 0.0)) / (sum(times) - sum(before)))
            )
            before = times


class People(threading.Thread):
    """The people, in an event loop of their own."""

    def __init__(self, walkers: Sequence[Walker]) -> None:
        super().__init__(daemon=True)
        self.walkers = walkers
        self._loop = asyncio.new_event_loop()
        self._all: asyncio.Task[None] | None = None

    def run(self) -> None:
        """Walk until `leave`."""
        self._all = self._loop.create_task(self._walk())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all)
        self._loop.close()

    async def _walk(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for walker in self.walkers:
                tasks.create_task(walker.live_on())
                await asyncio.sleep(JOIN_S / len(self.walkers))

    def leave(self) -> None:
        """Close every tab."""
        if self._all:
            self._loop.call_soon_threadsafe(self._all.cancel)
        self.join(60)


def settle(home: Home, people: int) -> list[str]:
    """Give a lab its past and its accounts: one admin, a fifth viewers, all others members; return their names."""
    fill(home, RUNS, POINTS, LONG, worker=_gone())
    names = [f"person {number}" for number in range(people)]
    with Store.open(home) as store:
        for number, name in enumerate(names):
            role: Role = "admin" if number == 0 else "viewer" if number % 5 == 1 else "member"
            store.people.add(name, role, by=Program("bench"), password=PASSWORD)
    return names


def _gone() -> ProcessIdentity:
    """Return a process that has ended."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        found = identity(process.pid)
    assert found
    return found


def places(live: int) -> tuple[Place, ...]:
    """Return where people go, the live run twice as often as elsewhere."""
    run = Place("run", f"run={live}")
    return (
        run,
        run,
        Place("runs"),
        Place("compare", "runs=10,12,14,16,18"),
        Place("compare", f"runs=20,{live}"),
        Place(""),
    )


def until_the_curve(address: str, name: str, run_id: int) -> float:
    """Sign in by the form in a real browser; return the seconds from there to the live run's first curve."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), headless=True, args=CHROMIUM
        )
        page = context.pages[0]
        page.goto(f"{address}/run?run={run_id}")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        began = time.monotonic()
        page.get_by_role("button", name="Sign in").click()
        page.locator("[data-metric='train/loss'] .nsewdrag").wait_for(timeout=120_000)
        took = time.monotonic() - began
        context.close()
        return took


def walk(
    home: Home, address: str, names: Sequence[str], seconds: float, warm_s: float, stays_s: tuple[float, float]
) -> dict[str, Any]:
    """Return what so many people take and see over so many seconds, and how long a browser waits before them and among
    them.
    """
    with live_run(home, names[0], LIVE) as run_id:
        alone_s = until_the_curve(address, names[0], run_id)
        server = server_of(address)
        idle_mb = server.memory_info().rss / 1e6
        walkers = [
            Walker(address, name, PASSWORD, places(run_id), run_id, stays_s, seed) for seed, name in enumerate(names)
        ]
        people, looks = People(walkers), Looks(server)
        people.start()
        time.sleep(JOIN_S + SETTLE_S)
        fresh_mb = server.memory_info().rss / 1e6
        time.sleep(warm_s)
        looks.start()
        admin = next(walker for walker in walkers if walker.cookie)
        before, start = caches(address, admin.cookie), time.time()
        minutes = cores_each_minute(server, time.sleep, seconds)
        stop, after = time.time(), caches(address, admin.cookie)
        looks.over.set()
        among_s = until_the_curve(address, names[0], run_id)
        people.leave()
    timed = [view for walker in walkers for view in walker.views if start <= view[0] <= stop]
    views = [(name, took) for _, name, took in timed]
    return {
        "people": len(names),
        "seconds": round(stop - start),
        "errors": sorted({error for walker in walkers for error in walker.errors}),
        "signed_in": sum(bool(walker.cookie) for walker in walkers),
        "pages": len(views),
        "pages_a_minute": round(len(views) / (stop - start) * 60, 1),
        "pulses_a_second": round(sum(walker.fragments for walker in walkers) / (stop - start + warm_s + JOIN_S), 2),
        "page_s": spread(views),
        "asked_to_wait_times": told([times for walker in walkers for times in walker.slower]),
        "page_s_by_percent_withheld": by_withheld(timed, looks.withheld),
        "page_p95_is_under_s": TARGET_S,
        "console_cores": round(mean(minutes), 3),
        "console_cores_each_minute": minutes,
        "console_memory_mb": {"before_anyone": round(idle_mb), "all_signed_in": round(fresh_mb)} | grown(looks.seen),
        "caches_mb": {
            name: [round(before.get(name, 0), 2), round(after.get(name, 0), 2)] for name in sorted(before | after)
        },
        "browser_from_sign_in_to_the_curve_s": {"before_anyone": round(alone_s, 2), "among_them": round(among_s, 2)},
    }


def spread(views: Sequence[tuple[str, float]]) -> dict[str, dict[str, float]]:
    """Return median, p95, p99 and greatest of the seconds of all pages, and of each that was opened often enough to
    tell.
    """
    by = {"all": [took for _, took in views]} | {
        name: [took for each, took in views if each == name] for name in sorted(dict(views))
    }
    return {name: told(seconds) for name, seconds in by.items() if len(seconds) > 1}


def by_withheld(
    views: Sequence[tuple[float, str, float]], withheld: Sequence[tuple[float, float]]
) -> dict[str, dict[str, float]]:
    """Return the same of all pages, by how much the host withheld from `BEFORE_S` before the click until the page was
    there: on average, percent.
    """
    parts: dict[str, list[float]] = {}
    for at, _, took in views:
        shares = [percent for moment, percent in withheld if at - BEFORE_S <= moment <= at + took + LOOK_S]
        if shares:
            least = max(each for each in WITHHELD if each <= mean(shares))
            parts.setdefault(f"from {least}", []).append(took)
    return {
        name: told(parts[name]) for name in sorted(parts, key=lambda name: int(name.split()[1])) if len(parts[name]) > 1
    }


def grown(seen: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return memory at start, middle and end (medians of a tenth), and its slope over the second half, in
    MB an hour.
    """
    tenth, values = max(1, len(seen) // 10), [mb for _, mb in seen]
    late = seen[len(seen) // 2 :]
    slope = linear_regression([at / 3600 for at, _ in late], [mb for _, mb in late]).slope
    at = len(values) // 2
    ends = {"start": values[:tenth], "middle": values[at - tenth // 2 : at + tenth // 2 + 1], "end": values[-tenth:]}
    return {name: round(median(part)) for name, part in ends.items()} | {
        "most": round(max(values)),
        "slope_mb_an_hour": round(slope, 1),
    }


def caches(address: str, cookie: str) -> dict[str, float]:
    """Return how many MB Streamlit says that its caches and sessions hold, by kind."""
    text = httpx.get(f"{address}/_stcore/metrics", headers={"cookie": cookie}, timeout=60).raise_for_status().text
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("cache_memory_bytes{"):
            kind = line.partition('cache_type="')[2].partition('"')[0]
            found[kind] = found.get(kind, 0.0) + float(line.rpartition(" ")[2]) / 1e6
    return found


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument(
        "--warm",
        type=float,
        default=12,
        help="minutes that people walk before figures begin; a tab is loaded anew after 12 on average",
    )
    options.add_argument("--people", type=int, default=100)
    options.add_argument(
        "--stays",
        type=float,
        nargs=2,
        default=(30, 150),
        metavar=("LEAST", "MOST"),
        help="seconds that somebody looks at a page",
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        names = settle(home, asked.people)
        with console(home) as address:
            figures = walk(home, address, names, asked.minutes * 60, asked.warm * 60, tuple(asked.stays))
    lab = {
        "live": {"experiment": "async_sgd", "preset": "quick"} | LIVE,
        "ended_runs": RUNS,
        "their_points": POINTS,
        "stays_s": list(asked.stays),
        "warm_s": round(asked.warm * 60),
    }
    save("signed_in", lab | figures)


if __name__ == "__main__":
    main()
