"""A class: small exercises of the lab's own, and attempts whose runs are played."""

from collections.abc import Mapping
from typing import Any

from engine.exercises.attempts import launch_attempt, predict
from engine.exercises.catalogue import ExerciseCatalogue
from engine.exercises.files import Exercise
from engine.home import Home
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from tests.labs.small import finish

HEAD = """---
title: {title}
experiment: hogwild
preset: quick
settings:
  epochs: 1
{more}
questions:
  - Why is it so?
---
Several trainers write into one model. See [Hogwild!](docs/experiments/hogwild.md) about staleness.
"""
SPEED = """sweep:
  trainers: [1, 2]
time_counts: yes
repeats: 1
predict:
  kind: curve
  of: perf/execution_time_s.last
  text: How long does a run take?
  low: 0
  high: 10"""
RANKING = """sweep:
  trainers: [1, 2, 4]
predict:
  kind: order
  of: test/accuracy.last
  first: highest"""
ACCURACY = """change:
  learning_rate: 0.01..0.1
predict:
  kind: number
  of: test/accuracy.last
  low: 0
  high: 100"""
FILES = {
    "speed": ("How fast is it?", SPEED),
    "ranking": ("Which one learns best?", RANKING),
    "accuracy": ("How accurate is it?", ACCURACY),
}


def write(home: Home, *names: str, **others: str) -> ExerciseCatalogue:
    """Write exercises into the home, and `others` by their text; return its catalogue."""
    home.exercises.mkdir(exist_ok=True)
    texts = {name: HEAD.format(title=FILES[name][0], more=FILES[name][1]) for name in names}
    for name, text in (texts | others).items():
        (home.exercises / f"{name}.md").write_text(text)
    return ExerciseCatalogue(home)


def attempt(
    home: Home, exercise: Exercise, prediction: Any, by: str, *, changes: Mapping[str, Any] | None = None, **more: Any
) -> ExerciseAttempt:
    """Begin an attempt, and launch it with `changes` unless they are None."""
    made = predict(home, exercise, prediction, by=by, **more)
    if changes is not None:
        return launch_attempt(home, made, changes, by=by)
    with Reader.open(home) as reader:
        return reader.exercises.attempt(made)


def play(home: Home, of: ExerciseAttempt) -> None:
    """Take the runs of an attempt to their end: 2 s with one trainer, half a second more with each other one."""
    with Reader.open(home) as reader:
        runs = [reader.runs.entry(run_id) for run_id in of.runs]
    for run in runs:
        finish(home, run, work=10_000, time_s=1.5 + 0.5 * run.config["trainers"])
