"""Whether runs are flagged as disturbed only where something disturbed them: alone, watched by one tab elsewhere (the
tab's messages without its drawing), watched by a browser on the same machine, and beside a program that keeps one core
busy.

Short runs of Hogwild! with 2 trainers; a run counts as flagged above 5 %. Nothing else may run on the machine.
Run: python -m bench.disturbance [--runs 20] [--only NAME ...]
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from bench.first_loss import chromium, console
from bench.measuring import save, saved, served_home, wait_warm
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.usage.disturbance import read_counters
from engine.store import Reader
from engine.store.records import ENDED, RunRow
from engine.system.cpu_use import programs
from engine.system.machine import machine

CHANGES = {"epochs": 20}
KINDS = ["cost", "alone", "watched", "browser", "busy core"]


@contextmanager
def hog() -> Iterator[None]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def tab(address: str) -> Iterator[Callable[[int], None]]:
    """Yield what begins to watch a run as a tab on another machine does; the process has started before, as a browser
    has.
    """
    watch = f"Watcher({address!r}, int(input())).watch()"
    code = f"import asyncio\nfrom bench.watching import Watcher\nprint(flush=True)\nasyncio.run({watch})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin and process.stdout
    process.stdout.readline()

    def begin(run_id: int) -> None:
        assert process.stdin
        process.stdin.write(f"{run_id}\n")

    try:
        yield begin
    finally:
        process.kill()
        process.wait()


def ended(home: Home, watch: Callable[[int], object]) -> RunRow:
    """Launch a run, `watch` it, and return it when it has ended."""
    wait_warm(home)
    run_id = launch(home, "hogwild", experiment("hogwild").configure("quick", CHANGES), owner="bench", preset="quick")
    watch(run_id)

    def entry() -> RunRow:
        with Reader.open(home) as reader:
            return reader.runs.entry(run_id)

    while (found := entry()).status not in ENDED:
        time.sleep(2.0)  # reading the store often would itself disturb the run
    return found


def watched(home: Home, address: str) -> RunRow:
    """Return an ended run that a tab elsewhere has watched."""
    with tab(address) as begin:
        return ended(home, begin)


def cost() -> dict[str, float]:
    """Return the milliseconds of one look at the counters of 4 processes, and of one at all programs' names."""
    pids = psutil.pids()
    return {
        "counters_ms": _ms(lambda: read_counters(pids[:4], machine().core_ids)),
        "names_ms": _ms(lambda: programs(())),
        "programs": len(pids),
    }


def _ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(20):
        began = time.perf_counter()
        call()
        times.append(1_000 * (time.perf_counter() - began))
    return round(median(times), 2)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--runs", type=int, default=20, help="runs of each kind; a quarter beside a busy core")
    options.add_argument("--only", nargs="*", choices=KINDS, default=KINDS)
    asked = options.parse_args()
    figures: dict[str, Any] = saved("disturbance") if asked.only != KINDS else {}
    with served_home() as home, console(home) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name in asked.only:
            if name == "cost":
                figures[name] = cost()
                continue
            runs = max(1, asked.runs // 4) if name == "busy core" else asked.runs
            if name == "watched":
                found = [watched(home, address) for _ in range(runs)]
            elif name == "browser":
                with browser.new_page() as page:
                    found = [ended(home, lambda run_id: page.goto(f"{address}/run?run={run_id}")) for _ in range(runs)]
            else:
                with hog() if name == "busy core" else nullcontext():
                    found = [ended(home, lambda run_id: None) for _ in range(runs)]
            shares = [100 * (run.disturbance or 0.0) for run in found]
            figures[name] = {
                "runs": len(found),
                "flagged": sum(run.disturbed for run in found),
                "unknown": sum(run.disturbance is None for run in found),
                "percent": {
                    "median": round(median(shares), 2),
                    "min": round(min(shares), 2),
                    "max": round(max(shares), 2),
                },
                "seconds": round(median(run.execution_time_s or 0.0 for run in found), 2),
            }
            print(name, figures[name], file=sys.stderr, flush=True)
    save("disturbance", figures)


if __name__ == "__main__":
    main()
