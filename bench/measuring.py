"""What every benchmark shares: a runner or a console of its own, turns A B A B, medians, and results that name the
machine and its load.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from engine.doctor.machine import installation, program
from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.worker.environment import environment
from engine.store import Launch, Reader, Store
from engine.store.records import ENDED, Run
from engine.system.processes import end_session, identity
from engine.system.runner_process import ensure_running, runner_process

RESULTS = Path(__file__).parent / "results"
CHROMIUM = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_AT_START = psutil.cpu_times()


@contextmanager
def served_home() -> Iterator[Home]:
    """Yield a fresh home with a runner of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        ensure_running(home)
        try:
            wait_until(lambda: runner_process(home) is not None, 60, "the runner to begin")
            yield home
        finally:
            if process := runner_process(home):
                with Store.open(home) as store:
                    store.runner.ask_to_stop()
                wait_until(lambda: runner_process(home) is None, 60, "the runner to end")
                end_session(process)


def wait_until(true: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until `true()`; raises TimeoutError naming `what`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(0.05)


def wait_warm(home: Home) -> None:
    """Wait until the runner holds a spare worker that has torch loaded."""

    def warm() -> bool:
        with Reader.open(home) as reader:
            row = reader.runner.current()
        return bool(row and row.warm)

    wait_until(warm, 120, "a warm runner")


def finish(home: Home, name: str, preset: str | None, changes: Mapping[str, Any], timeout_s: float = 3600) -> Run:
    """Launch a run on the warm runner and return it when it has ended; raises RuntimeError unless it finished."""
    wait_warm(home)
    config = experiment(name).configure(preset, changes)
    run_id = launch(home, Launch(name, config.model_dump(mode="json"), "bench", preset), timeout_s=30)

    def ended() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id).status in ENDED

    wait_until(ended, timeout_s, f"run {run_id} of {name} to end")
    with Reader.open(home) as reader:
        run = reader.runs.one(run_id)
    if run.status != "finished":
        raise RuntimeError(f"run {run_id} {run.status}: {run.cause}\n{run.error}")
    return run


def whole_run_s(run: Run) -> float:
    """Return the seconds from a run's claim to its end, start-up included."""
    assert run.claimed_at and run.ended_at
    return (datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.claimed_at)).total_seconds()


def last_values(home: Home, run: Run) -> dict[str, float]:
    """Return the last value of each metric of the whole run, or of the only rank that recorded it."""
    with Reader.open(home) as reader:
        row = next(row for row in reader.runs.find() if row.id == run.id)
    return dict(row.last)


def alternate(rounds: int, **sides: Callable[[], float]) -> dict[str, list[float]]:
    """Measure each side once a round, in turn, and return its figures; a dot is printed for each."""
    figures: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            figures[name].append(measure())
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return figures


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Return median, least and greatest of the pairwise ratios."""
    pairs = [a / b for a, b in zip(above, below, strict=True)]
    return {"median": round(statistics.median(pairs), 3), "min": round(min(pairs), 3), "max": round(max(pairs), 3)}


def save(name: str, figures: Mapping[str, Any]) -> None:
    """Write bench/results/<name>.json with the command, the date, the commit and the machine, and print it."""
    about = environment()
    report = {
        "command": " ".join(["python", *sys.orig_argv[1:]]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {
            key: about[key] for key in ("cpu", "cores", "memory_gb", "gpus", "python", "packages", "git_commit")
        },
        "load_at_end": [round(value, 2) for value in os.getloadavg()],
        "stolen_percent": _stolen(),
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(report, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def _stolen() -> float | None:
    """Return the CPU time that the host of a virtual machine gave to others since this program began, in percent of
    all; None where nothing tells it.
    """
    ran = [after - before for before, after in zip(_AT_START, psutil.cpu_times(), strict=True)]
    if "steal" not in _AT_START._fields:
        return None
    return round(100 * ran[_AT_START._fields.index("steal")] / max(sum(ran), 1e-9), 1)


@contextmanager
def console(home: Home) -> Iterator[str]:
    """Serve a home's console and yield its address; its runner ends with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    surroundings = os.environ | {"PARALLAB_HOME": str(home.path)}
    server = subprocess.Popen([sys.executable, "-m", "app", "--port", str(port)], cwd=ROOT, env=surroundings)
    try:
        wait_until(lambda: _healthy(address), 60, "the console")
        yield address
        wait_until(lambda: runner_process(home) is not None, 60, "the console's runner")
    finally:
        server.terminate()
        server.wait()
        if process := runner_process(home):
            spares = psutil.Process(process.pid).children()
            end_session(process)
            for session in filter(None, (identity(spare.pid) for spare in spares)):
                end_session(session)


def _healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:
        return b"parallab" in answer.read()
    return False


def server_of(address: str) -> psutil.Process:
    """Return the process that serves an address."""
    port = int(address.rpartition(":")[2])
    listening = [
        each.pid
        for each in psutil.net_connections("tcp")
        if each.pid and each.status == "LISTEN" and each.laddr and each.laddr.port == port
    ]
    return psutil.Process(min(listening))  # a process that it is just starting has the socket too, for a moment


def chromium() -> str:
    """Return the path of the system's Chromium; raises RuntimeError if it has none."""
    if found := program("chromium-headless-shell"):
        return found
    raise RuntimeError(f"Chromium was not found: {installation(['chromium-headless-shell'])}.")
