"""What the tests on NVIDIA GPUs share: they are skipped without one, and carry out runs by real workers.

A run's worker is started as the runner starts it, on the GPUs that the test names; this process computes on none of
them.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

from engine.home import Home
from engine.launch import launch, resume
from engine.registry import experiment
from engine.runner.placement import LocalLauncher
from engine.runtime.rank import fork_server
from engine.store import ENDED, Launch, Run, Store
from engine.store.curve_records import MachineSample
from engine.system.checkpoint_state import last_checkpoint
from engine.system.cleanup import end_tree
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def gpus(request: pytest.FixtureRequest) -> None:
    """Skip a test without the GPUs that it needs: one, or as many as its mark `needs_gpus` says."""
    mark = request.node.get_closest_marker("needs_gpus")
    needed, found = (mark.args[0] if mark else 1), torch.cuda.device_count()
    if not torch.cuda.is_available() or found < needed:
        pytest.skip(
            f"needs {needed} NVIDIA GPU{'s' if needed > 1 else ''} that torch can use; this machine has {found}"
        )
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("needs the GPU without other tests beside it: make test-gpu")
    torch.set_num_threads(1)
    fork_server.start()


@dataclass
class GpuLab:
    """One home, whose runs get the GPUs that the test names."""

    store: Store
    launcher: LocalLauncher
    started: list[int] = field(default_factory=list)

    def start(self, name: str, gpus: tuple[int, ...] = (0,), **settings: Any) -> int:
        """Begin a run of an experiment on some GPUs, by number; on none it computes on the CPU."""
        config = experiment(name).config.check({"device": "auto", "threads_per_rank": 1} | settings)
        return self._begin(launch(self.store.db.home, Launch(name, config.model_dump(mode="json"), "ada")), gpus)

    def go_on(self, run_id: int, gpus: tuple[int, ...]) -> int:
        """Resume a run on other GPUs."""
        return self._begin(resume(self.store.db.home, run_id, owner="ada"), gpus)

    def _begin(self, run_id: int, gpus: tuple[int, ...]) -> int:
        worker = self.launcher.reserve()
        assert self.store.claims.claim(run_id, worker, gpus)
        self.launcher.submit(worker, run_id)
        self.started.append(run_id)
        return run_id

    def ended(self, run_id: int) -> Run:
        """Return a run once it has ended."""
        wait_until(lambda: self.store.read.runs.one(run_id).status in ENDED, f"run {run_id} ends")
        return self.store.read.runs.one(run_id)

    def stop_after_checkpoint(self, run_id: int) -> None:
        """End a run from outside once it has a checkpoint, so that it can be resumed."""
        folder = self.store.db.home.run_folder(run_id)
        wait_until(lambda: last_checkpoint(folder) or self.store.read.runs.one(run_id).status in ENDED, "it is saved")
        worker = self.store.read.runs.one(run_id).worker
        assert worker
        self.launcher.cancel(worker)
        assert self.ended(run_id).cause.startswith("The worker received SIGTERM"), self.ended(run_id).cause

    def devices(self, run_id: int) -> list[str]:
        """Return the device of each rank."""
        return [row.device for row in self.store.read.details.ranks(run_id)]

    def samples(self, run_id: int) -> list[MachineSample]:
        """Return what was measured of the machine during a run."""
        return self.store.read.details.machine(run_id)

    def last(self, run_id: int, metric: str) -> list[float]:
        """Return the last value of a metric in each rank that recorded it; none of its values is NaN or infinite."""
        found = [each for each in self.store.read.details.summaries(run_id) if each.metric == metric]
        assert not any(each.nonfinite for each in found)
        return [each.last for each in found if each.last is not None and math.isfinite(each.last)]

    def finished(self, run_id: int) -> None:
        """Wait for a run's end, which must be a good one, with a loss and a time."""
        run = self.ended(run_id)
        assert run.status == "finished", f"{run.cause}\n{run.error}"
        assert self.last(run_id, "train/loss") and self.last(run_id, "perf/execution_time_s")


@pytest.fixture
def lab(home: Home) -> Iterator[GpuLab]:
    """Return a lab; nothing of its runs is left afterwards."""
    launcher = LocalLauncher(home)
    with Store.open(home) as store:
        made = GpuLab(store, launcher)
        yield made
        for worker in filter(None, (store.read.runs.one(run_id).worker for run_id in made.started)):
            end_tree(worker)
            wait_until(partial(launcher.poll, worker), "the worker has ended")
    launcher.close()
