"""Reference lines of a pipeline's sweeps: equal stages, and the measured stages in their schedule's order.
Torch-free.
"""

from collections.abc import Sequence

from engine.experiment.ideal_lines import Baseline, Reference, Scaling
from engine.pipelining.schedules import Schedule, order_of
from engine.pipelining.simulation import speed_up_bound


def ideal_time_s(one_split_s: float, splits: int, stages: int) -> float:
    """Return the execution time of a pipeline of equal stages without overhead per micro-batch: T1 (m + p - 1) / (m p).

    `one_split_s` is T1, measured with 1 split, where only one of the p stages works at a time (Huang et al., GPipe,
    section 2.3).
    """
    return one_split_s * (splits + stages - 1) / (splits * stages)


def unequal_stages_time_s(
    one_split_s: float, splits: int, schedule: Schedule, stage_work: Sequence[tuple[float, float]]
) -> float:
    """Return the minimum execution time of stages with these forwards and backwards in that order, without overhead per
    micro-batch.
    """
    forward, backward = zip(*stage_work, strict=True)
    return one_split_s / speed_up_bound(schedule, forward, backward, splits)


def _references(baseline: Baseline, splits: Sequence[int]) -> list[Reference]:
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


SCALING = Scaling(
    "splits",
    1,
    _references,
    (
        "Ideal: the work with 1 split, divided evenly among the stages. Bound: the minimum time in the "
        "schedule's order for the stages' forwards and backwards, as measured with 1 split."
    ),
    called="Ideal and bound",
    at_once="stages",
    rank_metrics=("perf/activations_held", "perf/peak_memory"),
)
