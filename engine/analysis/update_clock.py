"""How many updates a run's model had had by a moment, or how much its ranks had exchanged, read from what each of them
recorded. Pure.
"""

from collections.abc import Sequence

import numpy as np

from engine.analysis.statistics.resample import Floats

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
