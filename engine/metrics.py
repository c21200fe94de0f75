"""Every metric by name: label, unit and which direction is better. Torch-free."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Literal

DIRECTIONS = {"max": "higher is better", "min": "lower is better"}
"""Which values of a metric are better, in words."""
Section = Literal["Learning", "Speed", "Parallelism"]
BY_TIME = (
    "÷ execution time, without start-up. Before the end, and in the curve: work so far ÷ time so far. Of several runs: "
    "the mean of their throughputs."
)
"""The definition of a throughput, after its work."""


LOSS, LOSS_FALL, WINDOW = "train/loss", "train/loss_fall", 50
"""The training loss; by how much it fell, from the mean of the first to that of the last `WINDOW` recorded steps."""
EPISODES, LAST_EPISODES, MOST_EPISODES = "charts/episodic_return", "charts/episodic_return_last_100", 100
"""The reward of each episode, and the mean over the last `MOST_EPISODES`."""
EVALUATION = "test/episodic_return"
IMPORTED = "imported/"
"""Begin of the name of an imported metric that has a name of ours but not our unit."""


def throughput(work: float, time_s: float | None) -> float | None:
    """Return the throughput of a run: its total work by its execution time, without start-up; both include the runs
    that it resumes. None without work or time.

    Before its end, and for a run that did not finish, both are those up to its last report; of a command, which counts
    its start too, up to its end, however it ended. The throughput of a group of runs is the mean of theirs.
    """
    return work / time_s if work and time_s else None


def rate_of(unit: str) -> str:
    """Return the name of the throughput of work in a unit, such as `env steps`."""
    return f"perf/{unit.replace(' ', '_')}_per_second"


def is_rate(name: str) -> bool:
    """Return whether a metric is work per second of a whole run. Its curve is the average so far, so a run's one number
    is that of `throughput`: no mean, best or last value of the curve.
    """
    return name.startswith("perf/") and name.endswith("_per_second")


@dataclass(frozen=True)
class Metric:
    """How one metric is shown and compared."""

    name: str
    label: str
    unit: str = ""
    better: Literal["max", "min"] | None = None
    help: str = ""
    live: bool = True
    """Whether it is a curve over steps (otherwise one number per run or rank)."""
    band: bool = False
    """Whether its noisy values are drawn as a mean with a band over all ranks rather than one line per rank."""
    smooth: bool = True
    """Whether a long curve is noisy, so that it may be smoothed; not for cumulative values or means."""
    signed: bool = False
    """Whether values below 0 are possible."""
    so_far: bool = False
    """Whether each value is of the whole run until then, such as a total: only the last one is of the run."""

    def says(self, text: str) -> "Metric":
        """Return it with that help, which is longer than the line."""
        return replace(self, help=text)

    @property
    def heading(self) -> str:
        """Label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def is_rate(self) -> bool:
        """Whether it is work per second of a whole run (`is_rate`)."""
        return is_rate(self.name)

    @property
    def is_single(self) -> bool:
        """Whether a run has one number of it, so that there is no statistic to choose."""
        return not self.live or self.is_rate or self.so_far

    @property
    def section(self) -> Section:
        """The section of a run's page that its curve is in."""
        if not self.name.startswith("perf/"):
            return "Learning"
        return "Speed" if self.is_rate else "Parallelism"

    @property
    def bounds(self) -> tuple[float, float]:
        """The minimum and maximum possible value."""
        if self.unit == "%":
            return 0.0, 100.0
        return (0.0 if self.name in METRICS and not self.signed else -inf), inf


METRICS = {
    metric.name: metric
    for metric in (
        Metric("train/loss", "Training loss", "", "min", "Loss of one mini-batch before its update."),
        Metric(
            "test/loss", "Test loss", "", "min", "Mean loss over the test set; of text in nats per byte.", smooth=False
        ),
        Metric("test/bits_per_byte", "Test bits per byte", "bits", "min", smooth=False).says(
            "Mean bits per byte of the test text: the loss, which is in nats per byte, divided by ln 2."
        ),
        Metric("test/accuracy", "Test accuracy", "%", "max", smooth=False).says(
            "Percentage of the test set classified correctly."
        ),
        Metric("train/compression_error", "Compression error", "", "min").says(
            "What a trainer did not send of its gradient plus earlier remainders, as a fraction of the sum's length."
        ),
        Metric("train/policy_loss", "Policy loss", "", None, signed=True).says(
            "Clipped policy loss, averaged over an update."
        ),
        Metric("train/value_loss", "Value loss", "", "min").says(
            "Half the squared error of the value function, averaged over an update."
        ),
        Metric("train/entropy", "Entropy", "nats", None, "Entropy of the policy, averaged over an update."),
        Metric("train/clipped", "Clipped ratios", "%", None).says(
            "Percentage of steps whose probability ratio was clipped in an update."
        ),
        Metric("train/kl", "KL to the current policy", "nats", None).says(
            "KL divergence from the policy that collected a batch to the policy about to be updated."
        ),
        Metric("test/episodic_return", "Evaluation reward", "", "max", signed=True).says(
            "Mean reward of greedy episodes that a test plays; the last test is of 100 episodes. In training, actions "
            "are drawn at random, so its episodes usually get less."
        ),
        Metric("charts/episodic_return", "Episode reward", "", "max", band=True, signed=True).says(
            "Sum of rewards in a finished episode."
        ),
        Metric(LAST_EPISODES, "Mean reward of the last 100 episodes", "", "max", smooth=False, signed=True).says(
            "Mean reward of the last 100 episodes of all ranks; of all episodes while there are fewer."
        ),
        Metric(LOSS_FALL, "Fall of the training loss", "", "max", live=False, signed=True).says(
            f"Mean of the first minus mean of the last {WINDOW} recorded steps of a run with at least twice as many."
        ),
        Metric("charts/episodic_length", "Episode length", "steps", None, "Steps in a finished episode.", band=True),
        Metric("charts/first_length", "First episode length", "steps", None).says(
            "Length of the first episode in a round, averaged over all environments."
        ),
        Metric("charts/running_length", "Running length", "steps", None, smooth=False).says(
            "Exponential moving average (weight 0.5) of the first episode length."
        ),
        Metric("perf/samples_per_second", "Throughput", "samples/s", "max").says(
            f"Samples trained on by all ranks {BY_TIME}"
        ),
        Metric("perf/env_steps_per_second", "Throughput", "env steps/s", "max").says(
            f"Environment steps of all ranks {BY_TIME}"
        ),
        Metric("perf/tokens_per_second", "Throughput", "tokens/s", "max").says(
            f"Tokens trained on by all ranks together {BY_TIME}"
        ),
        Metric("perf/execution_time_s", "Execution time", "s", "min", live=False).says(
            "Time from all ranks ready to all ranks finished."
        ),
        Metric("perf/startup_time_s", "Start-up time", "s", "min", live=False).says(
            "Time from the worker accepting the run to all ranks ready."
        ),
        Metric("perf/whole_time_s", "Start-up and execution", "s", "min", live=False).says(
            "Sum of start-up time and execution time; computed, not recorded."
        ),
        Metric("perf/staleness", "Staleness", "updates", "min").says(
            "Updates by other trainers between a trainer's fetch (or read) of the weights and its push (or write)."
        ),
        Metric("perf/staleness_mean", "Recent mean staleness", "updates", "min", smooth=False).says(
            "Mean over the last 100 gradients that the server applied."
        ),
        Metric("perf/staleness_p99", "Recent staleness, 99th percentile", "updates", "min", smooth=False).says(
            "99th percentile over the last 100 gradients that the server applied."
        ),
        Metric("perf/gradients_dropped", "Dropped gradients", "gradients", "min", smooth=False, so_far=True).says(
            "Gradients so far that arrived after their batch was complete and were dropped (late drop)."
        ),
        Metric("perf/exchanged", "Data exchanged", "MB", None, smooth=False, so_far=True).says(
            "Cumulative size of the vectors sent and received by a rank, each counted once; in shared memory, what one "
            "rank writes for another. Message headers are not counted."
        ),
        Metric("perf/queue_depth", "Queue depth", "batches", None, "Batches waiting to be trained on."),
        Metric("perf/policy_age", "Policy age", "updates", "min").says(
            "Updates between the start of a batch and training on it; mean over the batches of an update."
        ),
        Metric("perf/rollouts_dropped", "Dropped rollouts", "batches", "min", smooth=False, so_far=True).says(
            "Batches so far that were not trained on because they were too old or the queue was full (lag_order "
            "drop_oldest)."
        ),
        Metric("perf/steps_used", "Steps used", "%", "max", smooth=False, so_far=True).says(
            "Percentage of the env steps collected so far that were trained on, not discarded or still queued."
        ),
        Metric("perf/synchronizations", "Synchronizations", "per 1000 steps", "min", smooth=False, so_far=True).says(
            "Times that collectors and learner waited for each other, per 1,000 env steps."
        ),
        Metric("perf/mixed_rollouts", "Mixed rollouts", "%", "min", smooth=False, so_far=True).says(
            "Percentage of batches during which the policy changed."
        ),
        Metric("perf/first_micro_batch_s", "Time to first micro-batch", "s", "min", live=False).says(
            "Time from all ranks ready to the first forward of the first stage."
        ),
        Metric("perf/bubble_share", "Bubble share", "%", "min").says(
            "Percentage of a pipeline's time in which stages are idle."
        ),
        Metric("perf/activations_held", "Activations held", "MB", "min", live=False).says(
            "Peak size of the activations that a stage holds for its backwards."
        ),
        Metric("perf/peak_memory", "Peak memory", "MB", "min", "Peak memory of a stage's process.", live=False),
        Metric("perf/memory_parameters", "Memory: parameters", "MB", "min", smooth=False).says(
            "A rank's parameters; of fsdp with blocks that are gathered, at each moment of a measured step."
        ),
        Metric("perf/layer_exchanged", "Data sent per layer and step", "MB", "min", live=False).says(
            "Bytes that each rank sends for one block in the forward and backward of one step, as over a ring."
        ),
        Metric("perf/memory_gradients", "Memory: gradients", "MB", "min", smooth=False).says(
            "Gradients of whole blocks until they are reduced, and a trainer's parts, at moments of a measured step."
        ),
        Metric("perf/memory_optimizer", "Memory: optimizer state", "MB", "min", smooth=False).says(
            "The optimizer's state of a trainer at each moment of a measured step."
        ),
        Metric("perf/memory_activations", "Memory: activations", "MB", "min", smooth=False).says(
            "Tensors that autograd keeps for the backward, at moments of a measured step."
        ),
        Metric("perf/memory_buffers", "Memory: buffers", "MB", "min", smooth=False).says(
            "Buffers of collective operations at each moment of a measured step."
        ),
        Metric("perf/memory_state", "Peak memory of the state", "MB", "min", smooth=False).says(
            "Peak of a trainer's parameters, gradients and optimizer state together in a measured step."
        ),
        Metric("perf/sent_per_step", "Data sent per step", "MB", "min", smooth=False).says(
            "Bytes that a trainer sends in a step's collective operations over a ring, without tests; of an "
            "exchange that lasts several steps in the one that begins it."
        ),
        Metric("perf/overwritten_updates", "Overwritten updates", "%", "min").says(
            "Estimate: percentage of 1,000 sampled weights that, right after a trainer's write, differ from their "
            "previous value plus the trainer's own change. It overestimates when another write falls in between "
            "without a lost update."
        ),
        Metric("theory/omega", "Sparsity Ω", "weights", None, live=False).says(
            "Maximum number of weights that one sample touches; the theorem assumes it is small."
        ),
        Metric("theory/delta", "Sparsity Δ", "", None, live=False).says(
            "Largest fraction (0 to 1) of samples that touch the same weight; the theorem assumes it is small."
        ),
        Metric("theory/rho", "Sparsity ρ", "", None, live=False).says(
            "Largest fraction (0 to 1) of samples that share a weight with one sample; the theorem assumes it is small."
        ),
        Metric("perf/disturbance", "Disturbance", "%", "min", live=False).says(
            "Percentage of the CPU time of the run's cores that other programs or the host of a virtual machine took "
            "while its ranks worked."
        ),
        Metric("perf/cpu_time_s", "CPU time", "s", None, live=False).says(
            "CPU time of the run's processes while ranks worked."
        ),
        Metric("perf/others_cpu_time_s", "CPU time of others", "s", "min", live=False).says(
            "CPU time of all other programs on the cores that the run may use."
        ),
        Metric("perf/stolen_time_s", "Stolen time", "s", "min", live=False).says(
            "CPU time that the host of a virtual machine withheld from the cores that the run may use."
        ),
        Metric("perf/throttled_time_s", "Throttled time", "s", "min", live=False).says(
            "Time during which the CPU limit of the container stopped the run."
        ),
        Metric("perf/memory_wait_s", "Waiting for memory", "s", "min", live=False).says(
            "Time during which a process of the machine waited for memory (pressure stall information of Linux)."
        ),
        Metric("perf/page_faults", "Page faults", "faults", "min", live=False).says(
            "Major page faults of the run's processes: accesses to memory that waited for a disk."
        ),
        Metric("perf/points_dropped", "Points dropped", "points", "min", live=False).says(
            "Points dropped because a rank's buffer was full."
        ),
    )
}


def metric(name: str) -> Metric:
    """Return a metric by name; an unknown one is labelled by its name, which tells its better values."""
    return (
        METRICS.get(name)
        or _of_a_rate(name)
        or _of_museum(name)
        or _of_another_program(name)
        or Metric(name, name, better=_better_by_name(name))
    )


def _of_a_rate(name: str) -> Metric | None:
    """Return the throughput of work in units of its own, such as the steps of a command; or None."""
    unit = name.removeprefix("perf/").removesuffix("_per_second").replace("_", " ")
    return Metric(name, "Throughput", f"{unit}/s", "max", f"Work in {unit} {BY_TIME}") if is_rate(name) else None


_LOWER = re.compile(
    r"(loss|losses|errors?)(?![a-z])|(?<![a-z])(m?err|perplexity|ppl|nll|r?mse|mae|cross_?entropy)(?![a-z])"
    r"|(?<![a-z])(latency|runtime|duration|time)((_p\d+|_total)?(_(m?s|seconds))?)(?= |$)"
)
_HIGHER = re.compile(
    r"(acc|accuracy|accuracies)(?![a-z])|(?<![a-z])(f1|(pr|roc)?auc(pr|roc)?|rew|rewards?|returns?|scores?|bleu|map)(?![a-z])"
)
"""Words in the names of metrics whose lower or higher values are usually better; some also end a longer word."""


@lru_cache(4096)
def _better_by_name(name: str) -> Literal["max", "min"] | None:
    low = f"{re.sub('(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])', '_', name)} {name}".lower()
    return "min" if _LOWER.search(low) else "max" if _HIGHER.search(low) else None


def _of_another_program(name: str) -> Metric | None:
    """Return a metric that another program gave a name of ours but not our unit, or None."""
    ours = METRICS.get(name.removeprefix(IMPORTED)) if name.startswith(IMPORTED) else None
    return ours and Metric(
        name,
        f"{ours.label} (imported)",
        better=ours.better,
        help=f"As another program recorded it; its unit may not be that of {ours.name} here ({ours.unit}).",
        live=ours.live,
        band=ours.band,
        smooth=ours.smooth,
        signed=True,
    )


def _of_museum(name: str) -> Metric | None:
    """Return a metric recorded by an exhibit, or None; there are too many to list among the metrics."""
    if not name.startswith("museum/"):
        return None
    from engine.museum.exhibit import SIGNS

    for sign in SIGNS:
        if name == sign.metric:
            return Metric(name, sign.title, help=f"{sign.y}, against: {sign.x}.")
        for number in sign.numbers:
            if name == sign.metric_of(number):
                return Metric(name, f"{sign.title}: {number.label}", number.unit, live=False)
    return None


@dataclass(frozen=True)
class MetricSetting:
    """How a metric of a script's runs is shown."""

    is_shown: bool = True
    """Whether it has a chart on run pages, and among the default ones of Compare."""
    unit: str = ""
    better: Literal["max", "min", ""] = ""

    @classmethod
    def usual(cls, name: str) -> "MetricSetting":
        """Return the setting of a metric that nobody has set."""
        known = metric(name)
        return cls(unit=known.unit, better=known.better or "")


def as_set(name: str, settings: Mapping[str, MetricSetting]) -> Metric:
    """Return a metric with the unit and direction that a person has set."""
    found = settings.get(name)
    return replace(metric(name), unit=found.unit, better=found.better or None) if found else metric(name)


PHASES = ("compute", "communicate", "wait", "update", "data", "evaluate", "lock", "other", "serve")
"""Phases of a rank's main thread; `other` is the remainder, `serve` a server's handler threads."""


def depends_on_time(name: str) -> bool:
    """Return whether the values of a metric depend on what else runs on the machine: times, rates, shares of idle
    time.
    """
    return metric(name).is_rate or metric(name).unit in ("s", "ms") or name == "perf/bubble_share"


def unit_of_difference(name: str) -> str:
    """Return the unit suffix of a difference of two values of a metric: ` points` for percentages, empty without a
    unit.
    """
    unit = metric(name).unit
    return " points" if unit == "%" else f" {unit}" if unit else ""


# ---- The number that ranks an experiment's runs ------------------------------------------------------------------

Of = Literal["last", "mean"]
STATISTICS: dict[Of, str] = {"last": "last", "mean": "mean over the run"}


@dataclass(frozen=True)
class Result:
    """The number that ranks the runs of one task; engine.metrics says whether higher or lower is better."""

    metric: str = "test/accuracy"
    of: Of = "last"
    """Which value to use: the last one (never the best during training, which would be selected on the test set), or
    the mean.
    """
    task: tuple[str, ...] = ("dataset",)
    """Settings that define the task: numbers of different tasks can't be ranked together."""
    own_tasks: tuple[tuple[str, str], ...] = ()
    """Settings and values that make a separate task, regardless of `task`."""
    nothing_to_learn: tuple[str, ...] = ("synthetic",)
    """Tasks that exist for timing only."""

    older: "Result | None" = None
    """The number of runs of earlier versions, which lack `metric`."""

    @property
    def statistic(self) -> str:
        """The statistic, in words; empty for a throughput, of which a run has one."""
        return "" if is_rate(self.metric) else STATISTICS[self.of]


ACCURACY = Result()
"""The result of most experiments: the last test accuracy."""
