"""Whole numbers counted by value, as histograms keep them: their mean and percentiles. Pure, torch-free."""

from collections import Counter
from collections.abc import Iterable, Mapping

Counts = Mapping[int, int]
"""How often each number was seen."""


def mean(counts: Counts) -> float:
    """Return the mean of all numbers counted; there is at least one."""
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def percentile(counts: Counts, percent: int) -> int:
    """Return the least number that at least so many percent of all numbers counted do not exceed."""
    left = -(-percent * sum(counts.values()) // 100)
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return max(counts)


def together(counts: Iterable[Counts]) -> dict[int, int]:
    """Return what several counted, added up."""
    found: Counter[int] = Counter()
    for one in counts:
        found.update(one)
    return dict(sorted(found.items()))
