"""Programs elsewhere that report their runs: points per second by one client and by 32 at once, microseconds of a log
call, seconds until a point can be read over HTTP, and kills (SIGKILL) of clients and of the console while they report.

Each row's value is its number, so that the store shows what is lost, doubled or invented; a journal of each client has
the rows that the lab acknowledged. Run: python -m bench.reporting [--rate] [--many] [--latency 70] [--kills 100]
[--seed 1]
"""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.measuring import save, wait_until
from engine.home import ROOT, Home
from engine.parallab_client import Parallab, Refused
from engine.store import Reader
from engine.store.records import Run
from engine.system.processes import end_session
from engine.system.runner_process import runner_process
from tests.browser.consoles import Console

CLIENT = """
import sys, time
from parallab_client import Parallab
name, rows, rate, metrics = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
journal = open(f"journals/{name}", "wb", buffering=0)
names = [f"m{number}" for number in range(metrics)]
run = Parallab(owner="bench").record(experiment="bench", name=name)
journal.write(f"{run.run_id}\\n".encode())
began, spent = time.monotonic(), 0.0
for row in range(rows):
    values = dict.fromkeys(names, float(row))
    before = time.perf_counter()
    run.log(values, step=row)
    spent += time.perf_counter() - before
    if row % 20 == 19:
        journal.write(f"{run.acknowledged} {row + 1}\\n".encode())
    ahead = began + row / rate - time.monotonic() if rate else len(run._rows) / 1e6 - 0.1
    if ahead > 0:
        time.sleep(ahead)
run.finish(timeout_s=300)
took = time.monotonic() - began
print(f"{run.acknowledged} {run.dropped} {took} {1e6 * spent / rows}")
"""
PATIENCE_S = 240.0
POLL_S = 0.005
"""Between two reads of a run's points."""
RATE, ROWS = 40.0, 100_000
"""Of a client that is there to be killed: rows per second, and more rows than it comes to."""


@dataclass
class Reports:
    """One home with its console, clients that report to it, and what was seen."""

    console: Console
    place: Path
    draw: random.Random
    wanted: int = 0
    """Clients that report at the same time."""
    clients: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rows: int = 0
    down_s: list[float] = field(default_factory=list)
    """Seconds from a kill of the console until it answers again."""

    def start(self, rows: int = ROWS, rate: float = RATE, metrics: int = 1) -> str:
        """Start a client and return its name."""
        name = f"client{len(self.clients) + self.done['client']}-{self.draw.random():.9f}"
        words = [sys.executable, "client.py", name, str(rows), str(rate), str(metrics)]
        surroundings = os.environ | {"PARALLAB_URL": self.console.address}
        self.clients[name] = subprocess.Popen(
            words, cwd=self.place, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return name

    def kill(self, victim: str) -> None:
        """Kill the console or a client at a random moment, and start it again, or another one in its place."""
        while len(self.clients) < self.wanted:
            self.start()
        wait_until(
            lambda: all(len(self._journal(name)) > 1 for name in self.clients), PATIENCE_S, "all clients to report"
        )
        time.sleep(self.draw.uniform(0, 1.5))
        if victim == "console":
            began = time.monotonic()
            self.console.kill()
            time.sleep(self.draw.uniform(0, 0.5))
            self.console.start()
            self.down_s.append(time.monotonic() - began)
        else:
            name = self.draw.choice(sorted(self.clients))
            client = self.clients.pop(name)
            client.kill()
            client.communicate()
            self._check(name)
        self.done[victim] += 1
        print("+", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the remaining clients as SIGTERM does, and check their runs."""
        for name, client in self.clients.items():
            client.terminate()
            client.communicate(timeout=PATIENCE_S)
            self._check(name, has_ended=True)
        self.clients.clear()

    def finished(self, name: str) -> list[float]:
        """Return what a client says at its own end: rows acknowledged and dropped, seconds, µs of a log call."""
        out, _ = self.clients.pop(name).communicate(timeout=PATIENCE_S)
        self._check(name, has_ended=True)
        return [float(word) for word in out.split()]

    def _journal(self, name: str) -> list[str]:
        with suppress(OSError):
            return (self.place / "journals" / name).read_text().splitlines()
        return []

    def _check(self, name: str, *, has_ended: bool = False) -> None:
        """Compare what the store holds of a client's run with its journal."""
        run_id, *lines = self._journal(name)
        acknowledged, logged = map(int, lines[-1].split()) if lines else (0, 0)
        run, values = self._stored(int(run_id))
        self.rows += len(values)
        found = []
        if values != [float(row) for row in range(len(values))]:
            found.append(
                f"rows are lost, doubled or in disorder: {len(values)} rows, {len(set(values))} different ones"
            )
        if len(values) < (logged if has_ended else acknowledged):
            found.append(f"{len(values)} rows of {acknowledged} acknowledged and {logged} logged")
        if len(values) > logged + 20:
            found.append(f"{len(values)} rows, and {logged} were logged")
        if (run.status == "running") == has_ended:
            found.append(f"status {run.status}: {run.cause}")
        self.wrong += [f"run {run_id}: {each}" for each in found]
        for each in found:
            print(f"\nrun {run_id}: {each}", file=sys.stderr, flush=True)

    def _stored(self, run_id: int) -> tuple[Run, list[float]]:
        with Reader.open(self.console.home, timeout_s=60) as reader:
            values, after = list[float](), -1
            recording = next((each for each in reader.points.recordings(run_id) if each.metric == "m0"), None)
            while recording and (page := reader.points.page(recording.id, after=after)):
                values += [row.value for row in page]
                after = page[-1].id
            return reader.runs.one(run_id), values


@contextmanager
def lab(seed: int, clients: int = 0) -> Iterator[Reports]:
    """Yield a home with a console and its runner, and the folder of the clients, which end with the block."""
    with TemporaryDirectory(prefix="parallab-bench-") as folder:
        place, home = Path(folder) / "clients", Home(Path(folder) / "home").create()
        (place / "journals").mkdir(parents=True)
        (place / "client.py").write_text(CLIENT)
        shutil.copy(ROOT / "engine" / "parallab_client.py", place)
        console = Console(home)
        console.start()
        seen = Reports(console, place, random.Random(seed), clients)
        try:
            yield seen
        finally:
            for client in seen.clients.values():
                client.kill()
                client.communicate()
            console.kill()
            wait_until(lambda: runner_process(home) is not None, 60, "the console's runner")
            if process := runner_process(home):
                end_session(process)


def rate() -> dict[str, object]:
    """Measure one client: 1,000 rows of 10 metrics per second for 20 s, and 500,000 points as fast as it can."""
    figures: dict[str, object] = {}
    with lab(1) as seen:
        for words, rows, pace, metrics in (
            ("10,000 points/s", 20_000, 1_000.0, 10),
            ("as fast as it can, 10 metrics", 50_000, 0.0, 10),
            ("as fast as it can, 1 metric", 100_000, 0.0, 1),
        ):
            acknowledged, dropped, took, log_us = seen.finished(seen.start(rows, pace, metrics))
            figures[words] = {
                "points_per_s": round(acknowledged * metrics / took),
                "dropped": dropped,
                "log_us": round(log_us, 2),
            }
        return {**figures, "wrong": seen.wrong}


def many(count: int = 32, seconds: float = 20.0) -> dict[str, object]:
    """Measure clients that each log 100 rows of 3 metrics per second at the same time."""
    with lab(1) as seen:
        names = [seen.start(round(100 * seconds), 100.0, 3) for _ in range(count)]
        said = [seen.finished(name) for name in names]
        return {
            "clients": count,
            "points_per_s": round(
                sum(3 * acknowledged for acknowledged, *_ in said) / max(took for *_, took, _ in said)
            ),
            "dropped": sum(dropped for _, dropped, *_ in said),
            "log_us": round(median(log_us for *_, log_us in said), 2),
            "rows": seen.rows,
            "wrong": seen.wrong,
        }


def latency(count: int) -> dict[str, object]:
    """Measure the time from a point's record to its readability over HTTP, of so many points each, by a program that
    reads them all the time: of a program elsewhere that logs five rows per second, and of a rank of an experiment.
    """
    figures: dict[str, object] = {}
    with lab(1) as seen:
        reader = Parallab(seen.console.address, owner="bench")
        name = seen.start(rate=5.0)
        wait_until(lambda: bool(seen._journal(name)), PATIENCE_S, "the client to report")
        run_id = int(seen._journal(name)[0])
        figures["program elsewhere"] = _waits(reader, run_id, "m0", count)
        seen.end()
        run_id = reader.submit("hogwild", preset="quick", epochs=1_000)
        wait_until(lambda: reader.run(run_id)["status"] == "running", PATIENCE_S, "the run to start")
        figures["experiment"] = _waits(reader, run_id, "train/loss", count)
        reader.cancel(run_id, force=True)
        return {**figures, "wrong": seen.wrong}


def _waits(reader: Parallab, run_id: int, metric: str, count: int) -> dict[str, object]:
    """Return median, p90 and maximum of the seconds for which the next points of a run could not be read."""
    began = datetime.fromisoformat(reader.run(run_id)["started_at"]).timestamp()
    known: set[tuple[object, int]] = set()
    waits: list[float] = []
    is_first = True
    deadline = time.monotonic() + PATIENCE_S
    while len(waits) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"read {len(waits)} of {count} points of {metric} within {PATIENCE_S:.0f} s")
        found: list[dict[str, Any]] = []
        with suppress(Refused):  # no run has recorded this metric yet
            found = reader.series(run_id, [metric], max_points=10_000)
        at = time.time()
        for curve in found:
            for step, time_s in zip(curve["steps"], curve["times_s"], strict=True):
                if (key := (curve["rank"], step)) not in known:
                    known.add(key)
                    waits += [] if is_first else [at - began - time_s]
        is_first = False
        time.sleep(POLL_S)
    waits = sorted(waits[:count])
    return {
        "points": len(waits),
        "median_s": round(median(waits), 3),
        "p90_s": round(waits[math.ceil(0.9 * len(waits)) - 1], 3),
        "max_s": round(waits[-1], 3),
    }


def kills(count: int, seed: int) -> dict[str, object]:
    """Kill the console and clients in turn while eight clients report."""
    with lab(seed, clients=8) as seen:
        for number in range(count):
            seen.kill(("console", "client")[number % 2])
        seen.end()
        return {
            "seed": seed,
            "kills": dict(seen.done),
            "rows": seen.rows,
            "wrong": seen.wrong,
            "down_s": {"median": round(median(seen.down_s), 1), "max": round(max(seen.down_s), 1)},
        }


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("rate", "many"):
        options.add_argument(f"--{name}", action="store_true")
    for name, number in (("latency", 0), ("kills", 0), ("seed", 1)):
        options.add_argument(f"--{name}", type=int, default=number)
    chosen, began = options.parse_args(), time.monotonic()
    figures = {
        **({"rate": rate()} if chosen.rate else {}),
        **({"many": many()} if chosen.many else {}),
        **({"latency": latency(chosen.latency)} if chosen.latency else {}),
        **({"kills": kills(chosen.kills, chosen.seed)} if chosen.kills else {}),
    }
    save("reporting", {**figures, "took_s": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
