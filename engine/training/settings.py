"""The settings that the data-parallel experiments share. Torch-free."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from engine.config import Config, Rule, Rules, interval, setting
from engine.data.catalogue import MODELS, ModelName, SamplesName, bytes_exchanged, data_set, steps_of_parts
from engine.experiment import Pace, Preset

Schedule = Literal["constant", "linear"]
SCHEDULE = (
    "Learning-rate schedule: constant, or linear decay over the run: update k of n (from 0) has 1 - k/n of the rate."
)
IMAGES = (
    "Training data: mnist or fashion_mnist (60,000 images), digits (1,437, bundled) or synthetic (random, for timing)."
)
SAMPLES = (
    "Training data: images (mnist, fashion_mnist, digits; synthetic for timing only) or text (stdlib, stdlib_large: "
    "sources of Python's standard library)."
)
MODEL = (
    "Model: mnist_net (two convolutions) or vit (a small vision transformer) for images; gpt (125,000 weights) or "
    "gpt_base (10.8 million, for a GPU) for text."
)
CHECKPOINTS = (
    "Interval between checkpoints, from which a cancelled, failed or lost run can be resumed. 0 disables checkpoints."
)
DIGITS: dict[str, Any] = {"dataset": "digits", "trainers": 2}
"""The data and trainers of most quick presets."""
GPT: dict[str, Any] = {"dataset": "stdlib", "model": "gpt", "trainers": 2, "batch_size": 8, "threads_per_rank": 1}
"""What the presets gpt share."""
VIT = DIGITS | {"model": "vit", "batch_size": 16, "threads_per_rank": 1}
"""What the presets vit share."""
SLOW_START = "because its slow start is part of the demonstration"
"""Why variant tutorial needs start_method spawn."""


def as_published(settings: Mapping[str, Any], how: str) -> Preset:
    """Return the preset of the published set-up that is built like the published code."""
    own = {"variant": "tutorial", "start_method": "spawn", "device": "cpu"}
    return Preset(f"The published set-up, built like the published code: {how}", {**settings, **own})


def rate_factor(schedule: Schedule, done: float, total: float) -> float:
    """Return the fraction of the learning rate for an update that follows `done` of a run's `total` updates: 1, or with
    linear decay 1 - done / total, from 1 for the first update to 1 / total for the last one.
    """
    return 1 - done / total if schedule == "linear" else 1.0


class TrainersConfig(Config):
    """The settings of experiments whose ranks are trainers."""

    trainers: int = setting(4, low=1, high=64)
    """Trainer processes. Each computes gradients on its own mini-batches."""

    @property
    def trainer_roles(self) -> tuple[str, ...]:
        return tuple(f"trainer{number}" for number in range(1, self.trainers + 1))

    @property
    def roles(self) -> tuple[str, ...]:
        return self.trainer_roles


class TrainingConfig(TrainersConfig):
    """The settings of every data-parallel experiment: trainers, data, model, transport and injected faults."""

    tutorial_models: ClassVar[tuple[str, ...]] = ("mnist_net",)
    """The models that its variant tutorial trains."""

    batch_size: int = setting(64, "Samples per mini-batch of one trainer.", low=1, high=60_000, unit="samples")
    dataset: SamplesName = setting("mnist", SAMPLES)
    model: ModelName = setting("mnist_net", MODEL)
    variant: Literal["engine", "tutorial"] = setting("engine")
    """engine: one flat buffer each way, persistent processes. tutorial: built like the published code, at its original
    speed."""
    schedule: Schedule = setting("constant", SCHEDULE, advanced=True)
    transport: Literal["rpc", "shared_memory"] = setting("rpc")
    """Transport of gradients and weights: torch RPC or shared memory (one machine only)."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum silence of a trainer. After it, a synchronous run fails and names the trainer; an asynchronous run
    continues without it."""
    checkpoint_every_s: float = interval(30.0, "s", "it keeps no checkpoint", CHECKPOINTS, high=86_400, advanced=True)
    sleep_ms: float = setting(0.0, low=0, high=60_000, unit="ms", advanced=True)
    """Sleep per step of every trainer; simulates a slower gradient without using a core."""
    slow_trainer: int = setting(0, "Number of the trainer to slow down; 0 for none.", low=0, high=64, advanced=True)
    slow_sleep_ms: float = setting(100.0, low=0, high=60_000, unit="ms", advanced=True)
    """Sleep per step of the slow trainer, instead of sleep_ms."""
    kill_trainer: int = setting(0, low=0, high=64, advanced=True)
    """Number of the trainer to kill during the run; 0 for none."""
    kill_at_step: int = setting(50, low=1, high=1_000_000, unit="steps", advanced=True)
    """Step of that trainer at which it is killed."""

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

    def rules(self) -> Rules:
        yield self.at_most("slow_trainer", "trainers")
        yield self.at_most("kill_trainer", "trainers")
        yield self.no_apple_gpu()
        tutorial = self.when("variant tutorial")
        yield tutorial("start_method", "spawn", why=SLOW_START, cure="Choose spawn or variant engine.")
        yield tutorial("device", "auto", "cpu", cure="Choose cpu or variant engine.")
        cure = f"Choose {self.tutorial_models[0]} or variant engine."
        yield tutorial("model", *self.tutorial_models, why="which trains no other", cure=cure)
        if self.trains_on:
            yield from fits_the_data(self.dataset, data_set(self.dataset).train, self.batch_size, self.trainers)
            yield fits_the_model(self.dataset, self.model)


def fits_the_data(data: str, size: int, batch_size: int, trainers: int = 1) -> Rules:
    """Yield the rules that every trainer gets a sample, and that a mini-batch is at most the whole set."""
    allowed = f"at most the {size:,} training samples of {data}"
    yield Rule("trainers", allowed, "each needs at least one sample", broken=trainers > size)
    yield Rule("batch_size", allowed, broken=batch_size > size)


def fits_the_model(dataset: str, model: ModelName, models: Iterable[ModelName] = tuple(MODELS)) -> Rule:
    """Return the rule that a model, one of `models`, takes the kind of data that it is to be trained on."""
    kind = data_set(dataset).kind
    allowed = " or ".join(name for name in models if MODELS[name].kind == kind)
    cure = f"Choose one of these or a dataset of {MODELS[model].kind}."
    return Rule("model", allowed, f"{dataset} is a dataset of {kind}", cure, broken=MODELS[model].kind != kind)


class ServerConfig(TrainingConfig):
    """The additional settings of experiments with a weight server."""

    server_roles = ("ps",)
    work_fields = ("epochs",)

    epochs: int = setting(10, low=1, high=1000)
    """Passes of each trainer over its own part, which equals passes over the whole data set."""
    learning_rate: float = setting(0.001, above=0, high=10)
    """Learning rate of the server's SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.9, "Momentum of the server's SGD.", low=0, below=1)
    wire: Literal["float32", "bf16"] = setting("float32", advanced=True)
    """Number format in transit. bf16 halves the traffic and rounds gradients and fetched weights to 8 bits; the server
    keeps float32."""
    evaluate_every: int = interval(1, "passes", "it is tested only at the end", high=1000, advanced=True)
    """Passes over the data between tests by the server, while trainers continue. 0 tests only at the end."""

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

    def rules(self) -> Rules:
        yield from super().rules()
        yield self.when("variant tutorial")("transport", "rpc", cure="Choose rpc or variant engine.")


# ---- The pace of methods with a weight server: each trainer pushes a gradient and gets an answer -------------------
# Torch-free and pure.

_WIDTHS = {"float32": 4, "bf16": 2}


def served(config: ServerConfig, gradients: int = 1) -> Pace:
    """Return the pace of a server that makes one update per `gradients` gradients."""
    pushed = sum(steps_of_parts(config.dataset, config.trainers, config.batch_size))
    return Pace(1.0, pushed / gradients, bytes_exchanged(pushed, _WIDTHS[config.wire], config.model))
