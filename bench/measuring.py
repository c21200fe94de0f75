"""What every benchmark shares: runs through a runner of its own, A B A B, medians, and a result file that names its
surroundings.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.worker.environment import environment
from engine.seeding import SEEDING
from engine.store import Reader, Store
from engine.store.records import ENDED, Run
from engine.system.processes import end_session, identity
from engine.system.runner_process import ensure_running, runner_process

RESULTS = Path(__file__).parent / "results"
_AT_START = psutil.cpu_times()


@contextmanager
def served_home() -> Iterator[Home]:
    """Yield a fresh home with a runner of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        ensure_running(home)
        try:
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
    run_id = launch(home, name, config, owner="bench", preset=preset, timeout_s=30)

    def ended() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id).status in ENDED

    wait_until(ended, timeout_s, f"run {run_id} of {name} to end")
    with Reader.open(home) as reader:
        run = reader.runs.one(run_id)
    if run.status != "finished":
        raise RuntimeError(f"run {run_id} {run.status}: {run.cause}\n{run.error}")
    return run


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


def saved(name: str) -> dict[str, Any]:
    """Return the figures of an earlier call, to be added to; none where they were drawn by another rule of random
    numbers.
    """
    path = RESULTS / f"{name}.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    return dict(report["figures"]) if report.get("seeding") == SEEDING else {}


def save(name: str, figures: Mapping[str, Any]) -> None:
    """Write bench/results/<name>.json with the command, the date, the commit and the machine, and print it."""
    about = environment()
    report = {
        "command": f"python -m {_program(name)} {' '.join(sys.argv[1:])}".strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {
            key: about[key] for key in ("cpu", "cores", "memory_gb", "gpus", "python", "packages", "git_commit")
        },
        "seeding": SEEDING,
        "load_at_end": [round(value, 2) for value in os.getloadavg()],
        "other_processes_cpu_percent": _others(),
        "stolen_percent": _stolen(),
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(report, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def _program(name: str) -> str:
    spec = sys.modules["__main__"].__spec__
    return spec.name if spec else f"bench.{name}"


def _others() -> float:
    """Return the CPU that other processes take just after the measurement, in percent of one core."""
    own = {process.pid for process in [psutil.Process(), *psutil.Process().children(recursive=True)]}
    total = psutil.cpu_percent(interval=1.0) * (psutil.cpu_count() or 1)
    mine = sum(psutil.Process(pid).cpu_percent() for pid in own if psutil.pid_exists(pid))
    return round(max(0.0, total - mine), 1)


def _stolen() -> float | None:
    """Return the CPU time that the host of a virtual machine gave to others since this program began, in percent of
    all; None where nothing tells it.
    """
    ran = [after - before for before, after in zip(_AT_START, psutil.cpu_times(), strict=True)]
    if "steal" not in _AT_START._fields:
        return None
    return round(100 * ran[_AT_START._fields.index("steal")] / max(sum(ran), 1e-9), 1)


def python(*arguments: str, home: Home) -> subprocess.Popen[bytes]:
    """Start this Python with `arguments` from the project's root on `home`."""
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=os.environ | {"PARALLAB_HOME": str(home.path)})


__all__ = [
    "alternate",
    "finish",
    "identity",
    "last_values",
    "python",
    "ratio",
    "save",
    "served_home",
    "wait_until",
    "wait_warm",
]
