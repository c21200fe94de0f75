"""Sweeps as a lab's store would hold them: a pipeline over splits and modes whose runs ended as asked."""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from engine.home import Home
from engine.recorder import Point, Span
from engine.registry import experiment
from engine.store import Launch, RankBatch, RankRow, Reader, Store, SweepLaunch
from engine.store.records import RunRow, Status
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep
from tests.stand_in import worker

SHARES = (0.6, 0.4)
"""How the two stages share the work."""
ONE_SPLIT_S = {"gpipe": 12.0, "1f1b": 10.0}
"""Execution time with 1 split by mode; a seed adds a tenth of a second."""


def pipeline(
    home: Home, grid: Mapping[str, Sequence[Any]], seeds: int = 1, *, owner: str = "Ada", title: str = ""
) -> tuple[int, list[RunRow]]:
    """Queue a sweep of quick pipelines; return its id and its runs."""
    sweep_id = launch_sweep(
        home,
        SweepLaunch(
            Launch("pipeline", experiment("pipeline").preset("quick").settings, owner, "quick", title), grid, seeds
        ),
    )
    with Reader.open(home) as reader:
        return sweep_id, reader.sweeps.runs(sweep_id)


def drive(home: Home, run: RunRow, status: Status = "finished") -> None:
    """Take a queued run of a pipeline to a status, with ranks, phases, memory and accuracy."""
    splits, mode, seed = (run.config[name] for name in ("splits", "mode", "seed"))
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        if status == "starting":
            return
        store.worker.begin(run.id, worker(), {"host": socket.gethostname()})
        store.worker.add_ranks(
            run.id, [RankRow(rank, f"stage{rank + 1}", None, "cpu", "running", 9, now(), None) for rank in range(2)]
        )
        store.worker.mark_running(run.id, 0.5)
        store.worker.write(
            run.id,
            [_of_stage(rank, splits, mode) for rank in range(2)],
            run_points=_of_run(splits, seed),
            progress=(45, 120, "batches"),
        )
        if status == "stopping":
            store.runs.cancel(run.id, by="Ada")
        elif status != "running":
            store.claims.end(run.id, status, f"It {status}.", execution_time_s=execution_time_s(splits, mode, seed))


def execution_time_s(splits: int, mode: str, seed: int) -> float:
    """Return what a run takes: bound by the slower stage, with some overhead a split."""
    return ONE_SPLIT_S[mode] * (SHARES[0] + (1 - SHARES[0]) / splits + 0.02 * (splits - 1)) + 0.1 * seed


def _of_stage(rank: int, splits: int, mode: str) -> RankBatch:
    held = float(splits if mode == "gpipe" else min(splits, 2 - rank))
    numbers = [
        Point("perf/activations_held", 9, held, 1.0),
        Point("perf/peak_memory", 9, 150.0 + 40 * held / splits + 30 * rank, 1.0),
    ]
    return RankBatch(
        rank,
        numbers,
        {"compute": 9 * SHARES[rank], "update": SHARES[rank], "wait": 2.0},
        _spans(rank, splits),
        last_step=9,
    )


def _spans(rank: int, splits: int) -> list[Span]:
    """Return the forwards and backwards of the first batch, a backward twice as long as a forward, one
    after another.
    """
    unit = round(SHARES[rank] * 1e9 / splits)
    forwards = [Span("forward", rank, number, number * unit, (number + 1) * unit) for number in range(splits)]
    return forwards + [
        Span("backward", rank, number, (splits + 2 * number) * unit, (splits + 2 * number + 2) * unit)
        for number in range(splits)
    ]


def _of_run(splits: int, seed: int) -> list[Point]:
    return [
        Point("test/accuracy", 60, 80.0, 5.0),
        Point("test/accuracy", 120, 96.0 - splits / 4 + seed / 10, 10.0),
        Point("train/loss", 1, 2.0, 0.1),
    ]
