"""What the Compare page takes with 10 runs of 100,000 points: server time of a first look, of another axis and another
grouping; and until it is painted.

Server time is this process's own time for the page's whole script, measured through Streamlit's test runner on the real
store, cold (nothing kept of the points) and then for each change. Painting is from the navigation to the last chart
drawn, in a browser whose cache is warm, beside a run's page with one small chart, in turns. Run: python -m
bench.compare [--rounds 5] [--points 100000]
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import BrowserContext, sync_playwright
from streamlit.testing.v1 import AppTest

from app.charts import curve_data
from app.compare import session_state
from app.ui.widgets import PAGES
from bench.first_loss import CHROMIUM, chromium, console
from bench.measuring import alternate, save
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import Demand, RankBatch, Store
from engine.system.processes import me

RUNS, SMALL = 10, 50
LOSS = "train/loss"
AT = session_state._WIDGETS
FIGURES = """many => { const found = [...document.querySelectorAll('.pl-figure')]; return found.length === many
  && found.every(node => node.querySelector('.scatterlayer path')) }"""
PANEL = "() => document.querySelector('.pl-plot .scatterlayer path') !== null"


def fill(home: Home, points: int) -> int:
    """Write the runs, in groups of five seeds, and a small one; return the small one's id."""
    with Store.open(home) as store:
        store.db.connection.execute("PRAGMA synchronous = OFF")
        for number in range(RUNS):
            _run(store, number, points)
        return _run(store, RUNS, SMALL)


def _run(store: Store, number: int, points: int) -> int:
    config = {"trainers": 2 if number < RUNS // 2 else 4, "seed": number, "learning_rate": 0.01}
    run_id = store.runs.add("hogwild", config, owner="bench", demand=Demand(2, 0, 2, 1))
    store.claims.claim(run_id, me(), ())
    store.worker.begin(run_id, me(), {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    for start in range(0, points, 10_000):
        steps = range(start, min(points, start + 10_000))
        curve = [
            Point(
                LOSS,
                step,
                math.exp(-step / points) + math.sin(step * (7 + number)) / 5,
                step / 100 + number / 999,
                step / 938,
            )
            for step in steps
        ]
        store.worker.write(run_id, [RankBatch(0, curve)], progress=(steps[-1] + 1, points, "samples"))
    store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=100.0)
    return run_id


class Looks:
    """The page by Streamlit's test runner, which runs its script as the server does."""

    def __init__(self) -> None:
        self.page = self._opened({})

    def _opened(self, query: dict[str, str]) -> AppTest:
        page = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).switch_page(str(PAGES["compare"]))
        page.query_params.update(query | {"runs": f"1-{RUNS}"})
        return page

    def first(self, **query: str) -> Callable[[], float]:
        """Return the measurement of a first look, of which nothing is kept."""

        def look() -> float:
            curve_data.forget()
            self.page = self._opened(query)
            return _cpu_ms(self.page.run)

        return look

    def change(self, query: dict[str, str], act: Callable[[AppTest], Any]) -> Callable[[], float]:
        """Return the measurement of a change on a page that was just looked at."""

        def look() -> float:
            self.first(**query)()
            act(self.page)
            return _cpu_ms(self.page.run)

        return look


def _cpu_ms(run: Callable[[], AppTest]) -> float:
    worked = time.process_time()
    page = run()
    cpu_ms = (time.process_time() - worked) * 1000
    if page.exception or page.error:
        raise RuntimeError(f"the page failed: {page.exception or page.error}")
    return cpu_ms


def server_ms(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each kind of look, in turns."""
    looks, grouped = Looks(), {"group": "trainers", "band": "ci"}
    return alternate(
        rounds,
        first=looks.first(),
        first_grouped=looks.first(**grouped),
        other_axis=looks.change({}, lambda page: page.selectbox(key=f"{AT}x").set_value("time")),
        other_axis_grouped=looks.change(grouped, lambda page: page.selectbox(key=f"{AT}x").set_value("time")),
        logarithmic_grouped=looks.change(grouped, lambda page: page.toggle(key=f"{AT}log.x").set_value(True)),
        into_groups=looks.change({}, lambda page: page.multiselect(key=f"{AT}group").set_value(["trainers"])),
        other_grouping=looks.change(
            grouped, lambda page: page.multiselect(key=f"{AT}group").set_value(["learning_rate"])
        ),
        other_statistic=looks.change(grouped, lambda page: page.selectbox(key=f"{AT}stat").set_value("iqm")),
    )


def painted_ms(browser: BrowserContext, address: str, drawn: str, many: int | None) -> float:
    """Return the milliseconds from asking for a page to its charts being drawn."""
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_function(drawn, arg=many, timeout=60_000, polling=20)
    took = (time.perf_counter() - start) * 1000
    page.close()
    return took


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--points", type=int, default=100_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        os.environ["PARALLAB_HOME"] = folder
        home = Home(Path(folder)).create()
        small = fill(home, asked.points)
        server = server_ms(asked.rounds)
        with console(home) as address, sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
            browser = playwright.chromium.launch_persistent_context(
                profile, executable_path=chromium(), headless=True, args=CHROMIUM
            )

            def look(query: str) -> Callable[[], float]:
                return lambda: painted_ms(browser, f"{address}/compare?runs=1-{RUNS}{query}", FIGURES, 1)

            def of_small() -> float:
                return painted_ms(browser, f"{address}/run?run={small}", PANEL, None)

            of_small()  # fills the browser's cache, as a person's is
            painted = alternate(
                asked.rounds, small_chart=of_small, single_runs=look(""), grouped=look("&group=trainers&band=boot")
            )
            browser.close()
    figures = {
        "runs": RUNS,
        "points_a_run": asked.points,
        "server_ms": server,
        "median_server_ms": {name: round(median(values)) for name, values in server.items()},
        "painted_ms": painted,
        "median_painted_ms": {name: round(median(values)) for name, values in painted.items()},
    }
    save("compare", figures)


if __name__ == "__main__":
    main()
