"""Kills with -9 at random moments. What a kill at a known moment does is in test_faults.py."""

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import script_kills
from engine.home import Home
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader, Store
from engine.store.records import ALIVE, ENDED, ProcessIdentity, Run
from engine.system.cleanup import SHARED, SHARED_PREFIXES, end_tree, tree
from engine.system.processes import end_session, identity, is_alive
from engine.system.runner_process import ensure_running, runner_process
from tests.faults.commit_log import committed, environment, lost, points
from tests.waiting import wait_until

pytestmark = pytest.mark.long
VICTIMS = ("runner", "worker", "rank")
HEARTBEATS_S = 4.0
"""Two heartbeats of 2 s: so long after the end of its worker or rank a run may still be called running."""
COMMITS = "commits.jsonl"
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
    """One home with its runner, and what was seen of it."""

    home: Home
    random: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    called_running_s: list[float] = field(default_factory=list)
    workers: dict[int, ProcessIdentity] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

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
            launch(
                self.home,
                Launch("hogwild", experiment("hogwild").configure(None, SETTINGS).model_dump(mode="json"), "test"),
                timeout_s=30,
            )

    def kill_one(self) -> None:
        """Kill one process at a random moment, then see what becomes of it."""
        self.keep_busy()
        victim = self.random.choice(VICTIMS)
        self._wait_for(victim)
        time.sleep(self.random.uniform(0, 1.5))
        found = self._find(victim)
        if found is None:
            return self.kill_one()  # it ended meanwhile
        process, run = found
        if run and run.status != "stopping" and self.random.random() < 0.2:
            with Store.open(self.home) as store:
                run = self.run(run.id) if store.runs.cancel(run.id, by="test") else run
        moment = run.status if run else (alive[0].status if (alive := self.runs(*ALIVE)) else "queued")
        with suppress(ProcessLookupError):  # it was cancelled just now, and has ended since
            os.kill(process.pid, signal.SIGKILL)
        self.kills[f"{victim}, {moment}"] += 1
        wait_until(lambda: not is_alive(process), f"the {victim} to be dead")
        if run:
            self._sees_the_end(run)
        self._recover()
        return None

    def _wait_for(self, victim: str) -> None:
        wait_until(lambda: self._find(victim) is not None, f"a {victim} to kill")

    def _find(self, victim: str) -> tuple[ProcessIdentity, Run | None] | None:
        """Return a process of that kind that is alive, with its run where it has one."""
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
            f"run {run.id} to be no longer called running",
        )
        self.called_running_s.append(round(time.monotonic() - began, 2))
        wait_until(lambda: self.run(run.id).status in ENDED, f"run {run.id} to end")

    def _recover(self) -> None:
        """Start the runner again if it was killed, as the console would."""
        ensure_running(self.home)
        wait_until(lambda: runner_process(self.home) is not None, "a runner")

    def close(self) -> None:
        """Cancel all that is left, end the runner, and note whatever is still there."""
        with Store.open(self.home, timeout_s=30) as store:
            for run in self.runs("queued", *ALIVE):
                if run.worker:
                    self.workers[run.id] = run.worker
                store.runs.cancel(run.id, by="the end of the test")
        wait_until(lambda: not self.runs("queued", *ALIVE), "all runs to end")
        runner = runner_process(self.home)
        with Store.open(self.home, timeout_s=30) as store:
            store.runner.ask_to_stop()
        wait_until(lambda: runner is None or not is_alive(runner), "the runner to end")
        self.left = [
            f"process {pid} of run {run_id}"
            for run_id, worker in self.workers.items()
            for pid in tree(worker, self.home.path)
        ]


@contextmanager
def lab(seed: int) -> Iterator[Lab]:
    """Yield a lab in a folder of its own, whose workers log what the store has taken; end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="parallab-kills-") as folder:
        home = Home(Path(folder) / "home").create()
        made = Lab(home, random.Random(seed))
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in environment(Path(folder) / COMMITS).items():
                    patch.setenv(name, value)
                ensure_running(home)
                yield made
        finally:
            if runner := runner_process(home):
                end_session(runner, grace_s=0.0)
            for run in made.runs(*ALIVE):
                if run.worker:
                    end_tree(run.worker, home.path)


def left_segments(before: set[str]) -> list[str]:
    """Return what is shared now and was not before, once that stays: other programs of the machine share memory for a
    moment too.
    """
    deadline = time.monotonic() + 10
    while (left := segments() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return sorted(left)


def segments() -> set[str]:
    """Return the names of the shared memory that torch and multiprocessing have made on this machine."""
    return {path.name for path in SHARED.iterdir() if path.name.startswith(SHARED_PREFIXES)}


def test_kills_at_random_moments_lose_nothing_hang_nothing_and_leave_nothing() -> None:
    before = segments()
    with lab(seed=4) as here:
        for _ in range(6):
            here.kill_one()
        here.close()
        known = committed(here.home.path.parent / COMMITS)
        with Reader.open(here.home, timeout_s=30) as reader:
            missing = [words for run_id, curves in known.items() for words in lost(reader, run_id, curves)]
    assert sum(here.kills.values()) == 6
    assert sum(points(curves.values()) for curves in known.values()) > 0
    assert missing == []
    assert max(here.called_running_s, default=0.0) <= HEARTBEATS_S
    assert (here.left, left_segments(before)) == ([], [])


def test_kills_beside_a_script_of_ones_own_lose_and_double_no_point_and_leave_nothing() -> None:
    with script_kills.lab(seed=4) as here:
        for victim in (*script_kills.VICTIMS, "cancel"):
            here.of_command(victim)
        for victim in ("rank", "worker"):
            here.of_attached(victim)
    assert (here.wrong, here.done.total()) == ([], 8)
