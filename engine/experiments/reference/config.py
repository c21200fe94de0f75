"""The reference's settings, presets and card. Torch-free."""

from typing import Any, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken, interval
from engine.data.catalogue import DatasetName, data_set
from engine.duel.budget import steps_of
from engine.experiment.definition import Contender, Experiment, Flow, Pace, Preset, Ready, UpdateClock

# ---- How the reference takes part in duels -------------------------------------------------------------------------
# Torch-free. ReferenceConfig refers to this module, so this module does not import it.


def _pace(config: Any) -> Pace:
    return Pace(1.0, steps_of(config.dataset, config.batch_size), None)


CONTENDER = Contender(
    length="epochs",
    pace=_pace,
    strategies={"reference": Ready("Reference")},
    data="the whole data set",
    momentum=lambda config: "one",
    tests="by the trainer, which pauses",
)


# ---- Config --------------------------------------------------------------------------------------------------------


class ReferenceConfig(Config):
    """Settings of plain SGD in one process."""

    work_fields = ("epochs",)

    epochs: int = Field(10, ge=1, le=1000, description="Passes over the training set.")
    batch_size: int = Field(
        64, ge=1, le=60_000, description="Images per mini-batch.", json_schema_extra={"unit": "samples"}
    )
    learning_rate: float = Field(
        0.01, gt=0, le=10, description="Learning rate of SGD; lower it if the loss diverges or becomes NaN."
    )
    momentum: float = Field(0.5, ge=0, lt=1, description="Momentum of SGD.")
    dataset: DatasetName = Field(
        "mnist",
        description=(
            "Training data: mnist or fashion_mnist (60,000 images), digits (1,437, bundled) or "
            "synthetic (random, for timing)."
        ),
    )
    evaluate_every: int = Field(
        1,
        ge=0,
        le=1000,
        description="Epochs between tests of the model. 0 tests only at the end.",
        json_schema_extra=ADVANCED | interval("epochs", "it is tested only at the end"),
    )

    checkpoint_every_s: float = Field(
        30.0,
        ge=0,
        le=86_400,
        description=(
            "Interval between checkpoints, from which a cancelled, failed or lost run can be "
            "resumed. 0 disables checkpoints."
        ),
        json_schema_extra=ADVANCED | interval("s", "it keeps no checkpoint"),
    )

    def tests_after(self, epoch: int) -> bool:
        """Return whether the model is tested after that epoch (counted from 1)."""
        return epoch == self.epochs or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("trainer1",)

    @model_validator(mode="after")
    def _fits_the_data(self) -> Self:
        size = data_set(self.dataset).train
        if self.batch_size > size:
            raise RuleBroken(
                "batch_size",
                f"batch_size must be at most the {size:,} training samples of {self.dataset}, got {self.batch_size}.",
            )
        return self


_PUBLISHED = {"dataset": "mnist", "epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.5}

EXPERIMENT = Experiment(
    name="reference",
    title="Reference",
    tagline="One process: the baseline for speed-up",
    sentence="The same model, data and optimizer in one process: the baseline for every speed-up.",
    config=ReferenceConfig,
    presets={
        "published": Preset(
            ("MNIST with the settings of one published Hogwild! trainer: 10 epochs, learning rate 0.01, momentum 0.5."),
            _PUBLISHED,
        ),
        "tuned": Preset(
            "MNIST in 10 passes, with a learning rate chosen for few passes.",
            _PUBLISHED | {"learning_rate": 0.02, "momentum": 0.8},
        ),
        "quick": Preset(
            "60 passes over the bundled digits; needs no network.",
            {"dataset": "digits", "epochs": 60, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5},
            expects={"test/accuracy": 95.0},
        ),
    },
    pattern="one process",
    flows=(Flow("data", "trainer1", "mini-batches"), Flow("trainer1", "weights", "updates, one after the other")),
    source="Robbins and Monro: A Stochastic Approximation Method, 1951 (plain SGD, here with momentum)",
    resumable=True,
    work=lambda config: CONTENDER.work(config, data_set(config.dataset).train),
    update_clock=UpdateClock("train/loss"),
    axis="threads_per_rank",
    duel=CONTENDER,
)
