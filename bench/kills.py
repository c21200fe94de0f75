"""Kills with -9 at random moments over runner, worker, ranks and console: what is lost, what hangs, what is left
behind.

Console and runner are started again after each kill, as a person and the console would. Run: python -m bench.kills
[--kills 200] [--seed 1]
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.cancel import segments
from bench.measuring import python, save, wait_until
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.worker.commit_log import VARIABLE, committed, lost, points
from engine.store import Reader, Store
from engine.store.records import ALIVE, ENDED, ProcessIdentity, Run
from engine.system.cleanup import end_tree, tree
from engine.system.processes import end_session, identity, is_alive
from engine.system.runner_process import ensure_running, runner_process

VICTIMS = ("runner", "worker", "rank", "console")
HEARTBEATS_S = 4.0
"""Two heartbeats of 2 s: so long after the end of its worker or rank a run may still be called running."""
START_S = 180.0
"""So long anything may take to start on a machine that has other work; it is not what is measured."""
SETTINGS: dict[str, Any] = {
    "dataset": "synthetic",
    "trainers": 2,
    "epochs": 1000,
    "device": "cpu",
    "threads_per_rank": 1,
    "evaluate_every": 0,
}


@dataclass
class Lab:
    """One home with its console, and what was seen of it."""

    home: Home
    random: random.Random
    victims: Sequence[str] = VICTIMS
    console: subprocess.Popen[bytes] | None = None
    port: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    called_running_s: list[float] = field(default_factory=list)
    workers: dict[int, ProcessIdentity] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def start_console(self) -> None:
        """Start the console and wait until it answers."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.console = python(
            "-m",
            "streamlit",
            "run",
            "app/asgi.py",
            "--server.port",
            str(self.port),
            "--logger.level",
            "error",
            home=self.home,
        )
        wait_until(self._answers, START_S, "the console to answer")

    def _answers(self) -> bool:
        try:
            return bool(httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=2).json()["store"] == "ok")
        except (httpx.HTTPError, ValueError):
            return False

    def runs(self, *statuses: str) -> list[Run]:
        """Return the runs of these statuses."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return [reader.runs.one(row.id) for row in reader.runs.find(limit=10_000) if row.status in statuses]

    def run(self, run_id: int) -> Run:
        """Return one run."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return reader.runs.one(run_id)

    def keep_busy(self) -> None:
        """Have one run on and one queued."""
        for _ in range(2 - len(self.runs("queued", *ALIVE))):
            launch(self.home, "hogwild", experiment("hogwild").configure(None, SETTINGS), owner="bench", timeout_s=30)

    def kill_one(self) -> None:
        """Kill one process at a random moment, then see what becomes of it."""
        self.keep_busy()
        victim = self.random.choice(self.victims)
        self._wait_for(victim)
        time.sleep(self.random.uniform(0, 1.5))
        found = self._find(victim)
        if found is None:
            return self.kill_one()  # it ended meanwhile
        process, run = found
        if run and run.status != "stopping" and self.random.random() < 0.2:
            with Store.open(self.home) as store:
                run = self.run(run.id) if store.runs.cancel(run.id, by="bench") else run
        moment = run.status if run else (alive[0].status if (alive := self.runs(*ALIVE)) else "queued")
        with suppress(ProcessLookupError):  # it was cancelled just now, and has ended since
            os.kill(process.pid, signal.SIGKILL)
        self.kills[f"{victim}, {moment}"] += 1
        wait_until(lambda: not is_alive(process), START_S, f"the {victim} to be dead")
        if victim == "console" and self.console:
            self.console.wait()
        if run:
            self._sees_the_end(run)
        self._recover()
        return None

    def _wait_for(self, victim: str) -> None:
        wait_until(lambda: self._find(victim) is not None, START_S, f"a {victim} to kill")

    def _find(self, victim: str) -> tuple[ProcessIdentity, Run | None] | None:
        """Return a process of that kind that is alive, with its run where it has one."""
        if victim == "console":
            known = identity(self.console.pid) if self.console else None
            return (known, None) if known else None
        if victim == "runner":
            known = runner_process(self.home)
            return (known, None) if known else None
        run = next((run for run in self.runs(*ALIVE) if run.begun_at and run.worker and is_alive(run.worker)), None)
        if run is None or run.worker is None:
            return None
        self.workers[run.id] = run.worker
        if victim == "worker":
            return run.worker, run
        with Reader.open(self.home, timeout_s=30) as reader:
            ranks = [known for row in reader.details.ranks(run.id) if row.pid and (known := identity(row.pid))]
        return (self.random.choice(ranks), run) if ranks else None

    def _sees_the_end(self, run: Run) -> None:
        """Measure how long a run that lost its worker or a rank is still called alive; then nothing of it
        may be left.
        """
        began = time.monotonic()
        wait_until(
            lambda: self.run(run.id).status not in ("starting", "running"),
            60,
            f"run {run.id} to be no longer called running",
        )
        self.called_running_s.append(round(time.monotonic() - began, 2))
        wait_until(lambda: self.run(run.id).status in ENDED, 60, f"run {run.id} to end")

    def _recover(self) -> None:
        """Start again what was killed; the console starts the runner."""
        if "console" not in self.victims:
            ensure_running(self.home)
        elif self.console is None or self.console.poll() is not None:
            self.start_console()
        wait_until(lambda: runner_process(self.home) is not None, START_S, "a runner")

    def close(self) -> None:
        """Cancel all that is left, end the runner, and note whatever is still there."""
        with Store.open(self.home, timeout_s=30) as store:
            for run in self.runs("queued", *ALIVE):
                if run.worker:
                    self.workers[run.id] = run.worker
                store.runs.cancel(run.id, by="the bench's end")
        wait_until(lambda: not self.runs("queued", *ALIVE), START_S, "all runs to end")
        runner = runner_process(self.home)
        with Store.open(self.home, timeout_s=30) as store:
            store.runner.ask_to_stop()
        wait_until(lambda: runner is None or not is_alive(runner), START_S, "the runner to end")
        if self.console:
            self.console.kill()
            self.console.wait()
        self.left = [
            f"process {pid} of run {run_id}" for run_id, worker in self.workers.items() for pid in tree(worker)
        ]


@contextmanager
def lab(seed: int, victims: Sequence[str] = VICTIMS) -> Iterator[Lab]:
    """Yield a lab in a folder of its own, whose workers log what the store has taken; end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="parallab-kills-") as folder:
        home = Home(Path(folder) / "home").create()
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(Path(folder) / "commits.jsonl")
        made = Lab(home, random.Random(seed), victims)
        try:
            made.start_console() if "console" in victims else ensure_running(home)
            yield made
        finally:
            if before is None:
                del os.environ[VARIABLE]
            if made.console and made.console.poll() is None:
                made.console.kill()
                made.console.wait()
            if runner := runner_process(home):
                end_session(runner, grace_s=0.0)
            for run in made.runs(*ALIVE):
                if run.worker:
                    end_tree(run.worker)


def left_segments(before: set[str]) -> list[str]:
    """Return what is shared now and was not before, once that stays: other programs of the machine share memory for a
    moment too.
    """
    deadline = time.monotonic() + 10
    while (left := segments() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return sorted(left)


def measure(kills: int, seed: int, victims: Sequence[str] = VICTIMS) -> dict[str, Any]:
    """Carry out that many kills and return what was seen."""
    before, began = segments(), time.monotonic()
    with lab(seed, victims) as here:
        for _ in range(kills):
            here.kill_one()
            print(".", end="", file=sys.stderr, flush=True)
        here.close()
        known = committed(Path(os.environ[VARIABLE]))
        with Reader.open(here.home, timeout_s=30) as reader:
            missing = [words for run_id, curves in known.items() for words in lost(reader, run_id, curves)]
            statuses = Counter(row.status for row in reader.runs.find(limit=10_000))
        return {
            "kills": sum(here.kills.values()),
            "seed": seed,
            "by_victim_and_moment": dict(sorted(here.kills.items())),
            "runs": dict(sorted(statuses.items())),
            "points_committed": sum(points(curves.values()) for curves in known.values()),
            "points_lost": missing,
            "called_running_s": {"most": max(here.called_running_s, default=0.0), "allowed": HEARTBEATS_S},
            "processes_left": here.left,
            "segments_left": left_segments(before),
            "took_s": round(time.monotonic() - began, 1),
        }


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    save("kills", measure(chosen.kills, chosen.seed))


if __name__ == "__main__":
    main()
