"""The memory section of a run's page: what each rank measured last."""

import pytest

from app.run.memory_section import KINDS, step_memories
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Launch, RankBatch, RankRow, Store
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.app.reading import html, opened, said
from tests.labs.basic import worker


def sharded_run(store: Store, moments: dict[int, list[list[float]]], complete: int) -> int:
    """Add a run of two trainers with the sizes of each kind at the moments of each step, complete up to one."""
    config = experiment("fsdp").configure("quick")
    run_id = store.runs.add(Launch("fsdp", config.model_dump(mode="json"), "Ada", demand=demand(config, machine())))
    store.claims.claim(run_id, worker(), [])
    store.worker.begin(run_id, worker(), {"python": "3.11", "host": "lab"})
    roles = enumerate(config.roles)
    store.worker.add_ranks(
        run_id, [RankRow(rank, role, 5000 + rank, "cpu", "running", 1, now(), None, 1.0, 1.0) for rank, role in roles]
    )
    store.worker.mark_running(run_id, 1.0)
    points = [
        Point(f"perf/memory_{kind}", step, size, step + place / 10)
        for step, sizes in moments.items()
        for place, each in enumerate(sizes)
        for kind, size in zip(KINDS, each, strict=True)
    ]
    peaks = [Point("perf/memory_state", step, 9.0 + step, step + 1.0) for step in moments if step <= complete]
    store.worker.write(run_id, [RankBatch(rank, points + peaks) for rank in (0, 1)])
    return run_id


def test_a_step_that_is_not_complete_is_not_shown(store: Store) -> None:
    moments = {1: [[1.0, 0, 0, 0, 0]], 2: [[1.0, 0, 2.0, 0, 0], [4.0, 3.0, 2.0, 5.0, 1.0]], 10: [[7.0, 0, 2.0, 0, 0]]}
    run_id = sharded_run(store, moments, complete=2)
    first, second = step_memories(store.read.runs.one(run_id), store.read)
    assert (first.role, second.role, first.step) == ("trainer1", "trainer2", 2)
    assert first.times_s == pytest.approx([0.0, 0.1])
    assert first.sizes == {
        "parameters": [1.0, 4.0],
        "gradients": [0.0, 3.0],
        "optimizer": [2.0, 2.0],
        "activations": [0.0, 5.0],
        "buffers": [0.0, 1.0],
    }
    assert (first.state, first.whole) == (11.0, 15.0)


def test_the_page_places_the_section_with_a_table_of_peaks(store: Store) -> None:
    moments = {1: [[1.0, 0, 0, 0, 0]], 2: [[1.0, 0, 2.0, 0, 0], [4.0, 3.0, 2.0, 5.0, 1.0]]}
    page = opened("run", {"run": str(sharded_run(store, moments, complete=2)), "section": "Memory"})
    assert not page.exception
    assert "Memory" in page.button_group(key="section").options
    assert "Step 2, the last one measured" in said(page)
    shown = html(page)
    assert "Peak memory by rank" in shown
    assert all(f"<td>{role}</td><td>4</td><td>3</td><td>2</td><td>5</td>" in shown for role in ("trainer1", "trainer2"))
