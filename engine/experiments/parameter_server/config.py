"""The batch-updating parameter server's settings, presets and card. Torch-free."""

from collections.abc import Mapping
from typing import Any, Literal

from engine.config import Rules, setting
from engine.data.catalogue import ModelName, data_set
from engine.experiment import Clock, Contender, Experiment, Flow, Preset, Ready, Work
from engine.metrics import Result
from engine.training.settings import DIGITS, GPT, MODEL, VIT, ServerConfig, served

RESNETS = ("resnet50", "small_resnet")
"""The models that train on random images, for timing."""


class ParameterServerConfig(ServerConfig):
    """Settings of a server that updates once per batch of its trainers' gradients."""

    tutorial_models = ("mnist_net", *RESNETS)

    batch_update_size: int = setting(4, low=1, high=64, unit="gradients")
    """Gradients averaged into one update. All trainers: synchronous; 1: asynchronous; in between, the server waits only
    for the fastest."""
    late: Literal["next_batch", "drop"] = setting("next_batch")
    """What happens to a gradient that arrives after its batch was complete: count it in the next batch, or drop it
    (backup workers)."""
    model: Literal[ModelName, "resnet50", "small_resnet"] = setting(  # type: ignore[assignment]  # these two need no data set
        "mnist_net", f"{MODEL} resnet50 or small_resnet: on random images, for timing."
    )
    iterations: int = setting(6, low=1, high=1_000_000, unit="steps")
    """resnet50 and small_resnet only: steps per trainer."""

    @classmethod
    def counts(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the field that the execution time is proportional to: the ResNets run `iterations`."""
        return ("iterations",) if settings.get("model") in RESNETS else cls.work_fields

    @property
    def trains_on(self) -> str | None:
        """The data set; the ResNets use random images."""
        return None if self.model in RESNETS else self.dataset

    @property
    def needs_all(self) -> bool:
        return self.batch_update_size == self.trainers

    def rules(self) -> Rules:
        yield from super().rules()
        why = "each trainer waits for its answer, so a larger batch would never be complete"
        yield self.at_most("batch_update_size", "trainers", why)


CONTENDER = Contender(
    length="epochs",
    pace=lambda config: served(config, config.batch_update_size),
    strategies={"parameter_server": Ready("Parameter server")},
    data="one part of the data per trainer",
    momentum=lambda config: "one, on the server",
    tests="by the server, while all trainers continue",
    gradients=lambda config: config.batch_update_size,
    given=lambda settings: {"batch_update_size": settings["trainers"]},
)
_RESNET50 = {"model": "resnet50", "trainers": 5, "batch_update_size": 5, "iterations": 6, "batch_size": 20} | {
    "learning_rate": 0.001,
    "momentum": 0.9,
}
_MNIST = {
    "model": "mnist_net",
    "dataset": "mnist",
    "trainers": 4,
    "batch_update_size": 4,
    "epochs": 10,
    "batch_size": 32,
} | {"learning_rate": 0.001, "momentum": 0.9}


def _work(config: ParameterServerConfig) -> Work:
    """Return the total work; random images have no passes."""
    if config.trains_on:
        return CONTENDER.work(config, data_set(config.dataset).train)
    steps = config.trainers * config.iterations
    return Work("iterations", steps * config.batch_size, updates=steps / config.batch_update_size)


EXPERIMENT = Experiment(
    name="parameter_server",
    title="Batch-updating parameter server",
    tagline="A server updates once per batch of gradients",
    sentence="Trainers push gradients to a server, which updates once per batch of them and answers all waiting "
    "trainers.",
    config=ParameterServerConfig,
    presets={
        "published": Preset(
            "MNIST as published (set-up assumed): 4 trainers, one update per 4 gradients, 10 passes.", _MNIST
        ),
        "tuned": Preset(
            "MNIST in 10 passes with a larger learning rate and linear decay.",
            _MNIST | {"batch_size": 64, "learning_rate": 0.05, "schedule": "linear"},
        ),
        "resnet50": Preset(
            "ResNet-50 on random images as published: 5 trainers, one update per 5 gradients, 6 steps.", _RESNET50
        ),
        "small_resnet": Preset(
            "The same with a small ResNet, for machines without a GPU.", _RESNET50 | {"model": "small_resnet"}
        ),
        "quick": Preset(
            "Two trainers make 25 passes over the bundled digits; needs no network.",
            DIGITS
            | {"batch_update_size": 2, "epochs": 25, "batch_size": 16, "learning_rate": 0.05, "momentum": 0.9}
            | {"schedule": "linear", "evaluate_every": 5, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "gpt": Preset(
            "Two trainers of a small GPT make one pass over sources of Python's standard library; needs no network.",
            GPT | {"batch_update_size": 2, "epochs": 1, "learning_rate": 0.2, "momentum": 0.9},
        ),
        "vit": Preset(
            "Two trainers of a small vision transformer make 20 passes over the bundled digits; needs no network.",
            VIT | {"batch_update_size": 2, "epochs": 20, "learning_rate": 0.04, "momentum": 0.9, "evaluate_every": 5},
        ),
        "tutorial": Preset(
            "ResNet-50 as published, built like the published code: the whole module is sent to every trainer each "
            "round.",
            _RESNET50 | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
    },
    pattern="batched server",
    flows=(
        Flow("each trainer", "server (ps)", "the gradient of a mini-batch"),
        Flow("server (ps)", "weights", "one update per batch of gradients"),
        Flow("server (ps)", "each trainer", "the new weights, when the batch is complete"),
    ),
    source="PyTorch tutorial: Implementing Batch RPC Processing Using Asynchronous Executions; "
    "Li et al.: Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014",
    resumable=True,
    work=_work,
    result=Result(own_tasks=tuple(("model", name) for name in RESNETS), nothing_to_learn=("synthetic", *RESNETS)),
    update_clock=lambda settings: (
        Clock("train/loss", counts="most")
        if settings.get("batch_update_size") == settings.get("trainers")
        else Clock("test/accuracy")  # tests use the server's count
    ),
    stale_gradients="a parameter server whose batch_update_size is below its trainers",
    axis="batch_update_size",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
