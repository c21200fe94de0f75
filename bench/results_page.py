"""How fast the Results page answers on a store of 10,000 runs: each question to the store, and the page's whole script.

Run: python -m bench.results_page [--runs 10000] [--points 2200000] [--home FOLDER, kept and used again]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from streamlit.testing.v1 import AppTest

from app.runs import frame, rows
from app.runs.columns import measured, read_columns
from app.ui.widgets import PAGES
from bench.measuring import save
from bench.store_size import fill, opened, timed
from engine.home import ROOT, Home
from engine.store import Reader, Store

FILTERS = {
    "text": 'owner == "person3" and status == "finished"',
    "setting": 'experiment == "hogwild" and trainers >= 2 and seed in (1, 2, 3)',
    "metric": "test/accuracy.best > 98",
    "two_metrics": "test/accuracy.best > 50 and test/loss.last < test/accuracy.mean",
    "time": 'created > "7d ago" and not starred and not ("x" in tags)',
    "nothing_found": 'note contains "nobody wrote this"',
}
COLUMNS = [
    "duration",
    "startup",
    "test/accuracy.last",
    "test/accuracy.best",
    "train/loss.last",
    "perf/samples_per_second.mean",
    "trainers",
    "seed",
]
VIEWS: dict[str, dict[str, Any]] = {
    "first_visit": {},
    "filtered": {"filter": "test/accuracy.best > 50"},
    "sorted": {"sort": "-test/accuracy.best"},
    "filtered_and_sorted": {"filter": 'experiment == "hogwild" and test/accuracy.best > 50', "sort": "-duration"},
    "one_row_for_all_seeds": {"group": "true"},
    "at_a_step": {"columns": ["train/loss@50", "test/accuracy.best"]},
}
PAGE_REPEATS = 7


def questions() -> dict[str, Callable[[Reader], Any]]:
    """Return what the page asks of the store."""
    asked: dict[str, Callable[[Reader], Any]] = {
        f"filter_{name}": lambda reader, text=text: (
            reader.runs.find(matching=reader.fields.filter(text)),
            reader.runs.count(matching=reader.fields.filter(text)),
        )
        for name, text in FILTERS.items()
    }
    for name in ("-test/accuracy.best", "duration", "-seed", "owner"):
        asked[f"sort_{name}"] = lambda reader, name=name: reader.runs.find(order=reader.fields.order(name))
    asked["table_500"] = table
    asked["groups"] = lambda reader: [
        reader.fields.values(group.finished, reader.fields.order("test/accuracy.best").field)
        for group in reader.groups.find()
    ]
    asked["groups_sorted"] = lambda reader: reader.groups.find(order=reader.fields.order("-test/accuracy.best"))
    asked["at_a_step"] = lambda reader: reader.groups.values_at(
        [run.id for run in reader.runs.find()], "train/loss", 50
    )
    asked["unknown_name"] = lambda reader: reader.fields.names()
    return asked


def table(reader: Reader) -> Any:
    """Return the table of a first visit."""
    columns, _ = read_columns(COLUMNS, reader)
    lines = rows.run_rows(reader.runs.find())
    return frame.table(lines, columns, measured(reader, [line.run_ids[0] for line in lines], columns))


def page(query: dict[str, Any]) -> dict[str, float]:
    """Return what the page's script takes in milliseconds, the frame round it included."""
    took, cpu = [], []
    test = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).switch_page(str(PAGES["runs"]))
    for name, value in query.items():
        test.query_params[name] = value
    for _ in range(PAGE_REPEATS + 1):
        start, worked = time.perf_counter(), time.process_time()
        test.run()
        took.append((time.perf_counter() - start) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
        assert not test.exception and any("rows" in element.proto.json for element in test.get("bidi_component"))
    return {"first": round(took[0]), "median": round(median(took[1:])), "cpu": round(median(cpu[1:]))}


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--points", type=int, default=2_200_000)
    options.add_argument("--home", type=Path)
    asked = options.parse_args()
    with nullcontext(asked.home) if asked.home else tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        os.environ["PARALLAB_HOME"] = str(home.path)
        if not home.database.exists():
            fill(home, asked.runs, asked.points, long=100_000)
        with Store.open(home) as store:
            store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        figures = {
            "runs": asked.runs,
            "store_ms": {name: timed(opened(home, ask)) for name, ask in questions().items()},
            "page_ms": {name: page(query) for name, query in VIEWS.items()},
        }
    save("results_page", figures)


if __name__ == "__main__":
    main()
