"""What a lab's own script costs as a run: whole commands beside the bare command, and event files as they are read.

Run: python -m bench.own_scripts [--rounds 5] [--seconds 20] [--points 400000]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from bench.measuring import alternate, ratio, save, served_home, wait_until
from engine.home import Home
from engine.launch import launch
from engine.recorder import Point
from engine.registry import experiment
from engine.runtime.command.sources.sources import Sources
from engine.script.command import read_command
from engine.store import Launch, Reader, Store
from engine.store.records import ENDED, RankBatch
from tests.transfer.readers import events

SCRIPT = """
import sys, time
end = time.process_time() + float(sys.argv[2])
step = 0
while time.process_time() < end:
    step += 1
    total = sum(i * i for i in range(200_000))
    print(f"step {step}: loss {1 / step:.4f}", flush=True)
"""
"""Computes for some seconds of CPU time, and prints a loss about 50 times a second."""


def whole_run_s(home: Home, folder: Path, seconds: float) -> float:
    """Return the seconds from the launch of the script to the recorded end of its run."""
    command = read_command([sys.executable, "script.py", "--seconds", f"{seconds:g}"], folder=str(folder))
    begin = time.perf_counter()
    run_id = launch(home, Launch(command.name, command.defaults(), "bench", command=command), timeout_s=30)

    def ended() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id).status in ENDED

    wait_until(ended, 600, f"run {run_id}")
    took = time.perf_counter() - begin
    with Reader.open(home) as reader:
        if (run := reader.runs.one(run_id)).status != "finished":
            raise RuntimeError(run.cause)
    return took


def bare_s(folder: Path, seconds: float) -> float:
    """Return the seconds of the script alone."""
    begin = time.perf_counter()
    words = [sys.executable, "script.py", "--seconds", f"{seconds:g}"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


TAGS = 4
WRITER = """
import os, sys, time
from pathlib import Path
data = Path(sys.argv[1]).read_bytes()
name = Path(os.environ["PARALLAB_RUN_FOLDER"], f"events.out.tfevents.{int(time.time())}.host.0.0")
part = len(data) // 40 + 1
with open(name, "wb", buffering=0) as file:
    for at in range(0, len(data), part):
        file.write(data[at : at + part])
        time.sleep(0.1)
"""
"""Appends event records to a file of its run's folder during four seconds."""


def reading_rate(folder: Path, data: bytes, points: int) -> float:
    """Return the points per second that the worker's reader takes from a finished event file, in its own process."""
    run_folder = Path(tempfile.mkdtemp(dir=folder))
    (run_folder / "logs").mkdir()
    (run_folder / f"events.out.tfevents.{int(time.time())}.host.0.0").write_bytes(data)
    begin = time.perf_counter()
    found = sum(len(readings) for readings in Sources(run_folder, since=time.time() - 1).rest())
    if found != points:
        raise RuntimeError(f"{found} of {points} points were read")
    return points / (time.perf_counter() - begin)


def delays_ms(home: Home, beside: Sequence[str] = (), for_s: float = 15.0) -> list[float]:
    """Return how long another run's small writes take, 10 a second, beside a run of a command."""
    with Store.open(home) as store:
        config = experiment("hogwild").configure("quick").model_dump(mode="json")
        other = launch(home, Launch("hogwild", config, "bench"), timeout_s=30)
        store.runs.cancel(other, by="bench")  # its points are written all the same
        if beside:
            command = read_command(beside, folder=str(home.path))
            launch(home, Launch(command.name, command.defaults(), "bench", command=command), timeout_s=30)
        found: list[float] = []
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            begin = time.perf_counter()
            store.worker.write(other, [RankBatch(0, [Point("train/loss", len(found), 1.0, 0.0)])])
            found.append(1000 * (time.perf_counter() - begin))
            time.sleep(0.1)
    return found


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--points", type=int, default=400_000)
    chosen = options.parse_args()
    each = chosen.points // TAGS
    records = (
        events.record(events.event(time.time(), step, events.scalar(f"loss/{tag}", 1 / (step + 1))))
        for step in range(each)
        for tag in range(TAGS)
    )
    data = b"".join(records)
    with served_home() as home, tempfile.TemporaryDirectory(prefix="parallab-bench-") as place:
        folder = Path(place)
        (folder / "script.py").write_text(SCRIPT)
        (folder / "writer.py").write_text(WRITER)
        (folder / "data").write_bytes(data)
        whole_run_s(home, folder, 0.1)  # the first command of a runner also starts the worker that then waits
        seconds = alternate(
            chosen.rounds,
            run=lambda: whole_run_s(home, folder, chosen.seconds),
            bare=lambda: bare_s(folder, chosen.seconds),
        )
        rates = [reading_rate(folder, data, each * TAGS) for _ in range(chosen.rounds)]
        alone = delays_ms(home)
        words = [sys.executable, str(folder / "writer.py"), str(folder / "data")]
        beside = delays_ms(home, words)
    save(
        "own_scripts",
        {
            "whole_command_s": {name: [round(each, 2) for each in values] for name, values in seconds.items()},
            "ratio_to_bare": ratio(seconds["run"], seconds["bare"]),
            "added_s": round(median(a - b for a, b in zip(seconds["run"], seconds["bare"], strict=True)), 2),
            "points_per_second_read": round(median(rates)),
            "p95_ms_of_another_runs_writes": {
                "alone": round(quantiles(alone, n=20)[-1], 1),
                "beside": round(quantiles(beside, n=20)[-1], 1),
            },
        },
    )


if __name__ == "__main__":
    main()
