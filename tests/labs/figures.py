"""Sweeps of published figures as a lab's store would hold them: their runs ended as asked, with times and accuracies
made up.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.home import Home
from engine.published import Size, figure
from engine.recorder import Point
from engine.store import RankBatch, RankRow, Reader, Store
from engine.store.records import RunRow, Status
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep
from tests.stand_in import worker

HERE = {"host": socket.gethostname(), "cpu": "Xeon", "cores": 2, "gpus": [], "git_commit": "abc"}


def figure_sweep(home: Home, name: str, size: Size = "reduced") -> tuple[int, list[RunRow]]:
    """Queue the sweep of a figure; return its id and its runs."""
    sweep_id = launch_sweep(home, figure(name).sweep(size, "Ada"))
    with Reader.open(home) as reader:
        return sweep_id, reader.sweeps.runs(sweep_id)


def end(
    home: Home,
    run: RunRow,
    time_s: float,
    status: Status = "finished",
    about: Mapping[str, Any] = HERE,
    points: Mapping[float, float] | None = None,
    devices: Sequence[str] = ("cpu",),
) -> None:
    """Take a queued run to its end, one rank per device; `points` are test accuracies by passes over the data."""
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), dict(about))
        store.worker.add_ranks(
            run.id,
            [
                RankRow(rank, f"trainer{rank + 1}", None, device, "running", 9, now(), None)
                for rank, device in enumerate(devices)
            ],
        )
        store.worker.mark_running(run.id, 1.0)
        tests = [
            Point("test/accuracy", place, value, float(place), passes)
            for place, (passes, value) in enumerate((points or {}).items(), 1)
        ]
        store.worker.write(run.id, [RankBatch(0, tests, {"compute": time_s})], progress=(10, 10, "samples"))
        store.claims.end(run.id, status, f"It {status}.", execution_time_s=time_s)


def pipeline(
    home: Home, time_s: Callable[[int], float], size: Size = "reduced", devices: Sequence[str] = ("cpu",)
) -> tuple[int, list[RunRow]]:
    """Queue and end the pipeline's sweep as it was run, each run in a time by its splits; a seed adds a hundredth of a
    second.
    """
    sweep_id, runs = figure_sweep(home, "pipeline_as_run", size)
    for run in runs:
        end(home, run, time_s(run.config["splits"]) + run.config["seed"] / 100, devices=devices)
    assert figure("pipeline_as_run").axis == "splits"
    return sweep_id, runs
