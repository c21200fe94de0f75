"""How execution time should fall as an axis grows: the lines that an experiment's sweeps are read against.
Torch-free.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.pipelining.schedules import Schedule, order_of
from engine.pipelining.simulation import speed_up_bound


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
    rank_metrics: tuple[str, ...] = ()
    """Metrics that are drawn with a line a rank."""


def ideal_time_s(one_split_s: float, splits: int, stages: int) -> float:
    """Return the execution time of a pipeline whose stages take equally long and whose micro-batches cost nothing
    extra: T1 (m + p - 1) / (m p).

    `one_split_s` is T1, measured with 1 split, where only one of the p stages works at a time (Huang et al., GPipe,
    section 2.3).
    """
    return one_split_s * (splits + stages - 1) / (splits * stages)


def unequal_stages_time_s(
    one_split_s: float, splits: int, schedule: Schedule, stage_work: Sequence[tuple[float, float]]
) -> float:
    """Return the least execution time of stages with these forwards and backwards in that order, equal micro-batches
    costing nothing extra.
    """
    forward, backward = zip(*stage_work, strict=True)
    return one_split_s / speed_up_bound(schedule, forward, backward, splits)


def _pipeline_references(baseline: Baseline, splits: Sequence[int]) -> list[Reference]:
    start, config, work = baseline.execution_time_s, baseline.config, baseline.stage_work
    lines = [Reference("ideal", "dash", tuple(ideal_time_s(start, each, int(config["stages"])) for each in splits))]
    if work:
        schedule = order_of(config["mode"], config.get("peer_schedule", "gpipe"))
        lines.append(
            Reference(
                "bound for these stages",
                "dot",
                tuple(unequal_stages_time_s(start, each, schedule, work) for each in splits),
            )
        )
    return lines


PIPELINE = Scaling(
    "splits",
    1,
    _pipeline_references,
    "Ideal: the work with 1 split, spread evenly over the stages. Bound: the least time that the stages' "
    "forwards and backwards, as measured with 1 split, "
    "take in the schedule's order.",
    ("perf/activations_held", "perf/peak_memory"),
)
