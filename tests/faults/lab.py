"""A home with a runner, runs that go on until they are ended, and what a test asks about them and their processes."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from engine.home import Home
from engine.launch import launch
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.store import Launch, Reader, Store
from engine.store.records import ALIVE, ENDED, ProcessIdentity, Run, Status
from engine.system.cleanup import SHARED, Footprint, look, made_by, tree
from engine.system.processes import is_alive
from engine.system.runner_process import ensure_running, runner_process
from tests.conftest import end_processes_of
from tests.waiting import wait_until

CALM: Mapping[str, Any] = {
    "dataset": "digits",
    "trainers": 2,
    "rounds": 100_000,
    "evaluate_every": 0,
    "transport": "shared_memory",
    "sleep_ms": 20,
    "device": "cpu",
    "threads_per_rank": 1,
}
"""A run of sync_sgd that goes on for hours and sleeps most of the time."""


@dataclass
class Lab:
    """One home; its runs share the cores, so that all of them are on at once."""

    home: Home
    ready: list[int] = field(default_factory=list)
    """Runs that train and that no test has taken yet."""
    footprints: dict[int, Footprint] = field(default_factory=dict)

    def serve(self) -> ProcessIdentity:
        """Start a runner where none is alive, and return it once it serves."""
        ensure_running(self.home)
        wait_until(lambda: runner_process(self.home) is not None, "a runner serves the home")
        return self.runner()

    def runner(self) -> ProcessIdentity:
        """Return the live runner."""
        process = runner_process(self.home)
        assert process is not None
        return process

    def run(self, run_id: int) -> Run:
        """Return a run as it stands."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return reader.runs.one(run_id)

    def launch(self, name: str = "sync_sgd", settings: Mapping[str, Any] = CALM, *, oversubscribe: bool = True) -> int:
        """Queue a run and return its id."""
        config = experiment(name).configure(None, dict(settings))
        return launch(
            self.home,
            Launch(name, config.model_dump(mode="json"), "ada", terms=LaunchOptions(oversubscribe=oversubscribe)),
            timeout_s=30,
        )

    def training(self) -> int:
        """Return a run that trains and that no other test has."""
        if not self.ready:
            self.start(1)
        return self.ready.pop(0)

    def start(self, many: int) -> None:
        """Start so many runs at once, for tests to come."""
        started = [self.launch() for _ in range(many)]
        for run_id in started:
            self.until_training(run_id)
        self.ready += started

    def until_training(self, run_id: int) -> None:
        """Wait until the ranks of a run train."""
        wait_until(
            lambda: self.run(run_id).progress_done > 0 or self.run(run_id).status in ENDED, f"run {run_id} trains"
        )
        assert self.run(run_id).status == "running", self.run(run_id).cause
        self.note(run_id)

    def note(self, run_id: int) -> None:
        """Note what the run has on the machine, of which nothing may be left in the end."""
        self.footprints[run_id] = self.footprints.get(run_id, Footprint()) | look(self.worker(run_id), self.home.path)

    def goes_on(self, run_id: int) -> bool:
        """Wait until the run has trained further or has ended; say whether it goes on."""
        before = self.run(run_id).progress_done
        wait_until(
            lambda: self.run(run_id).progress_done > before or self.run(run_id).status in ENDED, f"run {run_id} goes on"
        )
        return self.run(run_id).status == "running"

    def worker(self, run_id: int) -> ProcessIdentity:
        """Return a run's worker."""
        worker = self.run(run_id).worker
        assert worker is not None
        return worker

    def ranks(self, run_id: int) -> dict[str, int]:
        """Return the pids of a run's ranks, by role."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return {row.role: row.pid for row in reader.details.ranks(run_id) if row.pid and row.state != "ended"}

    def points(self, run_id: int) -> int:
        """Return how many points of a run the store has."""
        with Reader.open(self.home, timeout_s=30) as reader:
            return sum(summary.count for summary in reader.details.summaries(run_id))

    def hold(self, run_id: int) -> int:
        """Stop a rank of a run as soon as there is one; return its pid."""
        wait_until(lambda: bool(self.ranks(run_id)) or self.run(run_id).status in ENDED, f"run {run_id} has ranks")
        held = next(iter(self.ranks(run_id).values()))
        os.kill(held, signal.SIGSTOP)
        return held

    def cancel(self, run_id: int, by: str = "grace", *, force: bool = False) -> Status:
        """Ask for a run's end; return the status that it then has."""
        with Store.open(self.home, timeout_s=30) as store:
            return store.runs.cancel(run_id, by=by, force=force)

    def ended(self, run_id: int) -> Run:
        """Return the run once it has ended, and nothing of it is left: no process, no shared memory."""
        wait_until(lambda: self.run(run_id).status in ENDED, f"run {run_id} ends")
        run, seen = self.run(run_id), self.footprints.get(run_id, Footprint())
        shared = [path for path in seen.paths if path.parent == SHARED]
        wait_until(
            lambda: run.worker is None or tree(run.worker, self.home.path) == [], f"no process of run {run_id} is left"
        )
        wait_until(
            lambda: not made_by(seen.pids) and not any(path.exists() for path in shared),
            f"no shared memory of run {run_id} is left",
        )
        return run

    def cancel_all(self) -> None:
        """End all runs by force."""
        with Reader.open(self.home, timeout_s=30) as reader:
            left = [row.id for row in reader.runs.find(statuses=("queued", *ALIVE))]
        for run_id in left:
            self.cancel(run_id, "the test's end", force=True)
        wait_until(lambda: all(self.run(run_id).status in ENDED for run_id in left), "all runs have ended")

    def close(self) -> None:
        """End all runs and the runner; nothing of them may be left."""
        if process := runner_process(self.home):
            self.cancel_all()
            with Store.open(self.home, timeout_s=30) as store:
                store.runner.ask_to_stop()
            wait_until(
                lambda: not is_alive(process) and tree(process, self.home.path) == [], "nothing is left of the runner"
            )
        end_processes_of(self.home)  # those of a test that failed half-way


def go_on(held: int) -> None:
    """Let a stopped process go on."""
    with suppress(ProcessLookupError):  # it died with its worker
        os.kill(held, signal.SIGCONT)
