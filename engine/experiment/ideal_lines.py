"""How execution time should fall as an axis grows: the lines that an experiment's sweeps are read against.
Torch-free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Baseline:
    """What was measured where the axis has the value that the lines start from: one config, means over its finished
    runs.
    """

    config: Mapping[str, Any]
    execution_time_s: float
    stage_work: Sequence[tuple[float, float]] = ()
    """Seconds of each stage's forwards and backwards in one batch; empty where no batch was recorded."""


@dataclass(frozen=True)
class Reference:
    """One line that nobody measured: a label, how it is dashed, and a time in seconds at each value of the axis."""

    label: str
    dash: Literal["dash", "dot"]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class Scaling:
    """What the sweeps of an experiment are read by."""

    field: str
    """The axis: lines are drawn where it is the first field of a sweep."""
    start: Any
    """The value of the axis whose measured execution time the lines start from."""
    references: Callable[[Baseline, Sequence[int]], list[Reference]]
    """The lines at some values of the axis, from what was measured at `start`."""
    explained: str
    """What the lines mean, for whoever reads the chart."""
    called: str = "The lines"
    """What the lines are called together at the start of a sentence."""
    at_once: str = ""
    """The setting that says how many work at a time, where that is not the value of the axis."""
    rank_metrics: tuple[str, ...] = ()
    """Metrics that are drawn with a line a rank."""
