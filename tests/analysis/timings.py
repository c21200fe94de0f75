"""Timings as a machine that obeys a law would give them, with noise of a known size."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from engine.analysis.scaling.scaling_data import TimedRun

WORK = 1000.0


def made(
    speed_up: Callable[[float], float],
    counts: Iterable[int],
    seeds: int = 3,
    *,
    noise: float = 0.0,
    number: int = 0,
    rate: float = 50.0,
) -> list[TimedRun]:
    """Return runs of the same work whose rates follow `speed_up`, each off by a share of `noise` (standard
    deviation).
    """
    random = np.random.default_rng(number)
    found = []
    for seed in range(seeds):
        for count in counts:
            per_second = rate * speed_up(count) * (1 + noise * random.standard_normal())
            found.append(TimedRun(len(found) + 1, (), count, seed, WORK / per_second, WORK, ""))
    return found


def of_time(times_s: Sequence[tuple[int, float]], work: Callable[[int], float] = lambda count: WORK) -> list[TimedRun]:
    """Return a run for each count and time."""
    return [TimedRun(place, (), count, 0, time_s, work(count), "") for place, (count, time_s) in enumerate(times_s, 1)]
