"""Whole numbers counted by value, as in histograms: mean and percentiles. Pure, torch-free."""

from collections import Counter
from collections.abc import Iterable, Mapping

Counts = Mapping[int, int]
"""Number of occurrences of each value."""


def mean(counts: Counts) -> float:
    """Return the mean of all counted numbers; there is at least one."""
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def percentile(counts: Counts, percent: int) -> int:
    """Return the smallest number that at least this percentage of all counted numbers does not exceed."""
    left = -(-percent * sum(counts.values()) // 100)
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return max(counts)


def together(counts: Iterable[Counts]) -> dict[int, int]:
    """Return the sum of several counts."""
    found: Counter[int] = Counter()
    for one in counts:
        found.update(one)
    return dict(sorted(found.items()))
