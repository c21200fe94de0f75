"""The numbers that a sweep gives for a figure, and what is asked of them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.analysis.intervals import slope


@dataclass(frozen=True)
class Reading:
    """One number of one run: which line and x it stands at, and its seed."""

    line: str
    x: float
    seed: int
    run_id: int
    value: float


Readings = Mapping[str, Sequence[Reading]]
"""The readings of each number, by its name."""


def at(readings: Readings, number: str, line: str, x: float) -> dict[int, float]:
    """Return the values of a number at one point, by seed."""
    return {found.seed: found.value for found in readings.get(number, ()) if found.line == line and found.x == x}


def xs_of(readings: Readings, number: str, line: str) -> list[float]:
    """Return the xs at which a line has readings, rising."""
    return sorted({found.x for found in readings.get(number, ()) if found.line == line})


def means(readings: Readings, number: str, line: str) -> dict[float, float]:
    """Return the mean over seeds at each x of a line."""
    values = {x: list(at(readings, number, line, x).values()) for x in xs_of(readings, number, line)}
    return {x: sum(found) / len(found) for x, found in values.items()}


def slopes(readings: Readings, number: str, line: str) -> dict[int, float]:
    """Return the slope of each seed that has a reading at every x."""
    xs = xs_of(readings, number, line)
    by_seed: dict[int, dict[float, float]] = {}
    for found in readings.get(number, ()):
        if found.line == line:
            by_seed.setdefault(found.seed, {})[found.x] = found.value
    return {seed: slope(xs, [values[x] for x in xs]) for seed, values in by_seed.items() if len(values) == len(xs) > 1}
