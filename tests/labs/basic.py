"""A lab as its store would look: runs in every status, written through the real store."""

import atexit
import io
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from engine.commands.kept_files import keep_file
from engine.home import Home
from engine.pipelining import Schedule
from engine.recorder import Point, Span
from engine.registry import experiment
from engine.store import Launch, Store
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow, Status
from engine.store.runs.files import arriving_content
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.analysis.traces import made
from tests.stand_in import worker

ROLES = ("trainer1", "trainer2")
TRACEBACK = "\n".join(
    ["Traceback (most recent call last):"]
    + [f'  File "step.py", line {line}, in step\n    loss.backward()' for line in range(1, 21)]
    + ["RuntimeError: boom"]
)
"""The error of a failed run, longer than the box that shows it."""


def keep(store: Store, run_id: int, name: str, content: bytes) -> None:
    """Keep a file of a run, by its owner."""
    with arriving_content(store.db.home, io.BytesIO(content)) as arriving:
        keep_file(store, run_id, name, arriving, by=store.read.runs.one(run_id).owner)


def fill(home: Home) -> dict[Status, int]:
    """Add one run in each status, by two people, and return their ids."""
    ids: dict[Status, int] = {}
    with Store.open(home) as store:
        for status in ("finished", "failed", "lost", "cancelled", "stopping", "running", "starting", "queued"):
            ids[status] = add(store, "Ada" if len(ids) % 2 else "Grace <b>H</b>")
            if status != "queued":
                drive(store, home, ids[status], status)
    return ids


def filled(home: Home) -> dict[Status, int]:
    """Do what `fill` does, faster: copy a home that this process fills once. Ages count from then."""
    if home.database.exists():
        return fill(home)
    made, ids = _template()
    shutil.copytree(made.path, home.path, dirs_exist_ok=True)
    return dict(ids)


@cache
def _template() -> tuple[Home, dict[Status, int]]:
    made = Home(Path(tempfile.mkdtemp(prefix="parallab-lab-"))).create()
    atexit.register(shutil.rmtree, made.path, ignore_errors=True)
    return made, fill(made)


def add(store: Store, owner: str) -> int:
    """Queue one quick run."""
    config = experiment("hogwild").configure("quick")
    return store.runs.add(
        Launch("hogwild", config.model_dump(mode="json"), owner, "quick", "", demand=demand(config, machine()))
    )


def drive(store: Store, home: Home, run_id: int, status: Status) -> None:
    """Take a queued run to `status`, with points, ranks, phases and a log where it gets that far."""
    store.claims.claim(run_id, worker(), [])
    if status == "starting":
        return
    store.worker.begin(
        run_id, worker(), {"python": "3.11", "packages": {"torch": "2.15"}, "gpus": [], "git_commit": "abc"}
    )
    store.worker.add_ranks(
        run_id,
        [
            RankRow(rank, role, 4000 + rank, "cpu", "running", 99, now(), None, 480.0, 97.0)
            for rank, role in enumerate(ROLES)
        ],
    )
    store.worker.mark_running(run_id, 1.25)
    record(store, run_id, steps=100)
    (home.run_folder(run_id) / "logs").mkdir(parents=True)
    (home.run_folder(run_id) / "logs" / "worker.log").write_text("first line\nsecond line\n")
    store.worker.add_log(run_id, "worker", "logs/worker.log")
    if status == "stopping":
        store.runs.cancel(run_id, by="Ada")
    elif status == "cancelled":
        store.runs.cancel(run_id, by="Ada")
        store.claims.end(run_id, "cancelled", "Cancelled by Ada.")
    elif status != "running":
        store.claims.end(
            run_id,
            status,
            f"It {status}.",
            error=TRACEBACK if status == "failed" else "",
            execution_time_s=12.5,
        )


def record(store: Store, run_id: int, *, steps: int, first: int = 1) -> None:
    """Write `steps` points of loss for each rank, one of them NaN, and two of accuracy."""
    batches = []
    for rank in range(len(ROLES)):
        points = [
            Point(
                "train/loss",
                step,
                math.nan if step == 50 else 2.3 * math.exp(-step / 60) + 0.2 * math.sin(step * (rank + 1)),
                step / 50,
                step / 45,
            )
            for step in range(first, first + steps)
        ]
        tests = (
            [
                Point("test/accuracy", first + steps // 2, 90.0, 1.0, 1.0),
                Point("test/accuracy", first + steps - 1, 95.5, 2.0, 2.0),
            ]
            if rank == 0
            else []
        )
        batches.append(
            RankBatch(
                rank,
                [*points, *tests],
                {"compute": 8.0 + rank, "wait": 0.5, "evaluate": 0.4},
                last_step=first + steps - 1,
            )
        )
    at = now()
    samples = [MachineSample(at, "host", "cpu_percent", 93.0), MachineSample(at, "host", "memory_mb", 4000.0)]
    store.worker.write(run_id, batches, progress=(steps * 64, 200 * 64, "samples"), samples=samples)


def pipeline_run(
    store: Store,
    *,
    shares: tuple[float, ...],
    splits: int,
    mode: str = "gpipe",
    recorded: Sequence[int] = (0, 1, 2, 10, 19),
    ended: bool = True,
    trace: Mapping[str, Any] | None = None,
    **settings: Any,
) -> int:
    """Add a pipeline's run of 20 batches, some of them recorded span by span, as `trace` says
    (tests.analysis.traces.made); return its id.
    """
    changes = {"stages": len(shares), "splits": splits, "mode": mode, "batch_size": max(32, splits)}
    config = experiment("pipeline").configure(changes=changes | settings)
    run_id = store.runs.add(Launch("pipeline", config.model_dump(mode="json"), "Ada", demand=demand(config, machine())))
    store.claims.claim(run_id, worker(), [])
    store.worker.begin(run_id, worker(), {"python": "3.11", "host": "lab"})
    store.worker.add_ranks(
        run_id,
        [
            RankRow(rank, role, 5000 + rank, "cpu", "running", 19, now(), None, 480.0, 97.0)
            for rank, role in enumerate(config.roles)
        ],
    )
    store.worker.mark_running(run_id, 1.25)
    store.runs.add_event(
        run_id,
        "cut",
        "worker",
        f"The net was cut by measured time: cut={','.join(str(stage) for stage in range(1, len(shares)))}.",
    )
    order: Schedule = mode if mode in get_args(Schedule) else "gpipe"  # type: ignore[assignment]
    for batch in recorded:
        spans = made(order, shares, splits, batch=batch, chunks=2 if mode == "interleaved" else 1, **(trace or {}))
        kept = {"rpc": ("forward", "backward"), "torch_pipelining": ("forward", "backward", "update")}.get(mode)
        write_spans(store, run_id, [span for span in spans if not kept or span.name in kept])
    for stage, role in enumerate(config.roles[-len(shares) :]):
        points = [Point("perf/bubble_share", batch, 30 + 5 * math.sin(batch + stage), batch / 2) for batch in range(20)]
        points += [
            Point("perf/activations_held", 19, 96.5 / (stage + 1), 10.0),
            Point("perf/peak_memory", 19, 900.0 + 50 * stage, 10.0),
        ]
        store.worker.write(
            run_id,
            [RankBatch(config.roles.index(role), points, {"compute": 8.0, "wait": 2.0})],
            progress=(640, 640, "images"),
        )
    if ended:
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=12.5)
    return run_id


def write_spans(store: Store, run_id: int, spans: Sequence[Span]) -> None:
    """Write spans as the worker does, a batch a stage."""
    store.worker.write(
        run_id,
        [
            RankBatch(stage, spans=[span for span in spans if span.stage == stage])
            for stage in sorted({span.stage for span in spans})
        ],
    )
