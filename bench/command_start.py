"""What commands cost as whole processes: CPU time and wall time, beside those of an empty Python program, with
bytecode, on a store with 60 runs.

With --against, the same commands of another checkout with the same schema alternate with them.
Run: python -m bench.command_start [--rounds 15] [--against FOLDER]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.measuring import alternate, ratio, save
from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch

RUNS = 60
COMMANDS: dict[str, Sequence[str]] = {
    "list": ("-m", "engine", "list"),
    "help": ("-m", "engine", "--help"),
    "show": ("-m", "engine", "show", "1"),
    "submit": ("-m", "engine", "submit", "hogwild", "--preset", "quick", "--no-runner"),
}
EMPTY = ("-c", "pass")
"""What every command costs at least: the interpreter."""


def cost_s(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU time and the wall time of one process, in seconds."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} in {folder} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, took


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--against", type=Path)
    chosen = options.parse_args()
    sides = {name: (words, ROOT) for name, words in {"empty": EMPTY, **COMMANDS}.items()}
    if chosen.against:
        sides |= {f"{name}, other": (words, chosen.against.resolve()) for name, words in COMMANDS.items()}
    wall_s: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder) / "home").create()
        config = experiment("hogwild").configure("quick")
        for _ in range(RUNS):  # no runner takes them
            launch(home, Launch("hogwild", config.model_dump(mode="json"), "bench", "quick"), timeout_s=30)
        environment = os.environ | {
            "PARALLAB_HOME": str(home.path),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
        }

        def measure(name: str) -> Callable[[], float]:
            words, tree = sides[name]
            cost_s(words, tree, environment)  # writes the bytecode

            def once() -> float:
                cpu_s, took_s = cost_s(words, tree, environment)
                wall_s[name].append(took_s)
                return cpu_s

            return once

        cpu_s = alternate(chosen.rounds, **{name: measure(name) for name in sides})
    save(
        "command_start",
        {
            "median_cpu_ms": _medians_ms(cpu_s),
            "median_wall_ms": _medians_ms(wall_s),
            "cpu_ratio_to_empty": {name: ratio(cpu_s[name], cpu_s["empty"]) for name in COMMANDS},
            "cpu_ratio_of_other": {
                name: ratio(cpu_s[f"{name}, other"], cpu_s[name]) for name in COMMANDS if chosen.against
            },
        },
    )


def _medians_ms(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: round(median(values) * 1000, 1) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
