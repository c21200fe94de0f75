"""What a person waits for, and what a console costs that nobody uses.

start: seconds and CPU seconds from `python -m app` to the first healthy answer. idle: memory (PSS) of console, runner
and its other processes after a while without visitors. loss: from the click on Launch in Chromium to the first
train/loss drawn; warm, while a spare worker has torch loaded, and cold, right after that worker was killed.
Run: python -m bench.console_start [--rounds 5] [--idle-s 60] [--only start idle loss]
"""

import argparse
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, sync_playwright

from bench.measuring import CHROMIUM, alternate, chromium, console, save, server_of, wait_until, wait_warm
from engine.home import Home
from engine.store import Reader
from engine.system.runner_process import runner_process

PARTS = ("start", "idle", "loss")
DRAWN = """() => {
  const chart = [...document.querySelectorAll('[data-drawn]')].find((node) => node.dataset.drawn.includes('train/loss'));
  return chart ? Number(chart.dataset.drawnAt) : null;
}"""  # noqa: E501


def start() -> tuple[float, float]:
    """Return the seconds and the console's CPU seconds to its first healthy answer, on a home of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with console(home) as address:
            took = time.perf_counter() - began
            return took, sum(server_of(address).cpu_times()[:2])


def idle(seconds: float) -> dict[str, float]:
    """Return the PSS in MB of the processes of an idle console after so many seconds."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with console(home) as address:
            wait_warm(home)
            time.sleep(seconds)
            known = runner_process(home)
            assert known
            runner, server = psutil.Process(known.pid), server_of(address)
            under_runner = runner.children(recursive=True)
            apart = {runner.pid, *(each.pid for each in under_runner)}
            helpers = [each for each in server.children(recursive=True) if each.pid not in apart]
            return {
                "console_mb": pss_mb([server, *helpers]),
                "runner_mb": pss_mb([runner]),
                "spare_worker_and_fork_server_mb": pss_mb(under_runner),
            }


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the proportional set size of processes together."""
    found = 0.0
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            found += each.memory_full_info().pss / 1e6
    return round(found, 1)


def first_loss(browser: BrowserContext, cold: bool) -> float:
    """Return the seconds from the click to the first drawn loss, on a home of its own."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with console(home) as address:
            page = browser.new_page()
            page.goto(f"{address}/launch?experiment=hogwild&preset=quick")
            button = page.get_by_role("button", name="Launch", exact=True)
            button.wait_for(timeout=60_000)
            page.evaluate(
                "fetch('/api/name', {method: 'POST', headers: {'content-type': 'application/json'}, body: "
                "JSON.stringify({name: 'Bench'})})"
            )  # so that the launch asks for no name
            page.reload()
            button.wait_for(timeout=60_000)
            wait_warm(home)
            page.wait_for_timeout(2000)  # a person has looked at the form; the page is quiet
            if cold and (known := runner_process(home)):
                for spare in psutil.Process(known.pid).children():
                    spare.kill()
            clicked = page.evaluate("Date.now()")
            button.click()
            drawn = page.wait_for_function(DRAWN, timeout=60_000, polling=20).json_value()
            page.close()
            wait_until(lambda: not _active(home), 120, "the run to end")
    return float(drawn - clicked) / 1000


def _active(home: Home) -> int:
    with Reader.open(home) as reader:
        return reader.runs.count(statuses=["queued", "starting", "running", "stopping"])


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--idle-s", type=float, default=60)
    options.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = options.parse_args()
    figures: dict[str, Any] = {}
    if "start" in given.only:
        found = [start() for _ in range(given.rounds)]
        figures["start"] = {"seconds": [took for took, _ in found], "cpu_s": [cpu for _, cpu in found]}
        figures["start_median"] = {name: round(median(values), 2) for name, values in figures["start"].items()}
    if "idle" in given.only:
        figures["idle_pss"] = idle(given.idle_s)
    if "loss" in given.only:
        with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
            browser = playwright.chromium.launch_persistent_context(
                profile, executable_path=chromium(), headless=True, args=CHROMIUM
            )
            first_loss(browser, cold=False)  # fills the browser's cache, as a person's is
            loss = alternate(
                given.rounds, warm=lambda: first_loss(browser, cold=False), cold=lambda: first_loss(browser, cold=True)
            )
            browser.close()
        figures["first_loss_s"] = loss
        figures["first_loss_median_s"] = {name: round(median(values), 2) for name, values in loss.items()}
    save("console_start", figures)


if __name__ == "__main__":
    main()
