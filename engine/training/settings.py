"""The settings that the data-parallel experiments share. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken, interval
from engine.data.catalogue import DatasetName, data_set
from engine.duel.budget import bytes_exchanged, steps_of_parts
from engine.experiment.definition import Pace

MS = ADVANCED | {"unit": "ms"}
Schedule = Literal["constant", "linear"]
SCHEDULE = (
    "Learning-rate schedule: constant, or linear decay over the run: update k of n (from 0) has 1 - k/n of the rate."
)


def rate_factor(schedule: Schedule, done: float, total: float) -> float:
    """Return the fraction of the learning rate for an update that follows `done` of a run's `total` updates: 1, or with
    linear decay 1 - done / total, from 1 for the first update to 1 / total for the last one.
    """
    return 1 - done / total if schedule == "linear" else 1.0


class TrainingConfig(Config):
    """The settings of every data-parallel experiment: trainers, optimizer, transport and injected faults."""

    trainers: int = Field(
        4, ge=1, le=64, description="Trainer processes. Each computes gradients on its own part of the data."
    )
    batch_size: int = Field(
        64, ge=1, le=60_000, description="Samples per mini-batch of one trainer.", json_schema_extra={"unit": "samples"}
    )
    dataset: DatasetName = Field(
        "mnist", description="Training data. digits is bundled and small; synthetic is random, for timing only."
    )
    variant: Literal["engine", "tutorial"] = Field(
        "engine",
        description=(
            "engine: one flat buffer each way, persistent processes. tutorial: built like the "
            "published code, at its original speed."
        ),
    )
    schedule: Schedule = Field("constant", description=SCHEDULE, json_schema_extra=ADVANCED)
    transport: Literal["rpc", "shared_memory"] = Field(
        "rpc",
        description=("Transport of gradients and weights: torch RPC or shared memory (one machine only)."),
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description=(
            "Maximum silence of a trainer. After it, a synchronous run fails and names the trainer; "
            "an asynchronous run continues without it."
        ),
        json_schema_extra=ADVANCED | {"unit": "s"},
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
    sleep_ms: float = Field(
        0.0,
        ge=0,
        le=60_000,
        description="Sleep per step of every trainer; simulates a slower gradient without using a core.",
        json_schema_extra=MS,
    )
    slow_trainer: int = Field(
        0,
        ge=0,
        le=64,
        description="Number of the trainer to slow down; 0 for none.",
        json_schema_extra=ADVANCED,
    )
    slow_sleep_ms: float = Field(
        100.0,
        ge=0,
        le=60_000,
        description="Sleep per step of the slow trainer, instead of sleep_ms.",
        json_schema_extra=MS,
    )
    kill_trainer: int = Field(
        0,
        ge=0,
        le=64,
        description="Number of the trainer to kill during the run; 0 for none.",
        json_schema_extra=ADVANCED,
    )
    kill_at_step: int = Field(
        50,
        ge=1,
        le=1_000_000,
        description="Step of that trainer at which it is killed.",
        json_schema_extra=ADVANCED | {"unit": "steps"},
    )

    @property
    def trainer_roles(self) -> tuple[str, ...]:
        return tuple(f"trainer{number}" for number in range(1, self.trainers + 1))

    @property
    def patience_s(self) -> float:
        """Time that a rank waits for an answer: longer than the server waits for trainers, so that the server reports
        the late one.
        """
        return 2 * self.timeout_s + 10

    def listens(self, gpus: int) -> bool:
        """Return whether vectors travel over the loopback network."""
        return self.transport != "shared_memory"

    def sleep_s(self, number: int) -> float:
        """Return the seconds that trainer `number` (from 1) sleeps per step."""
        return (self.slow_sleep_ms if number == self.slow_trainer else self.sleep_ms) / 1000

    @model_validator(mode="after")
    def _names_trainers_that_exist(self) -> Self:
        for field in ("slow_trainer", "kill_trainer"):
            if getattr(self, field) > self.trainers:
                raise RuleBroken(
                    field, f"{field} must be at most trainers ({self.trainers}), got {getattr(self, field)}."
                )
        return self

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.device == "mps":
            raise RuleBroken(
                "device",
                (
                    "device must be auto, cpu or cuda here, got 'mps': several processes can't share "
                    "an Apple GPU. Choose cpu."
                ),
            )
        return self

    @model_validator(mode="after")
    def _starts_as_the_tutorial_does(self) -> Self:
        if self.variant != "tutorial":
            return self
        if self.start_method != "spawn":
            raise RuleBroken(
                "start_method",
                (
                    "start_method must be spawn for variant tutorial, because its slow start is part of "
                    f"the demonstration, got '{self.start_method}'. Choose spawn or variant engine."
                ),
            )
        if self.device == "cuda":
            raise RuleBroken(
                "device", "device must be auto or cpu for variant tutorial, got 'cuda'. Choose cpu or variant engine."
            )
        return self


def fits_the_data(dataset: str, trainers: int, batch_size: int) -> None:
    """Raise RuleBroken if a trainer would get no sample, or a mini-batch is larger than the whole set."""
    size = data_set(dataset).train
    if trainers > size:
        raise RuleBroken(
            "trainers",
            (
                f"trainers must be at most the {size:,} training samples of {dataset}, got "
                f"{trainers}: each needs at least one sample."
            ),
        )
    if batch_size > size:
        raise RuleBroken(
            "batch_size", f"batch_size must be at most the {size:,} training samples of {dataset}, got {batch_size}."
        )


class ServerConfig(TrainingConfig):
    """The additional settings of experiments with a weight server."""

    server_roles = ("ps",)
    work_fields = ("epochs",)

    epochs: int = Field(
        10,
        ge=1,
        le=1000,
        description="Passes of each trainer over its own part, which equals passes over the whole data set.",
    )
    learning_rate: float = Field(
        0.001,
        gt=0,
        le=10,
        description="Learning rate of the server's SGD; lower it if the loss diverges or becomes NaN.",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of the server's SGD.")
    wire: Literal["float32", "bf16"] = Field(
        "float32",
        description=(
            "Number format in transit. bf16 halves the traffic and rounds gradients and fetched "
            "weights to 8 bits; the server keeps float32."
        ),
        json_schema_extra=ADVANCED,
    )
    evaluate_every: int = Field(
        1,
        ge=0,
        le=1000,
        description=(
            "Passes over the data between tests by the server, while trainers continue. 0 tests only at the end."
        ),
        json_schema_extra=ADVANCED | interval("passes", "it is tested only at the end"),
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return ("ps", *self.trainer_roles)

    @property
    def max_gpus(self) -> int:
        """One per trainer and one for the server; none for the tutorial variant."""
        return 0 if self.variant == "tutorial" else len(self.roles)

    @property
    def needs_all(self) -> bool:
        """Whether an update needs a gradient from every trainer."""
        raise NotImplementedError

    @property
    def may_be_stale(self) -> bool:
        """Whether other gradients can be applied between a fetch and its push."""
        return not self.needs_all

    @property
    def expendable(self) -> tuple[str, ...]:
        """The roles that the run can lose and still continue."""
        return () if self.needs_all else self.trainer_roles

    @model_validator(mode="after")
    def _speaks_as_the_tutorial_does(self) -> Self:
        if self.variant == "tutorial" and self.transport != "rpc":
            raise RuleBroken(
                "transport",
                f"transport must be rpc for variant tutorial, got '{self.transport}'. Choose rpc or variant engine.",
            )
        return self


# ---- The pace of methods with a weight server: each trainer pushes a gradient and gets an answer -------------------
# Torch-free and pure.

_WIDTHS = {"float32": 4, "bf16": 2}


def served(config: ServerConfig, gradients: int = 1) -> Pace:
    """Return the pace of a server that makes one update per `gradients` gradients."""
    pushed = sum(steps_of_parts(config.dataset, config.trainers, config.batch_size))
    return Pace(1.0, pushed / gradients, bytes_exchanged(pushed, _WIDTHS[config.wire]))
