"""A lab as its store would look: runs in every status, written through the real store."""

import math

from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.runtime.machine import demand, machine
from engine.runtime.processes import me
from engine.store import Store
from engine.store.clock import now
from engine.store.records import MachineSample, RankBatch, RankRow, Status

ROLES = ("trainer1", "trainer2")


def fill(home: Home) -> dict[Status, int]:
    """Add one run in each status, by two people, and return their ids."""
    ids: dict[Status, int] = {}
    with Store.open(home) as store:
        for status in ("finished", "failed", "lost", "cancelled", "stopping", "running", "starting", "queued"):
            ids[status] = add(store, "Ada" if len(ids) % 2 else "Grace <b>H</b>")
            if status != "queued":
                drive(store, home, ids[status], status)
    return ids


def add(store: Store, owner: str) -> int:
    """Queue one quick run."""
    config = experiment("hogwild").configure("quick")
    return store.add_run("hogwild", config.model_dump(mode="json"), owner=owner, demand=demand(config, machine()), preset="quick", name="")


def drive(store: Store, home: Home, run_id: int, status: Status) -> None:
    """Take a queued run to `status`, with points, ranks, phases and a log where it gets that far."""
    store.claim(run_id, me(), [])
    if status == "starting":
        return
    store.begin(run_id, me(), {"python": "3.11", "packages": {"torch": "2.15"}, "gpus": [], "git_commit": "abc"})
    store.add_ranks(run_id, [RankRow(rank, role, 4000 + rank, "cpu", "running", 99, now(), None, 480.0, 97.0) for rank, role in enumerate(ROLES)])
    store.mark_running(run_id, 1.25)
    record(store, run_id, steps=100)
    (home.run_folder(run_id) / "logs").mkdir(parents=True)
    (home.run_folder(run_id) / "logs" / "worker.log").write_text("first line\nsecond line\n")
    store.add_log(run_id, "worker", "logs/worker.log")
    if status == "stopping":
        store.request_cancel(run_id, by="Ada")
    elif status == "cancelled":
        store.request_cancel(run_id, by="Ada")
        store.end(run_id, "cancelled", "Cancelled by Ada.")
    elif status != "running":
        store.end(run_id, status, f"It {status}.", error="Traceback: boom" if status == "failed" else "", execution_time_s=12.5)


def record(store: Store, run_id: int, *, steps: int, first: int = 1) -> None:
    """Write `steps` points of loss for each rank, one of them NaN, and two of accuracy."""
    batches = []
    for rank in range(len(ROLES)):
        points = [
            Point("train/loss", step, math.nan if step == 50 else 2.3 * math.exp(-step / 60) + 0.2 * math.sin(step * (rank + 1)), step / 50, step / 45)
            for step in range(first, first + steps)
        ]
        tests = [Point("test/accuracy", first + steps // 2, 90.0, 1.0, 1.0), Point("test/accuracy", first + steps - 1, 95.5, 2.0, 2.0)] if rank == 0 else []
        batches.append(RankBatch(rank, [*points, *tests], {"compute": 8.0 + rank, "wait": 0.5, "evaluate": 0.4}, last_step=first + steps - 1))
    samples = [MachineSample(now(), "host", "cpu_percent", 93.0), MachineSample(now(), "host", "memory_mb", 4000.0)]
    store.write(run_id, batches, progress=(steps * 64, 200 * 64, "samples"), samples=samples)
