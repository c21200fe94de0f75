"""The number of model updates of a run, or its data exchanged, at a given time, from the ranks' records. Pure."""

from collections.abc import Sequence

import numpy as np

from engine.analysis.statistics.intervals import Floats

EXCHANGED = "perf/exchanged"
"""Metric with the data that a rank has exchanged so far, in MB."""


def growing(values: Floats) -> Floats:
    """Return a cumulative count that continues after a reset: a resumed run has its parent's points before its own,
    which count from 0.
    """
    drops = (
        np.where(np.diff(values, prepend=0.0) < 0, np.concatenate([[0.0], values[:-1]]), 0.0) if values.size else values
    )
    found: Floats = values + np.cumsum(drops)
    return found


def updates_at(times_s: Floats, clocks: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the number of updates at given times, summed over clocks (times, updates so far), with linear
    interpolation.

    A clock starts with 0 updates at time 0 and is constant after its last point. Without clocks all results are
    infinite: unknown.
    """
    if not clocks:
        return np.full(times_s.shape, np.inf)
    ordered = ((times, made, np.argsort(times, kind="stable")) for times, made in clocks if times.size)
    parts = [
        np.interp(times_s, np.concatenate([[0.0], times[order]]), np.concatenate([[0.0], made[order]]))
        for times, made, order in ordered
    ]
    total: Floats = np.sum(parts, axis=0) if parts else np.full(times_s.shape, np.inf)
    return total
