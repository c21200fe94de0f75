"""How fast a large store answers: the run table, its filters and sorts, a chart of a long run, an idle poll; and what
backup and check take.

The store has 10,000 runs with 20 million points, one run a million of them. Run: python -m bench.store_size [--runs
10000] [--points 20000000]
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

from bench.measuring import save
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store, Stretch
from engine.store.records import ProcessIdentity
from engine.system.processes import me
from engine.upkeep import fsck
from engine.upkeep.backups import back_up

LONG = 1_000_000
LOSS = ["train/loss"]
REPEATS = 20


def fill(home: Home, runs: int, points: int, long: int = LONG, worker: ProcessIdentity | None = None) -> int:
    """Write `runs` ended runs that share `points` points (loss of two ranks, six metrics at the end), one of them
    `long`; return its id.

    Where a runner is to serve the home afterwards, `worker` names a process that is gone: it ends what an ended run's
    worker has left.
    """
    worker = worker or me()
    each = (points - long) // (2 * runs)
    with Store.open(home) as store:
        store.db.connection.execute("PRAGMA synchronous = OFF")
        longest = _run(store, 0, 0, worker)
        for start in range(0, long, 50_000):
            curve = [
                Point("train/loss", step, math.sin(step / 9_000) + step % 17, step / 100, step / 938)
                for step in range(start, min(start + 50_000, long))
            ]
            store.worker.write(longest, [RankBatch(0, curve)])
        for number in range(1, runs):
            run_id = _run(store, number, each, worker)
            store.claims.end(
                run_id,
                "failed" if number % 9 == 0 else "finished",
                "Completed successfully",
                execution_time_s=float(number % 100),
            )
        store.claims.end(longest, "finished", "Completed successfully", execution_time_s=100.0)
    return longest


def _run(store: Store, number: int, each: int, worker: ProcessIdentity) -> int:
    config = {"trainers": 2, "seed": number % 10, "learning_rate": 0.01, "batch_size": 64}
    name = f"run {number % 50}"
    run_id = store.runs.add(
        Launch(
            "hogwild" if number % 2 else "sync_sgd",
            config,
            f"person{number % 12}",
            "tuned",
            name,
            demand=Demand(2, 0, 2, 1),
        )
    )
    store.claims.claim(run_id, worker, ())
    store.worker.begin(run_id, worker, {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    curves = [
        RankBatch(
            rank, [Point("train/loss", step, 1 / (step + 1 + rank), step / 100, step / 938) for step in range(each)]
        )
        for rank in (0, 1)
    ]
    ends = [
        Point(name, each, number % 97 + 0.5, each / 100)
        for name in ("test/accuracy", "test/loss", "perf/samples_per_second", "perf/execution_time_s")
    ]
    store.worker.write(run_id, curves, run_points=ends if each else ends[:1], progress=(each, each or 1, "samples"))
    return run_id


def timed(question: Callable[[], Any], times: int = REPEATS) -> dict[str, float]:
    """Return what a question takes in milliseconds: the first time (which `measure` makes a cold one), then the next
    `times`.

    `cpu` is the median of this process's own time, which other programs on the same cores change little.
    """
    took, cpu = [], []
    for _ in range(times + 1):
        start, worked = time.perf_counter(), time.process_time()
        question()
        took.append((time.perf_counter() - start) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
    return {
        "first": round(took[0], 2),
        "median": round(median(took[1:]), 2),
        "max": round(max(took[1:]), 2),
        "cpu": round(median(cpu[1:]), 2),
    }


def opened(home: Home, ask: Callable[[Reader], Any]) -> Callable[[], Any]:
    """Return the question as a page puts it: by a connection of its own."""

    def question() -> Any:
        with Reader.open(home) as reader:
            return ask(reader)

    return question


def measure(home: Home, longest: int) -> dict[str, Any]:
    """Return what each question takes."""
    middle = Stretch("step", 0.4 * LONG, 0.44 * LONG)
    questions: dict[str, Callable[[Reader], Any]] = {
        "chart_of_the_longest": lambda reader: reader.curves.series(longest, LOSS, max_points=1000),
        "zoom_into_its_middle": lambda reader: reader.curves.series(longest, LOSS, max_points=1000, within=middle),
        "run_table_500": lambda reader: (reader.runs.find(limit=500), reader.runs.count()),
        "run_table_page_200_of_50": lambda reader: reader.runs.find(limit=50, offset=9_950),
        "filter_by_status_owner_experiment": lambda reader: reader.runs.find(
            statuses=["failed"], owner="person3", experiment="hogwild", limit=500
        ),
        "search_in_all_texts": lambda reader: (
            reader.runs.find(search="run 49", limit=500),
            reader.runs.count(search="run 49"),
        ),
        "owners": lambda reader: reader.runs.owners(),
        "idle_poll_of_all": lambda reader: reader.runs.token(),
        "idle_poll_of_a_run": lambda reader: reader.runs.token(longest),
    }
    found = {}
    for name, ask in questions.items():
        forget(home)
        found[name] = timed(opened(home, ask))
    return found


def forget(home: Home) -> None:
    """Drop the store from the system's memory, so that the next question reads the disk."""
    file = os.open(home.database, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--points", type=int, default=20_000_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        start = time.perf_counter()
        longest = fill(home, asked.runs, asked.points)
        filled_s = time.perf_counter() - start
        with Store.open(home) as store:
            store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        found = measure(home, longest)
        start = time.perf_counter()
        made = back_up(home, by="ada")
        backup_s = time.perf_counter() - start
        start = time.perf_counter()
        troubles = [trouble.sentence for trouble in fsck.examine(home)]
        fsck_s = time.perf_counter() - start
        with Reader.open(home) as reader:
            points = reader.db.rows("SELECT count(*) FROM points")[0][0]
        figures = {
            "runs": asked.runs,
            "points": points,
            "fill_s": round(filled_s, 1),
            "store_mb": round(home.database.stat().st_size / 1e6),
            "bytes_a_point": round(home.database.stat().st_size / points, 1),
            "milliseconds": found,
            "backup_s": round(backup_s, 1),
            "backup_mb": round(made.size / 1e6),
            "fsck_s": round(fsck_s, 1),
            "fsck_found": troubles,
        }
    save("store_size", figures)


if __name__ == "__main__":
    main()
