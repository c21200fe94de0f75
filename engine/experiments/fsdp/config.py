"""The settings, presets and card of sharded data parallelism. Torch-free."""

from typing import Any, Literal

from engine.plugin import (
    HEADLINE,
    MODEL,
    SAMPLES,
    Clock,
    Experiment,
    Flow,
    ModelName,
    Preset,
    ReadySweep,
    Rule,
    Rules,
    SamplesName,
    TradeOff,
    TrainersConfig,
    Work,
    data_set,
    fits_the_model,
    interval,
    setting,
)

ADAMW, SGD = {"optimizer": "adamw"}, {"optimizer": "sgd"}


class FsdpConfig(TrainersConfig):
    """Settings of trainers that step together and share the model's state among them."""

    work_fields = ("epochs",)

    stage: Literal["ddp", "sharded", "full"] = setting("full")
    """What each trainer holds a part of. ddp: nothing, all have everything; sharded: gradients and optimizer state, and
    parameters between steps (ZeRO-2); full: parameters too, each block gathered when it computes (ZeRO-3)."""
    dataset: SamplesName = setting("mnist", SAMPLES)
    model: ModelName = setting("mnist_net", MODEL)
    epochs: int = setting(1, "Passes over the training set by all trainers together.", low=1, high=1000)
    batch_size: int = setting(32, low=1, high=60_000, unit="samples")
    """Samples per mini-batch of one trainer. A step trains on those of all; what is left of a pass is skipped."""
    optimizer: Literal["sgd", "adamw"] = setting("adamw")
    """SGD with momentum keeps one number per parameter, AdamW (torch's betas 0.9 and 0.999) two."""
    learning_rate: float = setting(0.001, above=0, high=10)
    """Learning rate of the optimizer; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.9, "Momentum of SGD.", low=0, below=1, only=SGD)
    weight_decay: float = setting(0.01, low=0, high=10, only=ADAMW, advanced=True)
    """adamw only: fraction of the weights, times the learning rate, that each step subtracts."""
    precision: Literal["fp32", "bf16"] = setting("fp32")
    """Numbers that blocks compute with and parameters are gathered in. bf16 reduces gradients and updates parameters in
    fp32; not for ddp."""
    prefetch: int = setting(1, low=0, high=8, unit="blocks", advanced=True)
    """Blocks whose parameters are gathered ahead, while others compute. 0 needs least memory; ddp gathers none."""
    offload: bool = setting(False, advanced=True)
    """Keep parts of parameters, gradients and optimizer state in CPU memory, where the optimizer runs. GPUs only."""
    measure_every: int = interval(50, "steps", "memory is measured in the first step only", high=100_000, advanced=True)
    """Steps between two whose memory is measured, which takes a few ms. 0 measures only the first two."""
    evaluate_every: int = interval(1, "epochs", "it is tested only at the end", high=1000, advanced=True)
    """Epochs between tests, which all trainers share. 0 tests only at the end."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum wait for a trainer in a collective operation; then the run fails and names the trainer."""

    @property
    def max_gpus(self) -> int:
        """One per trainer."""
        return self.trainers

    def listens(self, gpus: int) -> bool:
        """Return True: gloo and NCCL connect the trainers."""
        return True

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.trainers * self.batch_size

    @property
    def steps_per_epoch(self) -> int:
        return data_set(self.dataset).train // self.global_batch

    def measures(self, step: int) -> bool:
        """Return whether memory is measured in that step (from 1); the first one has no optimizer state before it."""
        return step <= 2 or (self.measure_every > 0 and step % self.measure_every == 0)

    def tests_after(self, epoch: int) -> bool:
        """Return whether the model is tested after that epoch (from 1)."""
        return epoch == self.epochs or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)

    def rules(self) -> Rules:
        size = data_set(self.dataset).train
        most = f"at most {size // self.trainers:,} for {self.trainers} trainers"
        why = f"{self.dataset} has {size:,} training samples"
        yield Rule("batch_size", most, why, "Lower it or trainers.", broken=self.steps_per_epoch < 1)
        yield fits_the_model(self.dataset, self.model)
        yield self.no_apple_gpu()
        ddp, cure = self.when("stage ddp"), "or stage sharded or full."
        yield ddp("precision", "fp32", why="which has no mixed precision", cure=f"Choose fp32 {cure}")
        yield ddp(
            "offload",
            False,
            why="which keeps all state on its device",
            cure="Turn it off, or choose stage sharded or full.",
        )
        why = "state is there already"
        yield Rule("offload", "off for device cpu", why, "Turn it off.", broken=self.offload and self.device == "cpu")


def _work(config: Any) -> Work:
    steps = config.epochs * config.steps_per_epoch
    samples = steps * config.global_batch
    return Work("epochs", samples, passes=samples / data_set(config.dataset).train, updates=steps, steps=steps)


_GPT = {"dataset": "stdlib", "model": "gpt", "batch_size": 8, "threads_per_rank": 1}
_QUICK = {"dataset": "digits", "trainers": 2, "threads_per_rank": 1}

EXPERIMENT = Experiment(
    name="fsdp",
    title="Fully sharded data parallel",
    tagline="Each trainer holds a part of the state",
    sentence="Trainers step together as in DDP, but each holds only a part of parameters, gradients and optimizer.",
    config=FsdpConfig,
    presets={
        "published": Preset(
            "As ZeRO's stage 3 was published, at a small size: a GPT, AdamW, bf16 with fp32 gradients, 4 trainers.",
            _GPT | {"trainers": 4, "precision": "bf16"},
        ),
        "tuned": Preset(
            "Fashion-MNIST by a vision transformer in 4 trainers, fully sharded, with a larger learning rate.",
            {"dataset": "fashion_mnist", "model": "vit", "trainers": 4, "learning_rate": 0.003, "epochs": 4},
        ),
        "quick": Preset(
            "Two trainers make 14 passes over the bundled digits; needs no network.",
            _QUICK | {"epochs": 14, "batch_size": 32, "learning_rate": 0.008, "evaluate_every": 7},
            expects={"test/accuracy": 95.0},
        ),
        "gpt": Preset(
            "Two trainers make one pass over sources of Python's standard library with a small GPT.",
            _GPT | {"trainers": 2, "learning_rate": 0.002},
        ),
        "gpt_base": Preset(
            "A GPT of 10.8 million weights on 4 GPUs, in bf16, makes 10 passes over 6.3 MB of the same sources.",
            {"dataset": "stdlib_large", "model": "gpt_base", "trainers": 4, "epochs": 10, "precision": "bf16"},
        ),
    },
    ready_sweeps=(
        ReadySweep(
            "What does sharding save?",
            "quick",
            {"stage": "ddp, sharded, full"},
            TradeOff(
                *("perf/memory_state.last", "test/loss.last", 10),
                is_relative=True,
                baseline={"stage": "ddp"},
                asks_cost=True,
            ),
            changes={"evaluate_every": 0},
            run_s=10,
        ),
    ),
    pattern="average",
    flows=(
        Flow("own mini-batch", "each trainer", "samples"),
        Flow("parts of all", "each trainer", "a block's parameters, before it computes"),
        Flow("each trainer", "part of each", "the mean of all gradients, a part to each"),
    ),
    source="Zhao et al.: PyTorch FSDP, VLDB 2023; Rajbhandari et al.: ZeRO, SC 2020",
    work=_work,
    headline=(*HEADLINE, "perf/memory_state", "perf/sent_per_step"),
    sections=("Memory",),
    update_clock=Clock("train/loss", counts="most"),
    axis="stage",
    counts={"trainers": "trainer"},
)
