"""Hogwild!'s settings, presets and card. Torch-free."""

from collections.abc import Iterator
from math import ceil
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken, interval
from engine.data.catalogue import DatasetName, data_set
from engine.experiment.definition import (
    HEADLINE,
    Contender,
    Experiment,
    Flow,
    Pace,
    Preset,
    Ready,
    ReadySweep,
    UpdateClock,
)
from engine.experiment.result import Result

# ---- How Hogwild! takes part in duels ------------------------------------------------------------------------------
# Torch-free. HogwildConfig refers to this module, so this module does not import it.


def _pace(config: Any) -> Pace:
    """In one epoch every trainer goes through the whole set; trainer1, which tests, counts only its own steps."""
    steps = ceil(config.samples / config.batch_size)
    return Pace(float(config.trainers), steps, None, config.trainers / steps, config.trainers)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"hogwild": Ready("Hogwild!"), "hogwild_locked": Ready("Hogwild! with a lock", {"lock": True})},
    data="the whole data set per trainer, in its own order",
    momentum=lambda config: "one per trainer",
    tests="by trainer1, which pauses; the others continue",
    given=lambda settings: {"overwrites_every": 0},
)


# ---- Config --------------------------------------------------------------------------------------------------------

SPARSE_VALUES = 4_000_000
"""Maximum number of values in a sparse training set: 12 bytes each, plus a fifth for the test set."""
SPARSE = ADVANCED | {"only": {"model": "sparse_logistic"}}


class HogwildConfig(Config):
    """Settings for SGD by several trainers on one set of shared weights."""

    work_fields = ("epochs",)

    trainers: int = Field(
        4, ge=1, le=64, description="Trainer processes. Each trains on the whole training set in its own order."
    )
    epochs: int = Field(
        10,
        ge=1,
        le=1000,
        description="Passes of each trainer over the training set; the total is trainers x epochs.",
    )
    batch_size: int = Field(
        64,
        ge=1,
        le=60_000,
        description="Images (or sparse samples) per mini-batch.",
        json_schema_extra={"unit": "samples"},
    )
    learning_rate: float = Field(
        0.01,
        gt=0,
        le=10,
        description="Learning rate of SGD. Lower it for more trainers, or if the loss diverges or becomes NaN.",
    )
    momentum: float = Field(0.5, ge=0, lt=1, description="Momentum of SGD, kept separately by each trainer.")
    model: Literal["mnist_net", "sparse_logistic"] = Field(
        "mnist_net",
        description=(
            "mnist_net: a dense net on images; it converges without the theorem's guarantee. "
            "sparse_logistic: logistic regression on generated sparse samples, close to the theorem's "
            "assumptions; ignores the data set."
        ),
    )
    dataset: DatasetName = Field(
        "mnist",
        description=(
            "Training data: mnist or fashion_mnist (60,000 images), digits (1,437, bundled) or synthetic "
            "(random, for timing)."
        ),
    )
    variant: Literal["engine", "tutorial"] = Field(
        "engine",
        description=(
            "engine: images as tensors in shared memory, one flat buffer of weights. tutorial: built "
            "like the published code, at its original speed."
        ),
    )
    lock: bool = Field(
        False,
        description="Lock each update so that updates never overlap: the baseline for Hogwild!.",
    )
    evaluate_every: int = Field(
        1,
        ge=0,
        le=1000,
        description=(
            "Epochs of trainer1 between tests of the shared weights; 0 tests only at the end. Trainer1 "
            "pauses during a test."
        ),
        json_schema_extra=ADVANCED | interval("epochs", "it is tested only at the end"),
    )
    overwrites_every: int = Field(
        100,
        ge=0,
        le=100_000,
        description=(
            "Steps between measurements of a trainer's overwritten updates; 0 disables them. Not "
            "supported by variant tutorial."
        ),
        json_schema_extra=ADVANCED | interval("steps", "no overwritten updates are measured"),
    )
    sparse_samples: int = Field(
        20_000,
        ge=100,
        le=100_000,
        description="Training samples of sparse_logistic; a fifth as many are generated for testing.",
        json_schema_extra=SPARSE | {"unit": "samples"},
    )
    sparse_features: int = Field(
        2_000,
        ge=10,
        le=1_000_000,
        description="Features of sparse_logistic, one weight each. More features mean fewer collisions.",
        json_schema_extra=SPARSE,
    )
    sparse_nonzeros: int = Field(
        10,
        ge=1,
        le=1_000,
        description="Nonzero features per sample of sparse_logistic. Fewer mean fewer collisions.",
        json_schema_extra=SPARSE,
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(f"trainer{number}" for number in range(1, self.trainers + 1))

    @property
    def max_gpus(self) -> int:
        """One: the trainers share its memory. None for the tutorial variant and the sparse model."""
        return 0 if self.variant == "tutorial" or self.model == "sparse_logistic" else 1

    @property
    def unused(self) -> frozenset[str]:
        return frozenset({"overwrites_every"} if self.variant == "tutorial" else ())

    @property
    def trains_on(self) -> str | None:
        """The data set; None for the sparse model, which generates its samples."""
        return None if self.model == "sparse_logistic" else self.dataset

    @property
    def samples(self) -> int:
        """Training samples per pass."""
        return self.sparse_samples if self.model == "sparse_logistic" else data_set(self.dataset).train

    def tests_after(self, epoch: int) -> bool:
        """Return whether trainer1 tests after that epoch (from 1) while the others continue; it also tests at the
        end.
        """
        return self.evaluate_every > 0 and epoch < self.epochs and epoch % self.evaluate_every == 0

    @property
    def divergence_advice(self) -> str:
        """The end of the error for a loss that is not finite."""
        return (
            f"the shared weights have diverged. Lower learning_rate ({self.learning_rate}), momentum "
            f"({self.momentum}) or trainers ({self.trainers})."
        )

    @model_validator(mode="after")
    def _keeps_the_rules(self) -> Self:
        for is_broken, field, sentence in self._rules():
            if is_broken:
                raise RuleBroken(field, sentence)
        return self

    def _rules(self) -> Iterator[tuple[bool, str, str]]:
        tutorial, sparse = self.variant == "tutorial", self.model == "sparse_logistic"
        yield (
            self.batch_size > self.samples,
            "batch_size",
            f"batch_size must be at most the {self.samples:,} training samples of "
            f"{self.model if sparse else self.dataset}, got {self.batch_size}.",
        )
        yield (
            self.device == "mps",
            "device",
            (
                "device must be auto, cpu or cuda for hogwild, got 'mps': processes can't share an Apple "
                "GPU's memory. Choose cpu."
            ),
        )
        yield (
            tutorial and self.device == "cuda",
            "device",
            (
                "device must be auto or cpu for variant tutorial, which only runs on the CPU, got "
                "'cuda'. Choose cpu or variant engine."
            ),
        )
        yield (
            tutorial and self.start_method != "spawn",
            "start_method",
            (
                "start_method must be spawn for variant tutorial, because its slow start is part of the "
                f"demonstration, got '{self.start_method}'. Choose spawn or variant engine."
            ),
        )
        yield (
            sparse and tutorial,
            "variant",
            (
                "variant must be engine for model sparse_logistic, which the published code does not "
                "have, got 'tutorial'."
            ),
        )
        yield (
            sparse and self.device == "cuda",
            "device",
            (
                "device must be auto or cpu for model sparse_logistic, whose updates are too small for a "
                "GPU, got 'cuda'. Choose cpu."
            ),
        )
        yield (
            sparse and self.momentum > 0,
            "momentum",
            (
                "momentum must be 0 for model sparse_logistic, because momentum would write every weight "
                f"in each step, got {self.momentum}."
            ),
        )
        yield (
            sparse and self.sparse_nonzeros > self.sparse_features,
            "sparse_nonzeros",
            f"sparse_nonzeros must be at most sparse_features ({self.sparse_features:,}), got {self.sparse_nonzeros}.",
        )
        yield (
            sparse and self.sparse_samples * self.sparse_nonzeros > SPARSE_VALUES,
            "sparse_samples",
            (
                f"sparse_samples x sparse_nonzeros must be at most {SPARSE_VALUES:,} (58 MB of shared "
                f"memory), got {self.sparse_samples:,} × {self.sparse_nonzeros}."
            ),
        )


_PUBLISHED = {"dataset": "mnist", "trainers": 4, "epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.5}
_QUICK = {"dataset": "digits", "trainers": 2, "epochs": 30, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5}
_SPARSE = {"model": "sparse_logistic", "trainers": 4, "epochs": 5, "batch_size": 10, "learning_rate": 5.0}

EXPERIMENT = Experiment(
    name="hogwild",
    title="Hogwild!",
    tagline="One model in shared memory, no locks",
    sentence="Several processes train one model in shared memory and never wait for each other.",
    config=HogwildConfig,
    ready_sweeps=(
        ReadySweep("Show scaling", "quick", {"trainers": "1, 2, 4"}, "scaling", equal_work=True, is_timed=True),
    ),
    presets={
        "published": Preset(
            "MNIST as published: 4 trainers with 10 epochs each, 40 passes over the data in total.", _PUBLISHED
        ),
        "tuned": Preset(
            "MNIST in 10 passes with 2 trainers, and a learning rate chosen for few passes.",
            _PUBLISHED | {"trainers": 2, "epochs": 5, "learning_rate": 0.02, "momentum": 0.8},
        ),
        "quick": Preset(
            "Two trainers make 30 passes each over the bundled digits; needs no network.",
            _QUICK | {"threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": Preset(
            (
                "The published set-up, built like the published code: a new Python process per trainer, "
                "images read one by one."
            ),
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
        "sparse": Preset(
            ("Logistic regression on sparse samples with few collisions, as the theorem assumes; needs no network."),
            _SPARSE | {"momentum": 0.0, "threads_per_rank": 1},
            expects={"test/accuracy": 84.0},
        ),
    },
    pattern="shared memory",
    flows=(
        Flow("shared data", "each trainer", "mini-batches, each trainer in its own order"),
        Flow("shared weights", "each trainer", "reads, while others write"),
        Flow("each trainer", "shared weights", "updates, without a lock"),
    ),
    source=(
        "Recht, Ré, Wright and Niu: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent, "
        "NeurIPS 2011"
    ),
    result=Result(own_tasks=(("model", "sparse_logistic"),)),
    work=lambda config: CONTENDER.work(config, config.samples),
    headline=(*HEADLINE, "theory/omega", "theory/delta", "theory/rho"),
    update_clock=UpdateClock("train/loss"),  # of all trainers: each updates the one model
    stale_gradients="Hogwild!",
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
