"""An exercise of a test's own, and runs of its attempts at their end."""

from collections.abc import Mapping
from typing import Any

from engine.exercises.files import Exercise, read
from engine.home import Home
from engine.recorder import Point
from engine.store import ProcessIdentity, Store

WORKER = ProcessIdentity("boot", 4242, 77)
SWEEP = """---
title: Trainers
experiment: hogwild
preset: quick
sweep:
  trainers: [1, 2, 4]
change:
  batch_size: 16..64
  learning_rate: [0.01, 0.05]
predict:
  kind: curve
  of: test/accuracy.last
  low: 0
  high: 100
questions:
  - Why?
---
Think.
"""
SINGLE = SWEEP.replace("sweep:\n  trainers: [1, 2, 4]\n", "").replace("kind: curve", "kind: number")


def exercise(text: str = SWEEP, name: str = "trainers") -> Exercise:
    return read(text.encode(), name)


def own(home: Home, text: str = SWEEP, name: str = "trainers") -> Exercise:
    """Write an exercise into the home and return it."""
    home.exercises.mkdir(exist_ok=True)
    (home.exercises / f"{name}.md").write_text(text)
    return exercise(text, name)


def end(store: Store, run_id: int, values: Mapping[str, Any], status: Any = "finished") -> None:
    """Take a queued run to its end with the last values of some metrics."""
    assert store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    store.worker.mark_running(run_id, 0.5)
    points = [Point(name, 1, value, 1.0) for name, value in values.items()]
    store.worker.write(run_id, [], run_points=points)
    store.claims.end(run_id, status, "It ended.", execution_time_s=2.0)
