"""Runs of a store that came to their end with a value of a metric."""

from typing import Any

from engine.recorder import Point
from engine.store import Demand, Launch, Store
from tests.store.conftest import WORKER


def finish(
    store: Store,
    config: dict[str, Any],
    value: float | None,
    *,
    experiment: str = "hogwild",
    owner: str = "ada",
    name: str = "test/accuracy",
) -> int:
    """Take a run to its end, with a metric that came to `value` after a better and a worse one."""
    run_id = store.runs.add(Launch(experiment, config, owner, "quick", demand=Demand(1, 0, 1, 1)))
    return end(store, run_id, value, name)


def end(store: Store, run_id: int, value: float | None, name: str = "test/accuracy") -> int:
    assert store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    store.worker.mark_running(run_id, 0.5)
    if value is not None:
        store.worker.write(
            run_id,
            [],
            run_points=[Point(name, step, each, 1.0) for step, each in enumerate((value + 50, value - 50, value))],
        )
    store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0)
    return run_id
