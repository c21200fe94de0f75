"""From the click on Launch, in a browser that is on the page already, to the first train/loss drawn on the run's page.

Warm: the runner holds a spare with torch loaded. Cold: the spare was killed just before the click, so torch is loaded
anew. Both in turn, on a fresh home each time. Run: python -m bench.first_loss [--rounds 5]
"""

import argparse
import socket
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil
from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench.measuring import python, save, wait_until, wait_warm
from engine.doctor.machine import installation, program
from engine.home import Home
from engine.store import Reader
from engine.system.processes import end_session, identity
from engine.system.runner_process import runner_process

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Return the path of the system's Chromium; raises RuntimeError if it has none."""
    if found := program("chromium-headless-shell"):
        return found
    raise RuntimeError(f"Chromium was not found: {installation(['chromium-headless-shell'])}.")


DRAWN = """() => {
  const chart = [...document.querySelectorAll('[data-drawn]')].find((node) => node.dataset.drawn.includes('train/loss'));
  return chart ? Number(chart.dataset.drawnAt) : null;
}"""  # noqa: E501


@contextmanager
def console(home: Home) -> Iterator[str]:
    """Serve a home's console and yield its address; its runner ends with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = python(
        "-m", "streamlit", "run", "app/asgi.py", "--server.port", str(port), "--server.headless", "true", home=home
    )
    try:
        wait_until(lambda: _healthy(address), 60, "the console")
        yield address
    finally:
        server.terminate()
        server.wait()
        if process := runner_process(home):
            spares = psutil.Process(process.pid).children()
            end_session(process)
            for session in filter(None, (identity(spare.pid) for spare in spares)):
                end_session(session)


def _healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:
        return b"parallab" in answer.read()
    return False


def seconds(browser: BrowserContext, cold: bool) -> float:
    """Return the seconds from the click to the first drawn loss, on a home of its own."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with console(home) as address:
            page = browser.new_page()
            page.goto(f"{address}/launch?experiment=hogwild&preset=quick")
            _introduce(page)
            wait_warm(home)
            page.wait_for_timeout(2000)  # a person has looked at the form; the page is quiet
            if cold:
                _kill_spare(home)
            start = page.evaluate("Date.now()")
            page.get_by_role("button", name="Launch", exact=True).click()
            drawn = page.wait_for_function(DRAWN, timeout=60_000, polling=20).json_value()
            page.close()
            _let_end(home)
    return (drawn - start) / 1000


def _introduce(page: Page) -> None:
    """Give a name by the console's own route, so that the launch asks for none."""
    page.get_by_role("button", name="Launch", exact=True).wait_for(timeout=60_000)
    page.evaluate(
        "fetch('/api/name', {method: 'POST', headers: {'content-type': 'application/json'}, body: "
        "JSON.stringify({name: 'Bench'})})"
    )
    page.reload()
    page.get_by_role("button", name="Launch", exact=True).wait_for(timeout=60_000)


def _kill_spare(home: Home) -> None:
    process = runner_process(home)
    assert process is not None
    for spare in psutil.Process(process.pid).children():
        spare.kill()


def _let_end(home: Home) -> None:
    def none_left() -> bool:
        with Reader.open(home) as reader:
            return not reader.runs.count(statuses=["queued", "starting", "running", "stopping"])

    wait_until(none_left, 120, "the run to end")


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    figures: dict[str, list[float]] = {"warm": [], "cold": []}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), headless=True, args=CHROMIUM
        )
        seconds(browser, cold=False)  # fills the browser's cache, as a person's is
        for _ in range(rounds):
            figures["warm"].append(seconds(browser, cold=False))
            figures["cold"].append(seconds(browser, cold=True))
        browser.close()
    save(
        "first_loss",
        {"seconds": figures, "median": {name: round(median(values), 2) for name, values in figures.items()}},
    )


if __name__ == "__main__":
    main()
