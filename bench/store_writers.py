"""What one store takes: writer processes that each write a run of their own while readers poll as pages do; every point
is counted at the end.

Run: python -m bench.store_writers [--writers 32] [--readers 4] [--seconds 60] [--points 1000]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.measuring import save
from engine.home import ROOT, Home
from engine.store import Demand, Launch, Reader, Store
from engine.system.processes import me

METRICS = 5
RANKS = 4
"""A batch holds its points as a worker's does: a few metrics of a few ranks."""

WRITER = """
import sys, time, json
from pathlib import Path
from engine.errors import StoreBusy
from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Store
path, run_id, seconds, points, ranks, metrics = Path(sys.argv[1]), *map(int, sys.argv[2:])
each = max(1, points // (ranks * metrics))
taken, busy, steps, waits = 0, 0, 0, []
with Store.open(Home(path)) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    while not waits or time.monotonic() < end:
        curves = [Point(f"train/metric{m}", steps + n, n * 0.5, steps / 10, steps / 100) for m in range(metrics) for n in range(each)]
        batches = [RankBatch(rank, curves) for rank in range(ranks)]
        start = time.monotonic()
        try:
            store.worker.write(run_id, batches, progress=(steps, 10**9, "samples"))
            taken += ranks * metrics * each
            steps += each
        except StoreBusy:
            busy += 1
        waits.append(time.monotonic() - start)
        time.sleep(max(0.0, min(0.5 - (time.monotonic() - start), end - time.monotonic())))  # a worker writes each half second
print(json.dumps({"points": taken, "busy": busy, "waits": waits}))
"""  # noqa: E501

READER = """
import sys, time, json
from pathlib import Path
from engine.errors import StoreBusy
from engine.home import Home
from engine.store import Reader
path, run_id, seconds = Path(sys.argv[1]), *map(int, sys.argv[2:])
polls, busy, last, waits = 0, 0, 0, []
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + seconds
while not waits or time.monotonic() < end:
    start = time.monotonic()
    try:
        with Reader.open(Home(path)) as reader:
            reader.runs.token()
            reader.runs.find(limit=50)
            for series in reader.curves.series(run_id, ["train/metric0"], after_id=last, max_points=2000):
                last = max([last, *series.ids])
    except StoreBusy:
        busy += 1
    waits.append(time.monotonic() - start)
    polls += 1
    time.sleep(0.25)
print(json.dumps({"polls": polls, "busy": busy, "waits": waits}))
"""


def measure(home: Home, *, writers: int, readers: int, seconds: int, points: int) -> dict[str, Any]:
    """Return points taken a second, how many of them are in the store, and who waited how long; raises RuntimeError
    where a process failed.
    """
    with Store.open(home) as store:
        runs = [_running(store) for _ in range(writers)]
    started = [_start(WRITER, home, run_id, seconds, points, RANKS, METRICS) for run_id in runs]
    started += [_start(READER, home, runs[at % writers], seconds) for at in range(readers)]
    for process in started:
        assert process.stdout and process.stdout.readline() == "ready\n"
    start = time.monotonic()
    for process in started:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [_told(process) for process in started]
    took = time.monotonic() - start
    said, polled = told[:writers], told[writers:]
    with Reader.open(home) as reader:
        stored = int(reader.db.rows("SELECT count(*) FROM points")[0][0])
        counted = int(reader.db.rows("SELECT sum(count) FROM metrics")[0][0])
    taken = sum(each["points"] for each in said)
    writes, polls = ([wait for each in them for wait in each["waits"]] for them in (said, polled))
    return {
        "seconds": round(took, 1),
        "points": taken,
        "points_per_second": round(taken / took),
        "lost": taken - stored,
        "summaries_agree": counted == stored,
        "busy_errors": sum(each["busy"] for each in told),
        "write_ms": _spread(writes),
        "poll_ms": _spread(polls) if polls else None,
        "store_mb": round(sum(path.stat().st_size for path in home.path.glob("parallab.db*")) / 1e6),
    }


def _running(store: Store) -> int:
    run_id = store.runs.add(Launch("hogwild", {}, "bench", demand=Demand(1, 0, RANKS, 1)))
    store.claims.claim(run_id, me(), ())
    store.worker.begin(run_id, me(), {})
    store.worker.mark_running(run_id, 0.1)
    return run_id


def _start(program: str, home: Home, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, str(home.path), *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, errors = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(errors)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _spread(waits: list[float]) -> dict[str, float]:
    return {
        "median": round(median(waits) * 1000, 2),
        "p95": round((quantiles(waits, n=20)[-1] if len(waits) > 1 else waits[0]) * 1000, 2),
        "max": round(max(waits) * 1000, 2),
    }


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, value in (("writers", 32), ("readers", 4), ("seconds", 60), ("points", 1000)):
        options.add_argument(f"--{name}", type=int, default=value)
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        save("store_writers", measure(Home(Path(folder)).create(), **vars(options.parse_args())))


if __name__ == "__main__":
    main()
