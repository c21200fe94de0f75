"""Asynchronous SGD's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED
from engine.experiment.definition import Experiment, Flow, Preset, UpdateClock
from engine.experiments.async_sgd.duel import CONTENDER
from engine.training.settings import ServerConfig, fits_the_data


class AsyncSgdConfig(ServerConfig):
    """A server that applies every gradient the moment it comes."""

    momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        description=(
            "Momentum of the server's SGD. Asynchrony adds about 1 - 1/N of its own (Mitliagkas et al. 2016): "
            "lower it for many trainers."
        ),
    )
    rule: Literal["plain", "staleness_scaled", "delay_compensated"] = Field(
        "plain",
        description="How a stale gradient is applied. plain: as it is. staleness_scaled: divided by 1 + its staleness, "
        "momentum is not. "
        "delay_compensated: corrected to first order for what changed since its fetch.",
    )
    staleness_bound: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Steps by which a trainer may be ahead of the slowest; then it waits. Empty: never.",
        json_schema_extra={"unit": "steps", "empty": "unbounded"},
    )
    compensation: float = Field(
        0.04,
        ge=0,
        le=1000,
        description="delay_compensated only: the paper's lambda; with compensation_decay, about 2 is usual.",
        json_schema_extra=ADVANCED,
    )
    compensation_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "delay_compensated only: decay of the mean square that lambda is divided by, 0.95 in the paper; 0 "
            "keeps lambda constant."
        ),
        json_schema_extra=ADVANCED,
    )

    @property
    def needs_all(self) -> bool:
        return False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        fits_the_data(self.dataset, self.trainers, self.batch_size)
        return self


_PUBLISHED = {
    "dataset": "mnist",
    "trainers": 4,
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 0.001,
    "momentum": 0.9,
}

EXPERIMENT = Experiment(
    name="async_sgd",
    title="Asynchronous SGD",
    sentence=(
        "A server applies every trainer's gradient the moment it comes, however old the weights are that it was "
        "computed from."
    ),
    config=AsyncSgdConfig,
    presets={
        "published": Preset(
            "The published MNIST set-up (assumed) with updates applied one by one: 4 trainers, 10 passes.", _PUBLISHED
        ),
        "tuned": Preset(
            (
                "MNIST in 10 passes with smaller batches, larger steps that shrink to 0, and less momentum, since "
                "asynchrony brings its own."
            ),
            _PUBLISHED | {"batch_size": 16, "learning_rate": 0.02, "momentum": 0.5, "schedule": "linear"},
        ),
        "quick": Preset(
            "Two trainers on the bundled digits: needs no network and ends in seconds.",
            {
                "dataset": "digits",
                "trainers": 2,
                "epochs": 25,
                "batch_size": 16,
                "learning_rate": 0.05,
                "momentum": 0.5,
                "schedule": "linear",
                "evaluate_every": 5,
                "threads_per_rank": 1,
            },
            expects={"test/accuracy": 95.0},
        ),
        "straggler": Preset(
            (
                "Every trainer sleeps 50 ms a step, one of them 100 ms: what a slow trainer costs when nobody "
                "waits for it."
            ),
            _PUBLISHED | {"batch_size": 64, "epochs": 1, "sleep_ms": 50, "slow_trainer": 4, "slow_sleep_ms": 100},
        ),
        "bounded": Preset(
            "The same with a staleness bound of 4 steps (SSP).",
            _PUBLISHED
            | {
                "batch_size": 64,
                "epochs": 1,
                "sleep_ms": 5,
                "slow_trainer": 4,
                "slow_sleep_ms": 10,
                "staleness_bound": 4,
            },
        ),
        "tutorial": Preset(
            "The published set-up built as the published code is: a whole module each way, images read one by one.",
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
    },
    flows=(
        Flow("each trainer", "ps", "a gradient, of weights that may be old by now"),
        Flow("ps", "weights", "an update for every gradient"),
        Flow("ps", "each trainer", "the weights as they are then"),
    ),
    source=(
        "Dean et al.: Large Scale Distributed Deep Networks, NeurIPS 2012; Zhang et al. 2016; Ho et al. 2013; "
        "Zheng et al. 2017"
    ),
    resumable=True,
    update_clock=UpdateClock("train/loss"),  # of all trainers: each gradient is an update
    stale_gradients="asynchronous SGD",
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
