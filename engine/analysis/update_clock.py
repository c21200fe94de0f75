"""How many updates a run's model had had by a moment, or how much its ranks had exchanged, read from what each of them
recorded. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.analysis.statistics.resample import Floats


@dataclass(frozen=True)
class Clock:
    """Which metric's points tell updates, and how: `steps` of all ranks that record it added up, their `mean`, or each
    of its `points` is one.
    """

    metric: str
    counts: Literal["steps", "mean", "points"] = "steps"


CLOCKS: Mapping[str, Clock] = {
    "async_sgd": Clock("train/loss"),
    "batched_reinforce": Clock("train/loss", "points"),
    "dppo": Clock("train/value_loss"),
    "hogwild": Clock("train/loss"),
    "parameter_server": Clock("test/accuracy"),
    "pipeline": Clock("train/loss"),
    "reference": Clock("train/loss"),
    "sync_sgd": Clock("train/loss", "mean"),
}
"""The clock of each experiment. Trainers count their own steps, each an update of the one model; where all step side by
side on copies that are averaged, a copy has had the mean of them. A batching server's tests stand at its count of
updates.
"""


EXCHANGED = "perf/exchanged"
"""What each rank that counts its exchange records of it so far, in MB."""


def growing(values: Floats) -> Floats:
    """Return a count so far that goes on where it began anew: a resumed run has its parent's points before its own,
    which count from 0.
    """
    drops = (
        np.where(np.diff(values, prepend=0.0) < 0, np.concatenate([[0.0], values[:-1]]), 0.0) if values.size else values
    )
    found: Floats = values + np.cumsum(drops)
    return found


def updates_at(times_s: Floats, clocks: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the updates made by each of some times, added over clocks (times, updates so far); between two points a
    clock goes evenly.

    A clock starts from no updates at time 0 and stands still after its last point. Without a clock all are infinite:
    not known.
    """
    if not clocks:
        return np.full(times_s.shape, np.inf)
    parts = [
        np.interp(times_s, np.concatenate([[0.0], times]), np.concatenate([[0.0], made]))
        for times, made in clocks
        if times.size
    ]
    total: Floats = np.sum(parts, axis=0) if parts else np.full(times_s.shape, np.inf)
    return total
