"""Eight processes race to claim 10,000 queued runs: each is claimed exactly once. Run: python -m bench.claims [--runs
10000] [--processes 8]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.measuring import save
from engine.home import ROOT, Home
from engine.store import Demand, NewRun, ProcessIdentity, Reader, Store

RACER = """
import sys
from pathlib import Path
from engine.home import Home
from engine.store import ProcessIdentity, Store
mine, me = [], ProcessIdentity("bench", int(sys.argv[2]), 1)
with Store.open(Home(Path(sys.argv[1]))) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    while head := store.read.queue.next():
        if store.claims.claim(head.id, me, (), (0,)):
            mine.append(head.id)
print(*mine)
"""


def main() -> None:
    """Race, check, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--processes", type=int, default=8)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        with Store.open(home) as store:
            new = NewRun({"trainers": 1}, Demand(1, 0, 1, 1), "")
            store.sweeps.add("hogwild", {"seed": [0]}, [new] * given.runs, owner="bench")
        start, claimed = _race(home, given.processes)
        took = time.perf_counter() - start
        with Reader.open(home) as reader:
            left = reader.queue.count()
            workers = {run_id: reader.runs.one(run_id).worker for run_id in range(1, given.runs + 1)}
            starts = {reader.runs.one(run_id).starts for run_id in workers}
    times = Counter(run_id for mine in claimed.values() for run_id in mine)
    right = all(
        workers[run_id] == ProcessIdentity("bench", racer, 1) for racer, mine in claimed.items() for run_id in mine
    )
    figures = {
        "runs": given.runs,
        "processes": given.processes,
        "claimed_once": sum(count == 1 for count in times.values()),
        "claimed_more_than_once": sum(count > 1 for count in times.values()),
        "left_in_the_queue": left,
        "the_store_names_the_winner_of_each": right and starts == {1},
        "by_process": {racer: len(mine) for racer, mine in claimed.items()},
        "seconds": round(took, 2),
        "claims_per_second": round(given.runs / took),
    }
    save("claims", figures)
    if figures["claimed_once"] != given.runs or left or not figures["the_store_names_the_winner_of_each"]:
        raise SystemExit("Some run was not claimed exactly once.")


def _race(home: Home, processes: int) -> tuple[float, dict[int, list[int]]]:
    """Let the processes loose at one moment; return that moment and who claimed what."""
    command = [sys.executable, "-c", RACER, str(home.path)]
    racers = {
        number: subprocess.Popen(
            [*command, str(number)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(1, processes + 1)
    }
    for racer in racers.values():
        assert racer.stdout and racer.stdout.readline().strip() == "ready"
    start = time.perf_counter()
    for racer in racers.values():
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return start, {number: list(map(int, racer.communicate()[0].split())) for number, racer in racers.items()}


if __name__ == "__main__":
    main()
