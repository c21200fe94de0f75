"""The readings of a sweep for a figure, and lookups on them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FigureReading:
    """One value of one run, with its line, x and seed."""

    line: str
    x: float
    seed: int
    run_id: int
    value: float


Readings = Mapping[str, Sequence[FigureReading]]
"""Readings by metric name."""


def at(readings: Readings, number: str, line: str, x: float) -> dict[int, float]:
    """Return the values of a metric at one point, by seed."""
    return {found.seed: found.value for found in readings.get(number, ()) if found.line == line and found.x == x}


def xs_of(readings: Readings, number: str, line: str) -> list[float]:
    """Return the xs at which a line has readings, in ascending order."""
    return sorted({found.x for found in readings.get(number, ()) if found.line == line})


def whole(readings: Readings, number: str, line: str) -> dict[int, dict[float, float]]:
    """Return the values by x of each seed that has a reading at every x of the line."""
    xs = xs_of(readings, number, line)
    by_seed: dict[int, dict[float, float]] = {}
    for found in readings.get(number, ()):
        if found.line == line:
            by_seed.setdefault(found.seed, {})[found.x] = found.value
    return {seed: values for seed, values in by_seed.items() if len(values) == len(xs)}
