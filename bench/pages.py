"""What every page of results costs the server on a store of 10,000 runs: each view's whole script, with data of its own
to show.

A small lab (a sweep over trainers with seeds, a published figure, a duel, an exhibit, runs with staleness and phases)
and 200 runs of 1,000 points in 20 groups stand on top of 10,000 runs of 220 points each. Each view is run by
Streamlit's own script runner, once in a new session and `REPEATS` times more; what it drew is counted, so that an empty
page can't pass for a fast one. pandas, which the first table after a console's start loads, is timed apart.
Run: python -m bench.pages [--runs 10000] [--points 2200000] [--only "20 groups"]
"""

import argparse
import importlib
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import parse_qs, urlsplit

from streamlit.testing.v1 import AppTest

from app.report import page_capture
from app.ui.widgets import PAGES
from bench.measuring import save
from bench.store_size import fill
from engine.home import ROOT, Home
from engine.store import Store
from tests.browser.places import Place, the_pages
from tests.labs import compare, duel, museum, small

REPEATS = 5
STEPS = 1_000
"""Of each of the 200 runs in 20 groups."""
drawn: list[str] = []
"""Titles of the charts that the last script run has drawn."""


def filled(home: Home, runs: int, points: int) -> tuple[Place, ...]:
    """Fill a home and return the views to be measured."""
    fill(home, runs, points, long=100_000)
    lab = small.fill(home)
    duel.whole(home, "hogwild", "parameter_server", "sync_sgd", amount=8)
    museum.visited(home, "aliased_weights", ["aliased_weights"])
    with Store.open(home) as store:
        grid = [(group, seed) for group in range(20) for seed in range(10)]
        ids = [
            compare.add(store, steps=STEPS, level=1 + group, learning_rate=0.01 * (group + 1), seed=seed)
            for group, seed in grid
        ]
        groups = f"/compare?runs={ids[0]}-{ids[-1]}&group=learning_rate"
        store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    many = (
        Place("compare, ten of the 10,000", "/compare?runs=11-20", ""),
        Place("compare, forty in groups", "/compare?runs=9000-9040&group=seed", ""),
        Place("compare, two hundred in ten groups", "/compare?runs=9000-9199&group=seed", ""),
        Place("compare, one of these two hundred alone", "/compare?runs=9000-9199&group=seed&only=9005", ""),
        Place("compare, 200 runs in 20 groups", groups, ""),
        Place("compare, one run of the 20 groups alone", f"{groups}&only={ids[5]}", ""),
        Place("compare, one of the 20 groups opened", f"{groups}&members={ids[5]}", ""),
        Place("scaling, two hundred runs", "/scaling?runs=1001-1200", ""),
        Place("runs, all", "/runs?fold=false", ""),
        Place("runs, filtered", "/runs?filter=test%2Faccuracy.best+%3E+50", ""),
        Place("runs, grouped", "/runs?group=true", ""),
        *(
            Place(f"scaling, {view}", f"/scaling?runs={lab.runs}&view={view.replace(' ', '+')}", "")
            for view in ("Time breakdown", "Staleness")
        ),
    )
    return (*the_pages(lab, lab.stale), *many)


def measured(place: Place) -> dict[str, Any]:
    """Return what a view's script takes in milliseconds, and what it drew."""
    parts = urlsplit(place.path)
    test = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).switch_page(
        str(PAGES[parts.path.strip("/") or "home"])
    )
    for name, values in parse_qs(parts.query).items():
        test.query_params[name] = values
    took, cpu = [], []
    for _ in range(REPEATS + 1):
        drawn.clear()
        start, worked = time.perf_counter(), time.process_time()
        test.run()
        took.append((time.perf_counter() - start) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
        assert not test.exception, f"{place.name}: {test.exception}"
    rows = sum(len(each.value) for each in test.dataframe)
    return {
        "first_ms": round(took[0]),
        "first_cpu_ms": round(cpu[0]),
        "median_ms": round(median(took[1:])),
        "cpu_ms": round(median(cpu[1:])),
        "charts": len(drawn),
        "table_rows": rows,
    }


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--points", type=int, default=2_200_000)
    options.add_argument("--only", default="", help="measure only views with this in their name")
    asked = options.parse_args()
    noted = page_capture.chart

    def counted(title: str, *words: Any, **more: Any) -> Any:
        drawn.append(title)
        return noted(title, *words, **more)

    page_capture.chart = counted
    worked = time.process_time()
    importlib.import_module("pandas")
    pandas_cpu_ms = round((time.process_time() - worked) * 1000)
    print("pandas", pandas_cpu_ms, flush=True)
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        os.environ["PARALLAB_HOME"] = str(home.path)
        found = {}
        for place in (each for each in filled(home, asked.runs, asked.points) if asked.only in each.name):
            found[place.name] = measured(place)
            print(place.name, found[place.name], flush=True)
    save("pages", {"runs": asked.runs, "points": asked.points, "pandas_cpu_ms": pandas_cpu_ms, "views": found})


if __name__ == "__main__":
    main()
