"""Synchronous parallel SGD's settings, presets and card. Torch-free."""

from statistics import fmean
from typing import Any, Literal

from engine.config import RuleBroken, Rules, interval, setting
from engine.data.catalogue import data_set
from engine.duel.budget import bytes_exchanged, steps_of_parts
from engine.experiment import Clock, Contender, Experiment, Flow, Pace, Preset, Ready
from engine.training.settings import DIGITS, TrainingConfig, as_published, fits_the_data

STEPS_TOGETHER = ("gradients", "ddp")
"""Values of `sync` with which an update is of all trainers that have a mini-batch left."""


class SyncSgdConfig(TrainingConfig):
    """Settings of trainers on parts of the data, which wait for each other and average."""

    work_fields = ("rounds",)

    rounds: int = setting(12, low=1, high=100_000)
    """Number of rounds. In each round every trainer trains on its own part, then all synchronize."""
    average_every: int = setting(0, low=0, high=100_000, unit="steps")
    """Steps per trainer and round. 0: one pass over its own part."""
    sync: Literal["weights", "gradients", "elastic", "ddp"] = setting("weights")
    """What is averaged. weights: once per round; gradients: in each step, like one process with the combined batch;
    elastic: trainers keep their own weights, pulled towards a centre once per round; ddp: gradients, by torch's
    DistributedDataParallel."""
    elastic_rate: float = setting(0.9, above=0, high=1, advanced=True)
    """elastic only: fraction by which the centre moves towards the trainers' mean per round (the paper's beta); each
    trainer moves beta / N towards the centre."""
    keep_optimizer: bool = setting(False)
    """Keep the momentum between rounds. Off: reset it at each round, as published."""
    partition: Literal["contiguous", "shuffled", "dirichlet"] = setting("contiguous")
    """Partition of the data, one part per trainer: contiguous, shuffled, or dirichlet (unequal shares of each
    label)."""
    alpha: float = setting(0.5, above=0, high=1000, advanced=True)
    """dirichlet only: a smaller alpha gives each trainer fewer labels; 100 is nearly even."""
    learning_rate: float = setting(0.01, above=0, high=10)
    """Learning rate of SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.5, "Momentum of SGD; each trainer has its own.", low=0, below=1)
    transport: Literal["rpc", "gloo", "shared_memory"] = setting("gloo")  # type: ignore[assignment]  # averages also go by gloo's ring
    """Transport of vectors. gloo: ring over all trainers; rpc, shared_memory: to trainer1 and back; ddp requires gloo
    (NCCL with one GPU per trainer)."""
    evaluate_every: int = interval(1, "rounds", "it is tested only at the end", high=100_000)
    """Rounds between tests of the global weights by trainer1. 0 tests only at the end."""

    @property
    def max_gpus(self) -> int:
        """One per trainer; none for the tutorial variant."""
        return 0 if self.variant == "tutorial" else self.trainers

    @property
    def steps_together(self) -> bool:
        """Whether trainers synchronize in each step, not only at the end of a round."""
        return self.sync in STEPS_TOGETHER

    @property
    def divergence_advice(self) -> str:
        """The end of the error for a loss that is not finite."""
        lower = f"Lower learning_rate ({self.learning_rate}) or momentum ({self.momentum}), or average more often."
        return f"its weights have diverged. {lower} The last checkpoint, if any, is from before."

    def tests_after(self, number: int) -> bool:
        """Return whether the global weights are tested after that round (counted from 1)."""
        return number == self.rounds or (self.evaluate_every > 0 and number > 0 and number % self.evaluate_every == 0)

    def rules(self) -> Rules:
        yield from super().rules()
        yield from fits_the_data(self.dataset, data_set(self.dataset).train, self.batch_size, self.trainers)
        ddp, tutorial, cure = self.when("sync ddp"), self.when("variant tutorial"), "or variant engine."
        yield ddp("transport", "gloo", why="which uses its own communication", cure="Choose gloo or sync gradients.")
        yield tutorial("sync", "weights", why="which supports no other", cure=f"Choose weights {cure}")
        why = "whose processes make one pass over their part per round"
        yield tutorial("average_every", 0, why=why, cure=f"Choose 0 {cure}")
        if self.has("variant tutorial") and self.keep_optimizer:
            raise RuleBroken(
                "keep_optimizer",
                "keep_optimizer must be off for variant tutorial, whose optimizers end with the processes of each "
                "round. Turn it off or choose variant engine.",
            )


def _pace(config: Any) -> Pace:
    """In one round every trainer takes `average_every` steps, or makes one pass over its own part."""
    every, size = config.average_every, data_set(config.dataset).train
    steps = [every] * config.trainers if every else steps_of_parts(config.dataset, config.trainers, config.batch_size)
    passes = sum(steps) * config.batch_size / size if every else 1.0
    updates = max(steps) if config.steps_together else fmean(steps)
    exchanges = config.trainers * (max(steps) if config.steps_together else 1)
    return Pace(passes, updates / passes, bytes_exchanged(exchanges / passes), passes / steps[0])


CONTENDER = Contender(
    length="rounds",
    pace=_pace,
    strategies={
        "sync_sgd": Ready("Synchronous SGD, weights"),
        "sync_gradients": Ready("Synchronous SGD, gradients", {"sync": "gradients"}),
    },
    data="one part of the data per trainer",
    momentum=lambda config: "one per trainer" + ("" if config.keep_optimizer else ", reset each round"),
    tests="by trainer1, which the others wait for at the end of the next round",
    gradients=lambda config: config.trainers if config.steps_together else 1,
)
_PUBLISHED = {
    "dataset": "mnist",
    "trainers": 4,
    "rounds": 12,
    "batch_size": 64,
    "learning_rate": 0.01,
    "momentum": 0.5,
} | {"evaluate_every": 4}

EXPERIMENT = Experiment(
    name="sync_sgd",
    title="Synchronous parallel SGD",
    tagline="Train apart, then average the weights",
    sentence="Every trainer trains on its own part of the data, then all synchronize and average.",
    config=SyncSgdConfig,
    presets={
        "published": Preset(
            "MNIST as published: 4 trainers, 12 rounds of a quarter of the data each, tested after rounds 4, 8 and 12.",
            _PUBLISHED,
        ),
        "tuned": Preset(
            "The same work with a larger learning rate and linear decay, and momentum kept between rounds.",
            _PUBLISHED | {"learning_rate": 0.03, "momentum": 0.9, "schedule": "linear", "keep_optimizer": True},
            expects={"test/accuracy": 98.3},
        ),
        "quick": Preset(
            "Two trainers make 60 passes over the bundled digits; needs no network.",
            DIGITS
            | {"rounds": 60, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.9, "schedule": "linear"}
            | {"keep_optimizer": True, "evaluate_every": 10, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": as_published(_PUBLISHED, "a new Python process per trainer and round, images read one by one."),
        "ddp": Preset(
            "Baseline: torch's DistributedDataParallel on the same work, with gradients averaged in each step.",
            _PUBLISHED | {"sync": "ddp", "learning_rate": 0.04, "keep_optimizer": True},
        ),
        "federated": Preset(
            "As in federated learning: each trainer has few labels, in unequal shares.",
            _PUBLISHED | {"partition": "dirichlet", "alpha": 0.3, "evaluate_every": 1},
        ),
    },
    pattern="average",
    flows=(
        Flow("own part", "each trainer", "mini-batches"),
        Flow("each trainer", "average", "weights after a round, or gradients in each step"),
        Flow("average", "each trainer", "the global weights, the same for all"),
    ),
    source="Zinkevich, Weimer, Smola and Li: Parallelized Stochastic Gradient Descent, NeurIPS 2010",
    resumable=True,
    work=lambda config: CONTENDER.work(config, data_set(config.dataset).train),
    update_clock=lambda settings: Clock(
        "train/loss", counts="most" if settings.get("sync") in STEPS_TOGETHER else "mean"
    ),
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
