"""Synchronous parallel SGD's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, RuleBroken
from engine.experiment.definition import Experiment, Flow, Preset, UpdateClock
from engine.experiments.sync_sgd.duel import CONTENDER
from engine.training.settings import TrainingConfig, fits_the_data


class SyncSgdConfig(TrainingConfig):
    """SGD by trainers on parts of the data, which wait for each other and average."""

    rounds: int = Field(
        12, ge=1, le=100_000, description="Rounds: in each, every trainer trains on its own part, then all meet."
    )
    average_every: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Steps of a trainer in one round; 0 means once through its own part.",
        json_schema_extra={"unit": "steps"},
    )
    sync: Literal["weights", "gradients", "elastic", "ddp"] = Field(
        "weights",
        description="What is averaged. weights: once a round. gradients: in each step, as "
        "if one process had a batch of "
        "all. "
        "elastic: trainers keep weights of their own, pulled to a centre once a round. ddp: gradients by "
        "torch's DistributedDataParallel.",
    )
    elastic_rate: float = Field(
        0.9,
        gt=0,
        le=1,
        description=(
            "elastic only: how far the centre moves to the trainers' mean in a round (the paper's beta); each "
            "trainer moves beta / N to the centre."
        ),
        json_schema_extra=ADVANCED,
    )
    keep_optimizer: bool = Field(
        False,
        description="Keep the momentum from one round to the next; off: each round starts without any, as published.",
    )
    partition: Literal["contiguous", "shuffled", "dirichlet"] = Field(
        "contiguous",
        description=(
            "How the data is cut into a part a trainer. contiguous: as it lies. shuffled: at random. dirichlet: "
            "unequal shares of each label."
        ),
    )
    alpha: float = Field(
        0.5,
        gt=0,
        le=1000,
        description="dirichlet only: the smaller, the fewer labels a trainer sees; 100 is nearly even.",
        json_schema_extra=ADVANCED,
    )
    learning_rate: float = Field(
        0.01, gt=0, le=10, description="Step size of SGD. If the loss jumps or becomes NaN, lower it."
    )
    momentum: float = Field(0.5, ge=0, lt=1, description="Momentum of SGD; each trainer has its own.")
    transport: Literal["rpc", "gloo", "shared_memory"] = Field(
        "gloo",
        description=(
            "How vectors travel. gloo: round all trainers. rpc, shared_memory: to trainer1 and back. ddp takes "
            "gloo (NCCL on a GPU each)."
        ),
    )
    evaluate_every: int = Field(
        1,
        ge=0,
        le=100_000,
        description="Rounds between two tests of the global weights by trainer1; 0 tests only at the end.",
        json_schema_extra={"unit": "rounds"},
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return self.trainer_roles

    @property
    def max_gpus(self) -> int:
        """One a trainer; the tutorial variant has none."""
        return 0 if self.variant == "tutorial" else self.trainers

    @property
    def steps_together(self) -> bool:
        """Whether trainers meet in each step, not only at a round's end."""
        return self.sync in ("gradients", "ddp")

    @property
    def divergence_advice(self) -> str:
        """The end of the error that a loss which is not finite raises."""
        return (
            "its weights have grown out of bounds. "
            f"Lower learning_rate ({self.learning_rate}) or momentum ({self.momentum}), or average more often. "
            "The last checkpoint, if there is one, is from before."
        )

    def tests_after(self, number: int) -> bool:
        """Say whether the global weights are tested after that round (counted from 1)."""
        return number == self.rounds or (self.evaluate_every > 0 and number > 0 and number % self.evaluate_every == 0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        fits_the_data(self.dataset, self.trainers, self.batch_size)
        return self

    @model_validator(mode="after")
    def _peer_travels_by_gloo(self) -> Self:
        if self.sync == "ddp" and self.transport != "gloo":
            raise RuleBroken(
                "transport",
                (
                    "transport must be gloo for sync ddp, which brings its own way of sending, got "
                    f"'{self.transport}'. Choose gloo or sync gradients."
                ),
            )
        return self

    @model_validator(mode="after")
    def _keeps_to_the_tutorial(self) -> Self:
        if self.variant != "tutorial":
            return self
        if self.sync != "weights":
            raise RuleBroken(
                "sync",
                (
                    f"sync must be weights for variant tutorial, which knows no other, got '{self.sync}'. Choose "
                    "weights or variant engine."
                ),
            )
        if self.average_every:
            raise RuleBroken(
                "average_every",
                "average_every must be 0 for variant tutorial, whose processes go once through their part, "
                f"got {self.average_every}. "
                "Choose 0 or variant engine.",
            )
        if self.keep_optimizer:
            raise RuleBroken(
                "keep_optimizer",
                (
                    "keep_optimizer must be off for variant tutorial, whose optimizers end with the processes of "
                    "each round. Turn it off or choose variant engine."
                ),
            )
        return self


_PUBLISHED = {
    "dataset": "mnist",
    "trainers": 4,
    "rounds": 12,
    "batch_size": 64,
    "learning_rate": 0.01,
    "momentum": 0.5,
    "evaluate_every": 4,
}

EXPERIMENT = Experiment(
    name="sync_sgd",
    title="Synchronous parallel SGD",
    sentence=(
        "Every trainer trains on its own part of the data, then all wait for each other and average what they have."
    ),
    config=SyncSgdConfig,
    presets={
        "published": Preset(
            "MNIST as published: 4 trainers, 12 rounds of a quarter of the data each, tested after rounds 4, 8 and 12.",
            _PUBLISHED,
        ),
        "tuned": Preset(
            "The same work with larger steps that shrink to 0, and momentum that outlives the rounds.",
            _PUBLISHED | {"learning_rate": 0.03, "momentum": 0.9, "schedule": "linear", "keep_optimizer": True},
            expects={"test/accuracy": 98.3},
        ),
        "quick": Preset(
            "Two trainers on the bundled digits: needs no network and ends in seconds.",
            {
                "dataset": "digits",
                "trainers": 2,
                "rounds": 60,
                "batch_size": 32,
                "learning_rate": 0.05,
                "momentum": 0.9,
                "schedule": "linear",
                "keep_optimizer": True,
                "evaluate_every": 10,
                "threads_per_rank": 1,
            },
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": Preset(
            (
                "The published set-up built as the published code is: in each round Python started anew for each "
                "trainer, images read one by one."
            ),
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
        "ddp": Preset(
            "The peer: torch's DistributedDataParallel in the same form, its gradients averaged in each step.",
            _PUBLISHED | {"sync": "ddp", "learning_rate": 0.04, "keep_optimizer": True},
        ),
        "federated": Preset(
            "As in federated learning: each trainer sees few labels, many of some and none of others.",
            _PUBLISHED | {"partition": "dirichlet", "alpha": 0.3, "evaluate_every": 1},
        ),
    },
    flows=(
        Flow("own part", "each trainer", "mini-batches"),
        Flow("each trainer", "average", "weights after a round, or gradients in each step"),
        Flow("average", "each trainer", "the global weights, the same for all"),
    ),
    source="Zinkevich, Weimer, Smola and Li: Parallelized Stochastic Gradient Descent, NeurIPS 2010",
    resumable=True,
    update_clock=UpdateClock("train/loss", counts="mean"),  # a copy has had the mean of them
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
