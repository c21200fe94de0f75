"""How execution time should fall as an axis grows: the lines that an experiment's sweeps are read against. Torch-free."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Baseline:
    """What was measured where the axis has the value that the lines start from: one config, means over its finished runs."""

    config: Mapping[str, Any]
    execution_time_s: float
    phases: Mapping[str, Mapping[str, float]]
    """Seconds of each role in each phase."""


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
    rank_metrics: tuple[str, ...] = ()
    """Metrics that are drawn with a line a rank."""


def ideal_time_s(one_split_s: float, splits: int, stages: int) -> float:
    """Return the execution time of a pipeline whose stages take equally long and whose micro-batches cost nothing extra: T1 (m + p - 1) / (m p).

    `one_split_s` is T1, measured with 1 split, where only one of the p stages works at a time (Huang et al., GPipe, section 2.3).
    """
    return one_split_s * (splits + stages - 1) / (splits * stages)


def unequal_stages_time_s(one_split_s: float, splits: int, largest_share: float) -> float:
    """Return the least execution time of a GPipe whose slowest stage does `largest_share` (0 to 1) of the work: T1 (s + (1 - s) / m).

    The slowest stage has to get through all of its own work, and waits while one micro-batch, there and back, passes the others. 1F1B can hide
    part of that wait, never the stage's own work.
    """
    return one_split_s * (largest_share + (1 - largest_share) / splits)


def stage_shares(phases: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return each stage's share of the work (phases `compute` and `update`) by role; empty where no stage recorded any."""
    seconds = {role: spent.get("compute", 0.0) + spent.get("update", 0.0) for role, spent in phases.items() if role.startswith("stage")}
    whole = sum(seconds.values())
    return {role: spent / whole for role, spent in seconds.items()} if whole > 0 else {}


def _pipeline_references(baseline: Baseline, splits: Sequence[int]) -> list[Reference]:
    start, stages = baseline.execution_time_s, int(baseline.config["stages"])
    lines = [Reference("ideal", "dash", tuple(ideal_time_s(start, each, stages) for each in splits))]
    if shares := stage_shares(baseline.phases):
        largest = max(shares.values())
        lines.append(Reference("bound for these stages", "dot", tuple(unequal_stages_time_s(start, each, largest) for each in splits)))
    return lines


PIPELINE = Scaling(
    "splits",
    1,
    _pipeline_references,
    "Ideal: the work with 1 split, spread evenly over the stages. Bound: the slowest stage's own share of it, and a wait while one micro-batch passes "
    "the other stages, part of which 1f1b can hide.",
    ("perf/activations_held", "perf/peak_memory"),
)
