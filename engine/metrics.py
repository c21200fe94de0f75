"""Every metric and histogram by name: its label, its unit and which way is better. Torch-free."""

from dataclasses import dataclass
from math import inf
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
    band: bool = False
    """Whether its values scatter so much that they are drawn as a mean with a band over all ranks, not as a line a
    rank.
    """
    smooth: bool = True
    """Whether a long curve may be smoothed; not where its values are sums so far, or means of many."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest possible value."""
        if self.unit == "%":
            return 0.0, 100.0
        return (0.0 if self.name in METRICS and self.name.startswith("perf/") else -inf), inf


METRICS = {
    metric.name: metric
    for metric in (
        Metric("train/loss", "Training loss", "", "min", "Loss of one mini-batch, before its update."),
        Metric("test/loss", "Test loss", "", "min", "Mean loss over the whole test set."),
        Metric("test/accuracy", "Test accuracy", "%", "max", "Share of the test set classified right, in percent."),
        Metric("train/policy_loss", "Policy loss", "", None, "Clipped loss of the policy, mean over an update."),
        Metric(
            "train/value_loss",
            "Value loss",
            "",
            "min",
            "Half the squared error of the value function, mean over an update.",
        ),
        Metric("train/entropy", "Entropy", "nats", None, "How undecided the policy is, mean over an update."),
        Metric(
            "train/clipped",
            "Clipped ratios",
            "%",
            None,
            "Share of steps whose probability moved further than clip in one update.",
        ),
        Metric(
            "train/kl",
            "KL to the current policy",
            "nats",
            None,
            "From the policy that played a batch to the one that is about to learn from it.",
        ),
        Metric(
            "test/episodic_return",
            "Evaluation reward",
            "",
            "max",
            "Mean reward of greedy episodes, played beside training.",
        ),
        Metric(
            "charts/episodic_return", "Episode reward", "", "max", "Sum of rewards of one finished episode.", band=True
        ),
        Metric("charts/episodic_length", "Episode length", "steps", None, "Steps of one finished episode.", band=True),
        Metric(
            "charts/first_length",
            "First episode's length",
            "steps",
            None,
            "Length of a round's first episode, mean over all environments.",
        ),
        Metric(
            "charts/running_length",
            "Running length",
            "steps",
            None,
            "Half the length of the newest round's first episode, half what it was before: a smoothed curve.",
            smooth=False,
        ),
        Metric(
            "perf/samples_per_second",
            "Throughput",
            "samples/s",
            "max",
            "Samples trained on per second, over all ranks.",
        ),
        Metric(
            "perf/env_steps_per_second",
            "Throughput",
            "env steps/s",
            "max",
            "Environment steps per second, over all ranks.",
        ),
        Metric(
            "perf/execution_time_s", "Execution time", "s", "min", "From all ranks ready to all ranks done.", live=False
        ),
        Metric(
            "perf/startup_time_s",
            "Start-up time",
            "s",
            "min",
            "From the worker taking the run to all ranks ready.",
            live=False,
        ),
        Metric(
            "perf/whole_time_s",
            "Start-up and execution",
            "s",
            "min",
            "Start-up time and execution time together; reckoned, not recorded.",
            live=False,
        ),
        Metric(
            "perf/staleness",
            "Staleness",
            "updates",
            "min",
            "Updates that others made between a trainer's fetch (or read) of the weights and its push (or write).",
        ),
        Metric(
            "perf/staleness_mean",
            "Mean staleness",
            "updates",
            "min",
            "Mean over the last hundred gradients that the server applied.",
            smooth=False,
        ),
        Metric(
            "perf/staleness_p99",
            "Staleness, 99th percentile",
            "updates",
            "min",
            "Over the last hundred gradients that the server applied.",
            smooth=False,
        ),
        Metric(
            "perf/exchanged",
            "Data exchanged",
            "MB",
            None,
            "Vectors between a rank and others so far, both ways, each counted once; in shared memory what one "
            "lays down for another. Heads of messages count "
            "nothing.",
            smooth=False,
        ),
        Metric("perf/queue_depth", "Queue depth", "batches", None, "Batches that wait to be learned from."),
        Metric(
            "perf/policy_age",
            "Policy age",
            "updates",
            "min",
            "Updates made between the start of a batch and learning from it.",
        ),
        Metric(
            "perf/steps_used",
            "Steps used",
            "%",
            "max",
            "Of the env steps that were learned from or thrown away so far, the share learned from.",
            smooth=False,
        ),
        Metric(
            "perf/synchronizations",
            "Synchronizations",
            "per 1000 steps",
            "min",
            "Times that players and learner waited for each other, per 1000 env steps.",
            smooth=False,
        ),
        Metric(
            "perf/mixed_rollouts",
            "Mixed rollouts",
            "%",
            "min",
            "Share of batches during which the policy changed.",
            smooth=False,
        ),
        Metric(
            "perf/first_micro_batch_s",
            "Time to first micro-batch",
            "s",
            "min",
            "From all ranks ready to the first stage's first forward.",
            live=False,
        ),
        Metric("perf/bubble_share", "Bubble share", "%", "min", "Share of a pipeline's time in which stages idle."),
        Metric(
            "perf/activations_held",
            "Activations held",
            "MB",
            "min",
            "The most that a stage held for backwards at one time.",
            live=False,
        ),
        Metric(
            "perf/peak_memory", "Peak memory", "MB", "min", "The most memory that a stage's process took.", live=False
        ),
        Metric(
            "perf/overwritten_updates",
            "Overwritten updates",
            "%",
            "min",
            "Estimate: of 1,000 sampled weights, those that right after a trainer's write differ from their "
            "value right before plus its own change. "
            "Too high where another write came in between and nothing was lost.",
        ),
        Metric(
            "theory/omega",
            "Sparsity Ω",
            "weights",
            None,
            "The most weights that one sample touches; the theorem wants it small.",
            live=False,
        ),
        Metric(
            "theory/delta",
            "Sparsity Δ",
            "",
            None,
            "The largest share (0 to 1) of samples that touch one weight; the theorem wants it small.",
            live=False,
        ),
        Metric(
            "theory/rho",
            "Sparsity ρ",
            "",
            None,
            (
                "The largest share (0 to 1) of samples that have a weight in common with one sample; the theorem "
                "wants it small."
            ),
            live=False,
        ),
        Metric(
            "perf/points_dropped",
            "Points dropped",
            "points",
            "min",
            "Points that did not fit a rank's buffer.",
            live=False,
        ),
    )
}


def metric(name: str) -> Metric:
    """Return what is known of a metric; an unknown one is shown by its name."""
    return METRICS.get(name) or _of_museum(name) or Metric(name, name)


def _of_museum(name: str) -> Metric | None:
    """Return what an exhibit records, of which there are too many to be a choice among metrics; None for any other
    name.
    """
    if name == "perf/exhibits_per_second":
        return Metric(name, "Exhibits", "exhibits/s", "max", "Exhibits shown per second, over both ways.")
    if not name.startswith("museum/"):
        return None
    from engine.signs.catalogue import SIGNS

    for sign in SIGNS:
        if name == sign.metric:
            return Metric(name, sign.title, help=f"{sign.y}, against: {sign.x}.")
        for number in sign.numbers:
            if name == sign.metric_of(number):
                return Metric(name, f"{sign.title}: {number.label}", number.unit, live=False)
    return None


@dataclass(frozen=True)
class Histogram:
    """How one histogram is shown; `metric` is the metric, if any, that records the same numbers one by one."""

    name: str
    label: str
    unit: str = ""
    counted: str = "values"
    """What a bucket counts, in the plural."""
    help: str = ""
    metric: str = ""


HISTOGRAMS = {
    histogram.name: histogram
    for histogram in (
        Histogram(
            "staleness",
            "Staleness",
            "updates",
            "pushes",
            "Updates that others made between a trainer's fetch (or read) of the weights and its push (or write).",
            "perf/staleness",
        ),
    )
}


def histogram(name: str) -> Histogram:
    """Return what is known of a histogram; an unknown one is shown by its name, beside the metric `perf/<name>` where a
    run has it.
    """
    return HISTOGRAMS.get(name) or Histogram(name, name.replace("_", " ").capitalize(), metric=f"perf/{name}")


PHASES = ("compute", "communicate", "wait", "update", "data", "evaluate", "lock", "other", "serve")
"""What a rank's driving thread can be doing; `other` is the remainder, `serve` a server's handler threads."""
