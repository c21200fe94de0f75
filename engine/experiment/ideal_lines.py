"""Reference lines for execution time in an experiment's sweeps. Torch-free."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Baseline:
    """The measurement at the start value of the axis: one config, means over its finished runs."""

    config: Mapping[str, Any]
    execution_time_s: float
    stage_work: Sequence[tuple[float, float]] = ()
    """Seconds of each stage's forwards and backwards per batch; empty if no batch was recorded."""


@dataclass(frozen=True)
class Reference:
    """One reference line: a label, a dash style, and a time in seconds per value of the axis."""

    label: str
    dash: Literal["dash", "dot"]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class Scaling:
    """How the sweeps of an experiment are drawn."""

    field: str
    """The axis: lines are drawn where it is the first field of a sweep."""
    start: Any
    """The axis value whose measured execution time the lines start from."""
    references: Callable[[Baseline, Sequence[int]], list[Reference]]
    """Compute the lines at the given axis values from the measurement at `start`."""
    explained: str
    """Explanation of the lines, shown with the chart."""
    called: str = "The lines"
    """Name of the lines at the start of a sentence."""
    at_once: str = ""
    """The setting with the number of parallel workers, if it is not the axis."""
    rank_metrics: tuple[str, ...] = ()
    """Metrics drawn with one line per rank."""
