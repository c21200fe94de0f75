"""Speed-up and efficiency of each size against the reference point, with intervals over seeds. Torch-free and pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis.intervals import Interval, mean_interval
from engine.analysis.study import Timing

REFERENCE = 1
"""The count that speed-up is measured against."""


@dataclass(frozen=True)
class Size:
    """All runs of one line at one count."""

    count: int
    runs: int
    time_s: Interval
    per_second: Interval
    """Units of work a second."""
    speed_up: Interval | None
    """Work a second against the reference point's, seed by seed; None without one."""
    efficiency: Interval | None
    """Speed-up for each of what could work at a time (0 to 1)."""
    crowded: str
    """Why its ranks were in each other's way; empty where they were not."""


def sizes(timings: Sequence[Timing], workers: int | None = None) -> list[Size]:
    """Return the sizes of one line by rising count.

    `workers` is how many work at a time where that is not the count itself: the stages of a pipeline whose splits are counted. Speed-up compares
    work a second, so that it means the same whether all runs do the same work or each rank brings its own.
    """
    reference = {timing.seed: timing.per_second for timing in timings if timing.count == REFERENCE}
    base = sum(reference.values()) / len(reference) if reference else 0.0
    return [_size(count, [timing for timing in timings if timing.count == count], reference, base, workers) for count in _counts(timings)]


def why_no_fit(timings: Sequence[Timing], field: str) -> str:
    """Return why no law can be fitted to a line, with the cure; empty where one can."""
    counts = _counts(timings)
    if REFERENCE not in counts:
        return f"There is no reference point: no run with {field} {REFERENCE} has finished, and speed-up is against it. Add it to the sweep by Extend."
    if len(counts) < 3:
        return f"A law needs at least 3 sizes, and there {'is' if len(counts) == 1 else 'are'} {len(counts)} of {field}. Add values to the sweep by Extend."
    return ""


def _counts(timings: Sequence[Timing]) -> list[int]:
    return sorted({timing.count for timing in timings})


def _size(count: int, timings: Sequence[Timing], reference: dict[int, float], base: float, workers: int | None) -> Size:
    ratios = [timing.per_second / reference.get(timing.seed, base) for timing in timings] if reference else []
    at_once = workers or count
    return Size(
        count,
        len(timings),
        mean_interval([timing.execution_time_s for timing in timings]).within(0.0),
        mean_interval([timing.per_second for timing in timings]).within(0.0),
        mean_interval(ratios).within(0.0) if ratios else None,
        mean_interval([ratio / at_once for ratio in ratios]).within(0.0) if ratios else None,
        next((timing.crowded for timing in timings if timing.crowded), ""),
    )
