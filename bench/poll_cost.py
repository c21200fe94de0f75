"""What a page with nothing new to show costs the console's server a poll: its CPU time and the answer's time and size.

The run has 30,000 points. `pulse` asks for the change token, `curves` for new points. Run: python -m bench.poll_cost
[--rounds 5]
"""

import argparse
import http.client
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.first_loss import console
from bench.measuring import alternate, save
from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Store
from engine.store.records import RankBatch
from engine.system.machine import demand, machine
from engine.system.processes import me

POLLS = 500
POINTS = 30_000


def running_run(home: Home) -> int:
    """Return a run that is on, with points from two ranks, whose worker is this process."""
    found = experiment("hogwild")
    config = found.configure("published")
    with Store.open(home) as store:
        run_id = store.runs.add(
            found.name,
            config.model_dump(mode="json"),
            owner="bench",
            demand=demand(config, machine()),
            preset="published",
        )
        store.claims.claim(run_id, me(), ())
        store.worker.begin(run_id, me(), {})
        store.worker.mark_running(run_id, 0.1)
        for rank in (0, 1):
            points = [Point("train/loss", step, 1 / step, step / 100, step / 938) for step in range(1, POINTS // 2 + 1)]
            store.worker.write(run_id, [RankBatch(rank, points)], progress=(1, 2, "samples"))
    return run_id


class Poller:
    """One browser's connection to the server, kept open."""

    def __init__(self, address: str) -> None:
        self.connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
        self.size = 0

    def ask(self, path: str) -> dict[str, Any]:
        """Return the answer to one poll."""
        self.connection.request("GET", path)
        body = self.connection.getresponse().read()
        self.size = len(body)
        answer: dict[str, Any] = json.loads(body)
        return answer


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        run_id = running_run(home)
        with console(home) as address:
            time.sleep(2)  # the server's sockets are set just after it begins to listen
            poller = Poller(address)
            first = poller.ask(f"/api/series?run={run_id}&after=0&version=0")
            first_size = poller.size
            paths = {
                "pulse": f"/api/token?run={run_id}",
                "curves": f"/api/series?run={run_id}&after={first['last_id']}&version={first['version']}",
            }
            server = server_of(address)
            cpu_ms: dict[str, list[float]] = {}
            wall_ms: dict[str, list[float]] = {name: [] for name in paths}
            sizes = {}

            def measure(name: str) -> float:
                before, start = sum(server.cpu_times()[:2]), time.perf_counter()
                for _ in range(POLLS):
                    poller.ask(paths[name])
                wall_ms[name].append((time.perf_counter() - start) / POLLS * 1000)
                sizes[name] = poller.size
                return (sum(server.cpu_times()[:2]) - before) / POLLS * 1000

            cpu_ms = alternate(rounds, pulse=lambda: measure("pulse"), curves=lambda: measure("curves"))
    figures = {
        "server_cpu_ms_a_poll": cpu_ms,
        "median_server_cpu_ms": {name: round(median(values), 3) for name, values in cpu_ms.items()},
        "answer_ms": wall_ms,
        "answer_bytes": sizes,
        "first_answer_bytes": first_size,
    }
    save("poll_cost", figures)


def server_of(address: str) -> psutil.Process:
    port = int(address.rpartition(":")[2])
    return next(
        psutil.Process(c.pid)
        for c in psutil.net_connections("tcp")
        if c.status == "LISTEN" and c.laddr and c.laddr.port == port
    )


if __name__ == "__main__":
    main()
