"""Runs that differ only in seed, as one number with its spread. Torch-free."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """One number of several runs of one combination."""

    key: tuple[Hashable, ...]
    """The values of the varied fields; the first is the x-axis, the others identify the line."""
    values: Mapping[int, float]
    """The number of each run by run id; never empty."""

    @property
    def mean(self) -> float:
        return sum(self.values.values()) / len(self.values)

    @property
    def low(self) -> float:
        return min(self.values.values())

    @property
    def high(self) -> float:
        return max(self.values.values())


def grouped(found: Iterable[tuple[tuple[Hashable, ...], int, float]]) -> list[Group]:
    """Return triples of key, run id and number as one group per key, in order of first appearance."""
    by_key: dict[tuple[Hashable, ...], dict[int, float]] = {}
    for key, run_id, value in found:
        by_key.setdefault(key, {})[run_id] = value
    return [Group(key, values) for key, values in by_key.items()]
