"""Hogwild!'s settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken
from engine.data.catalogue import DatasetName, data_set
from engine.registry import Experiment, Flow, Preset


class HogwildConfig(Config):
    """SGD by several trainers on one set of shared weights."""

    trainers: int = Field(4, ge=1, le=64, description="Trainer processes; each trains on the whole training set in an order of its own.")
    epochs: int = Field(
        10, ge=1, le=1000, description="Times that each trainer goes through the training set; all together they make trainers x epochs passes."
    )
    batch_size: int = Field(64, ge=1, le=60_000, description="Images in one mini-batch.", json_schema_extra={"unit": "samples"})
    learning_rate: float = Field(
        0.01,
        gt=0,
        le=10,
        description="Step size of SGD. More trainers step on the same weights more often; if the loss jumps or becomes NaN, lower it.",
    )
    momentum: float = Field(0.5, ge=0, lt=1, description="Momentum of SGD; each trainer keeps its own.")
    dataset: DatasetName = Field("mnist", description="What is learned: mnist (60,000 images), digits (1,437, bundled) or synthetic (random, for timing).")
    variant: Literal["engine", "tutorial"] = Field(
        "engine",
        description="engine: images as tensors in shared memory, one flat buffer of weights. tutorial: built as the published code is, at its cost.",
    )
    lock: bool = Field(False, description="Take a lock round each update, so that updates never overlap: the comparison that Hogwild! is about.")
    evaluate_every: int = Field(
        1,
        ge=0,
        le=1000,
        description="Epochs of trainer1 between two tests of the shared weights; 0 tests only at the end. Trainer1 does not train meanwhile.",
        json_schema_extra=ADVANCED | {"unit": "epochs"},
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(f"trainer{number}" for number in range(1, self.trainers + 1))

    @property
    def max_gpus(self) -> int:
        """One: its memory is what the trainers share. The tutorial variant has none."""
        return 0 if self.variant == "tutorial" else 1

    def tests_after(self, epoch: int) -> bool:
        """Say whether trainer1 tests after that epoch (counted from 1) while the others go on; the test at the end comes besides."""
        return self.evaluate_every > 0 and epoch < self.epochs and epoch % self.evaluate_every == 0

    @model_validator(mode="after")
    def _fits_the_data(self) -> Self:
        size = data_set(self.dataset).train
        if self.batch_size > size:
            raise RuleBroken("batch_size", f"batch_size must be at most the {size:,} training samples of {self.dataset}, got {self.batch_size}.")
        return self

    @model_validator(mode="after")
    def _can_be_shared(self) -> Self:
        if self.device == "mps":
            raise RuleBroken(
                "device", "device must be auto, cpu or cuda for hogwild, got 'mps': an Apple GPU's memory can't be shared between processes. Choose cpu."
            )
        return self

    @model_validator(mode="after")
    def _keeps_to_the_tutorial(self) -> Self:
        if self.variant == "tutorial" and self.device == "cuda":
            raise RuleBroken(
                "device", "device must be auto or cpu for variant tutorial, whose structure is the CPU's, got 'cuda'. Choose cpu or variant engine."
            )
        if self.variant == "tutorial" and self.start_method != "spawn":
            raise RuleBroken(
                "start_method",
                f"start_method must be spawn for variant tutorial, since its slow start is part of what it shows, got '{self.start_method}'. "
                "Choose spawn or variant engine.",
            )
        return self


_PUBLISHED = {"dataset": "mnist", "trainers": 4, "epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.5}

EXPERIMENT = Experiment(
    name="hogwild",
    title="Hogwild!",
    sentence="Several processes train one model in shared memory and never wait for each other.",
    config=HogwildConfig,
    presets={
        "published": Preset("MNIST as published: 4 trainers, 10 epochs each, which makes 40 passes over the data.", _PUBLISHED),
        "tuned": Preset(
            "MNIST in 10 passes by 2 trainers, with a step size chosen for few passes.",
            _PUBLISHED | {"trainers": 2, "epochs": 5, "learning_rate": 0.02, "momentum": 0.8},
        ),
        "quick": Preset(
            "Two trainers on the bundled digits: needs no network and ends in seconds.",
            {"dataset": "digits", "trainers": 2, "epochs": 30, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": Preset(
            "The published set-up built as the published code is: Python started anew for each trainer, images read one by one.",
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
    },
    axis="trainers",
    flows=(
        Flow("shared data", "each trainer", "mini-batches, in an order of its own"),
        Flow("shared weights", "each trainer", "reads, while others write"),
        Flow("each trainer", "shared weights", "updates, without a lock"),
    ),
    source="Recht, Ré, Wright and Niu: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent, NeurIPS 2011",
)
