"""How long a browser takes to paint the Runs page of a large store, against the same page of an empty one; filter and
sort too, and how much pages move while they load.

The store has 10,000 runs with 20 million points (bench/store_size.py). Two consoles are served, one of it and one of an
empty home; their pages are opened in turn, each in a new tab of one Chromium whose cache is warm. A page counts from
the start of its navigation to the first frame in which its table (or, of an empty store, its sentence) is there.
Sorting is the store's. Run: python -m bench.painting [--rounds 7] [--home FOLDER]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench.first_loss import CHROMIUM, chromium, console
from bench.measuring import save
from bench.poll_cost import server_of
from bench.store_size import fill
from engine.home import Home
from engine.store import Reader, Store

ROWS = 20
"""Rows of the table that have to be drawn, if it has as many."""
READY = {
    "runs": "drawn()",
    "empty": (
        "[...document.querySelectorAll('[data-testid=stPageLink]')].some((link) => link.innerText.includes('Launch "
        "a run'))"
    ),
}
"""What the page has to show, of a full and of an empty lab."""
WATCH = """
(() => {
  const rows = () => [...document.querySelectorAll('.pl-runs tbody tr[data-key]')].map((row) => row.dataset.key);
  window.picture = () => rows().join(' ');
  window.drawn = () => rows().length >= ROWS || (rows().length && document.querySelector('.pl-runs table').ariaRowCount <= ROWS);
  const look = () => {
    if (READY) window.paintedAt = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""  # noqa: E501
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: 'layout-shift', buffered: true });
"""
LOADED_MS = 8_000
"""After this, nothing of a page is still to come."""


class Work:
    """The CPU time that a console's server and the browser have taken since this was made: other programs on the same
    cores change it little.
    """

    def __init__(self, address: str) -> None:
        self._server = server_of(address)
        self._before = self._taken()

    def ms(self) -> float:
        """Return the milliseconds."""
        return sum(now - self._before.get(pid, 0.0) for pid, now in self._taken().items()) * 1000

    def _taken(self) -> dict[int, float]:
        found = {}
        for process in [self._server, *psutil.Process().children(recursive=True)]:
            with suppress(psutil.Error):
                if process == self._server or "chrom" in process.name():
                    found[process.pid] = sum(process.cpu_times()[:2])
        return found


def painted(browser: BrowserContext, address: str, path: str, ready: str) -> tuple[float, float]:
    """Return the milliseconds from the navigation to a page until what makes it `ready` is painted, and the CPU time of
    server and browser in them.
    """
    page = browser.new_page()
    work = Work(address)
    _open(page, address, path, ready)
    found = float(page.evaluate("window.paintedAt")), work.ms()
    page.close()
    return found


def _open(page: Page, address: str, path: str, ready: str) -> Page:
    """Open a page and wait until it is painted."""
    page.add_init_script(WATCH.replace("READY", READY[ready]).replace("ROWS", str(ROWS)))
    page.goto(f"{address}/{path}")
    page.wait_for_function("() => window.paintedAt", timeout=120_000)
    return page


def filtered_ms(page: Page, word: str, caption: str) -> float:
    """Return the milliseconds from Enter in the search of the Runs page until the rows that match are painted, and
    their `caption`.
    """
    page.get_by_role("textbox", name="Search").fill(word)
    return changed_ms(
        page, "keydown", f"/(?<!of ){caption}/.test(document.body.innerText)", lambda: page.keyboard.press("Enter")
    )


def sorted_ms(page: Page) -> float:
    """Return the milliseconds from a click on the heading Launched until the rows are painted in their new order."""
    page.evaluate("() => { window.before = picture(); }")
    heading = page.get_by_role("button", name="Launched")
    return changed_ms(page, "pointerdown", "picture() !== window.before", heading.click)


def changed_ms(page: Page, event: str, condition: str, act: Callable[[], None]) -> float:
    """Return the milliseconds from the first `event` that `act` causes to the first frame in which the condition holds
    and the table is drawn.
    """
    page.evaluate(
        f"""() => {{
          window.tookMs = null;
          window.addEventListener('{event}', () => {{
            const start = performance.now();
            const look = () => {{ if (drawn() && {condition}) window.tookMs = performance.now() - start; else requestAnimationFrame(look); }};
            requestAnimationFrame(look);
          }}, {{ once: true, capture: true }});
        }}"""  # noqa: E501
    )
    act()
    page.wait_for_function("() => window.tookMs !== null", timeout=120_000)
    return float(page.evaluate("window.tookMs"))


def measure(full: Home, empty: Home, rounds: int) -> dict[str, Any]:
    """Return what painting takes on both, in turn, and what filter and sort take on the full one."""
    with (
        console(full) as large,
        console(empty) as small,
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as profile,
    ):
        browser = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium(),
            headless=True,
            args=CHROMIUM,
            viewport={"width": 1400, "height": 1000},
        )
        found = paintings(browser, large, small, rounds) | changes(browser, large, full, rounds)
        found["layout_shift"] = shifts(browser, large, full)
        browser.close()
    return found


def shifts(browser: BrowserContext, address: str, full: Home) -> dict[str, float]:
    """Return by page the cumulative layout shift of a load."""
    with Reader.open(full) as reader:
        newest = reader.runs.find(limit=1)[0].id
    found = {}
    for name, path in {"home": "", "launch": "launch", "runs": "runs", "run": f"run?run={newest}"}.items():
        page = browser.new_page()
        page.add_init_script(SHIFTS)
        page.goto(f"{address}/{path}")
        page.locator("h1").wait_for()
        page.wait_for_timeout(LOADED_MS)
        found[name] = round(float(page.evaluate("window.shifted")), 3)
        page.close()
    return found


def paintings(browser: BrowserContext, large: str, small: str, rounds: int) -> dict[str, Any]:
    """Return what it takes to paint each page, in turn of the large and of the empty console."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for turn in range(rounds + 1):
        for path in ("runs",):
            for side, address, ready in (("empty", small, "empty"), ("full", large, path)):
                both = painted(browser, address, path, ready)
                if (
                    turn
                ):  # the first fills the browser's cache, as a person's is, and has the servers import what they need
                    taken.setdefault(f"{path}_{side}", []).append(both)
        print(".", end="", file=sys.stderr, flush=True)
    wall = {name: median(one for one, _ in values) for name, values in taken.items()}
    cpu = {name: median(one for _, one in values) for name, values in taken.items()}
    return {
        "painted_ms": {name: [round(one) for one, _ in values] for name, values in taken.items()},
        "cpu_ms": {name: [round(one) for _, one in values] for name, values in taken.items()},
        "later_than_empty_ms": {path: round(wall[f"{path}_full"] - wall[f"{path}_empty"]) for path in ("runs",)},
        "more_cpu_than_empty_ms": {path: round(cpu[f"{path}_full"] - cpu[f"{path}_empty"]) for path in ("runs",)},
    }


def changes(browser: BrowserContext, large: str, full: Home, rounds: int) -> dict[str, Any]:
    """Return what filtering and sorting the Runs page take: until the table is painted, and of the server's CPU
    time.
    """
    page, server = _open(browser.new_page(), large, "runs?fold=false", "runs"), server_of(large)
    acts: dict[str, Callable[[], float]] = {
        "filter": lambda: filtered_ms(page, "run 49", _caption(full, "run 49")),
        "filter_by_another_word": lambda: filtered_ms(page, "person3", _caption(full, "person3")),
        "all_again": lambda: filtered_ms(page, "", _caption(full, "")),
        "sort": lambda: sorted_ms(page),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            before = sum(server.cpu_times()[:2])
            took[name].append((act(), (sum(server.cpu_times()[:2]) - before) * 1000))
        print(".", end="", file=sys.stderr, flush=True)
    return {
        "until_painted_ms": {name: told([wall for wall, _ in values]) for name, values in took.items()},
        "server_cpu_ms": {name: told([cpu for _, cpu in values]) for name, values in took.items()},
    }


def told(values: list[float]) -> dict[str, float]:
    """Return median and greatest."""
    return {"median": round(median(values)), "max": round(max(values))}


def _caption(home: Home, word: str) -> str:
    """Return how the page counts the runs that a search leaves."""
    with Reader.open(home) as reader:
        found, of = reader.runs.count(search=word), reader.runs.count()
    return f"{found:,} runs" if found == of else f"{found:,} of {of:,} runs"


def filled(folder: Path, runs: int, points: int) -> Home:
    """Return the home in a folder, with a large store; one that is there already is taken as it is."""
    home = Home(folder).create()
    if not home.database.exists():
        fill(home, runs, points)
        with Store.open(home) as store:
            store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return home


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--points", type=int, default=20_000_000)
    options.add_argument(
        "--home", type=Path, help="a folder to keep the large store in, and to find it in the next time"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        full = filled(asked.home or Path(folder) / "full", asked.runs, asked.points)
        with Reader.open(full) as reader:
            runs = reader.runs.count()
        found = measure(full, Home(Path(folder) / "empty").create(), asked.rounds)
    save("painting", {"runs": runs, "rounds": asked.rounds} | found)


if __name__ == "__main__":
    main()
