"""What long writes cost others: how long a live run of millions of points waits for the store while one goes on.

Run: python -m bench.long_writes [--points 5000000] [--imported 1200000] [--only import resume]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measuring import save
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import Demand, RankBatch, Reader, Store
from engine.store.maintenance import integrity, retention
from engine.system.processes import me
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.run_import import import_path

METRICS = 4
LIVE = """
import json, select, sys, time
from pathlib import Path
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Store
path, run_id = Path(sys.argv[1]), int(sys.argv[2])
waits, step = [], 10**8
with Store.open(Home(path), timeout_s=120.0) as store:
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        points = [Point("train/metric0", step + n, n * 0.5, step / 10, step / 100) for n in range(50)]
        begun = time.monotonic()
        store.worker.write(run_id, [RankBatch(0, points)])
        waits.append(time.monotonic() - begun)
        step += 50
print(json.dumps(waits))
"""


def running(store: Store, points: int) -> int:
    """Add a running run of some points, and return its id."""
    run_id = store.runs.add("hogwild", {}, owner="bench", demand=Demand(1, 0, 1, 1))
    store.claims.claim(run_id, me(), ())
    store.worker.begin(run_id, me(), {})
    store.worker.mark_running(run_id, 0.1)
    each = 20_000
    for first in range(0, points // METRICS, each):
        steps = range(first, min(first + each, points // METRICS))
        curves = [Point(f"train/metric{m}", n, n * 0.5 % 7, n / 10, n / 100) for m in range(METRICS) for n in steps]
        store.worker.write(run_id, [RankBatch(0, curves)])
    return run_id


def ended(store: Store, points: int) -> int:
    """Add an ended run of some points, and return its id."""
    run_id = running(store, points)
    store.claims.end(run_id, "finished", "It finished.", execution_time_s=1.0)
    return run_id


def watched(home: Home, live: int, work: Callable[[], object]) -> dict[str, Any]:
    """Do some work while the live run writes; return how long the work took and the run waited."""
    command = [sys.executable, "-c", LIVE, str(home.path), str(live)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        begun = time.monotonic()
        work()
        took = time.monotonic() - begun
        waits = json.loads(process.communicate("end\n")[0])
    found = {"took_s": round(took, 2), "longest_wait_s": round(max(waits), 3), "writes": len(waits)}
    print(work.__name__, found, flush=True)
    return found


def main() -> None:
    """Measure each kind of long write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=5_000_000)
    parser.add_argument("--imported", type=int, default=1_200_000)
    parser.add_argument("--only", nargs="*")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home, theirs = Home(Path(folder) / "ours").create(), Home(Path(folder) / "theirs").create()
        bundle = Path(folder) / "runs.zip"
        with Store.open(theirs) as store, Reader.open(theirs) as reader:
            write_bundle(reader, [ended(store, asked.imported)], bundle, by="bench")
        with Store.open(home) as store, Reader.open(home) as reader:
            live, parent = running(store, asked.points), ended(store, asked.points)
            child = running(store, 0)
            with store.db.change() as connection:
                connection.execute("UPDATE runs SET parent_id = ? WHERE id = ?", [parent, child])
            metrics = [row[0] for row in store.db.rows("SELECT id FROM metrics WHERE run_id = ?", [parent])]

            def bundle_import() -> None:
                import_path(store, bundle, by="bench")

            def resume() -> None:
                store.worker.go_on_from_parent(child, step=10**9, time_s=1e12)

            def mend_corners() -> None:
                integrity.mend_corners(store, metrics)

            def mend_summaries() -> None:
                unlike = [integrity.Unlike(metric, parent, "", 0, "", "") for metric in metrics]
                integrity.mend_summaries(store, unlike)

            def thin() -> None:
                store.claims.end(child, "finished", "It finished.", execution_time_s=1.0)
                for curve in retention.to_thin(reader, -1.0, 1_000):
                    if curve.run_id == parent:
                        retention.thin(store, curve, 1_000)

            def delete() -> None:
                assert retention.delete(store, child, -1.0)

            works = (bundle_import, resume, mend_corners, mend_summaries, thin, delete)
            found = {
                work.__name__: watched(home, live, work)
                for work in works
                if not asked.only or work.__name__ in asked.only
            }
    save("long_writes", found)


if __name__ == "__main__":
    main()
