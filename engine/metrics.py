"""Every metric by name: its label, its unit and which way is better. Torch-free."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """How one metric is shown and compared."""

    name: str
    label: str
    unit: str = ""
    better: Literal["max", "min"] | None = None
    help: str = ""
    live: bool = True
    """Whether it is a curve over steps (else one number per run or rank)."""


METRICS = {
    metric.name: metric
    for metric in (
        Metric("train/loss", "Training loss", "", "min", "Loss of one mini-batch, before its update."),
        Metric("test/loss", "Test loss", "", "min", "Mean loss over the whole test set."),
        Metric("test/accuracy", "Test accuracy", "%", "max", "Share of the test set classified right, in percent."),
        Metric("charts/episodic_return", "Episode reward", "", "max", "Sum of rewards of one finished episode."),
        Metric("perf/samples_per_second", "Throughput", "samples/s", "max", "Samples trained on per second, over all ranks."),
        Metric("perf/env_steps_per_second", "Throughput", "env steps/s", "max", "Environment steps per second, over all ranks."),
        Metric("perf/execution_time_s", "Execution time", "s", "min", "From all ranks ready to all ranks done.", live=False),
        Metric("perf/startup_time_s", "Start-up time", "s", "min", "From the worker taking the run to all ranks ready.", live=False),
        Metric("perf/staleness", "Staleness", "updates", "min", "Updates applied between a fetch and its push."),
        Metric("perf/bubble_share", "Bubble share", "%", "min", "Share of a pipeline's time in which stages idle."),
        Metric("perf/points_dropped", "Points dropped", "points", "min", "Points that did not fit a rank's buffer.", live=False),
    )
}


def metric(name: str) -> Metric:
    """Return what is known of a metric; an unknown one is shown by its name."""
    return METRICS.get(name) or Metric(name, name)


PHASES = ("compute", "communicate", "wait", "update", "data", "evaluate", "lock", "other", "serve")
"""What a rank's driving thread can be doing; `other` is the remainder, `serve` a server's handler threads."""
