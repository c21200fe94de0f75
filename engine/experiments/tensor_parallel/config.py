"""Tensor parallelism's settings, presets and card. Torch-free."""

from typing import Any, Literal

from engine.plugin import (
    HEADLINE,
    SAMPLES,
    Clock,
    Config,
    Experiment,
    Flow,
    ModelName,
    Preset,
    ReadySweep,
    Result,
    Rule,
    Rules,
    SamplesName,
    Work,
    data_set,
    fits_the_data,
    fits_the_model,
    interval,
    setting,
    steps_of,
)

HEADS: dict[ModelName, int] = {"vit": 4, "gpt": 4, "gpt_base": 6}
"""The attention heads of each model that has some."""
BYTES = 256
"""Logits of a byte of text."""
LENGTH: dict[ModelName, int] = {"vit": 16, "gpt": 128, "gpt_base": 128}
"""Its sequence: patches of an image, or bytes of a window."""


class TensorParallelConfig(Config):
    """Settings of a transformer whose layers are divided among ranks."""

    work_fields = ("steps",)

    ranks: int = setting(2, low=1, high=6)
    """Ranks that the model is divided among. Each has its part of the heads and neurons of every block."""
    sequence_parallel: bool = setting(False)
    """Divide norms and sums too, by the sequence: all-gather and reduce-scatter replace each all-reduce, for the same
    bytes and fewer activations per rank."""
    loss_parallel: bool = setting(False)
    """Divide the table of bytes and the logits too, by torch's loss_parallel: the loss sums three numbers per byte over
    the ranks instead of gathering 256. Text only."""
    dataset: SamplesName = setting("stdlib", SAMPLES)
    model: Literal["vit", "gpt", "gpt_base"] = setting("gpt")
    """Transformer: vit (a small vision transformer) for images; gpt (125,000 weights) or gpt_base (10.8 million, for a
    GPU) for text."""
    batch_size: int = setting(8, low=1, high=60_000, unit="samples")
    """Samples per step. All ranks work on the same ones."""
    steps: int = setting(384, "Number of steps, each with one update.", low=1, high=1_000_000, unit="steps")
    learning_rate: float = setting(0.1, above=0, high=10)
    """Learning rate of SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.9, "Momentum of SGD.", low=0, below=1)
    evaluate_every: int = interval(0, "steps", "it is tested only at the end", high=1_000_000, advanced=True)
    """Steps between tests of the model, in which all ranks take part. 0 tests only at the end."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum wait for a rank in a collective; then the run fails and names it."""

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(f"rank{number}" for number in range(1, self.ranks + 1))

    @property
    def is_text(self) -> bool:
        """Whether the model reads text, so that its work is counted in tokens."""
        return data_set(self.dataset).kind == "text"

    @property
    def unit(self) -> str:
        """The unit of its work."""
        return "tokens" if self.is_text else "samples"

    @property
    def units_per_sample(self) -> int:
        """Tokens of a window, or 1 for an image."""
        return LENGTH[self.model] if self.is_text else 1

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first steps; the last mini-batch of a pass may be smaller."""
        size = data_set(self.dataset).train
        passes, rest = divmod(steps, steps_of(self.dataset, self.batch_size))
        return passes * size + rest * self.batch_size

    def tests_after(self, step: int) -> bool:
        """Return whether the model is tested after that step (from 1)."""
        return step == self.steps or (self.evaluate_every > 0 and step % self.evaluate_every == 0)

    def listens(self, gpus: int) -> bool:
        """Return whether ranks connect over the loopback network."""
        return True

    def why_one_node(self) -> str:
        return "Its ranks exchange activations in each layer, which only ranks on one node do fast enough."

    def rules(self) -> Rules:
        yield from fits_the_data(self.dataset, data_set(self.dataset).train, self.batch_size)
        yield fits_the_model(self.dataset, self.model, HEADS)
        heads, length = HEADS[self.model], LENGTH[self.model]
        divisors = ", ".join(str(count) for count in range(1, heads + 1) if heads % count == 0)
        why = f"each rank has equally many of the {heads} heads of {self.model}"
        yield Rule("ranks", f"one of {divisors}", why, broken=heads % self.ranks > 0)
        allowed = f"off for {self.ranks} ranks"
        why = f"the sequence of {length} can't be divided evenly among them"
        yield Rule("sequence_parallel", allowed, why, broken=self.sequence_parallel and length % self.ranks > 0)
        why = "images have 10 classes, too few to divide"
        broken = self.loss_parallel and not self.is_text
        yield Rule("loss_parallel", f"off for {self.dataset}", why, "Turn it off.", broken=broken)
        why, broken = f"{BYTES} bytes can't be divided evenly among them", BYTES % self.ranks > 0
        yield Rule("loss_parallel", allowed, why, "Turn it off.", broken=self.loss_parallel and broken)
        yield self.no_apple_gpu()


def _work(config: Any) -> Work:
    samples = config.samples(config.steps)
    return Work(
        "steps",
        samples * config.units_per_sample,
        config.unit,
        passes=samples / data_set(config.dataset).train,
        updates=config.steps,
        steps=config.steps,
    )


_PUBLISHED = {"dataset": "stdlib_large", "model": "gpt_base", "ranks": 2, "batch_size": 8, "steps": 6144}
_GPT = {"dataset": "stdlib", "model": "gpt", "ranks": 2, "batch_size": 8, "threads_per_rank": 1}

EXPERIMENT = Experiment(
    name="tensor_parallel",
    title="Tensor parallelism",
    tagline="Every layer divided among ranks",
    sentence="Every layer of a transformer is divided among ranks, which sum their parts twice per block and pass.",
    config=TensorParallelConfig,
    ready_sweeps=(
        ReadySweep(
            "What does splitting a layer cost?",
            "quick",
            {"ranks": "1, 2, 4", "sequence_parallel": "false, true"},
            "contest",
            run_s=16,
        ),
    ),
    presets={
        "published": Preset(
            "The largest model here divided in two, with the published batch of 8; for GPUs. The source trains GPT-2s "
            "of up to 8.3 billion weights on 1,024 words.",
            _PUBLISHED,
        ),
        "tuned": Preset(
            "A small GPT divided in two makes two passes over sources of Python's standard library.",
            _GPT | {"steps": 1536, "evaluate_every": 384},
        ),
        "quick": Preset(
            "A small GPT divided in two makes 192 steps; needs no network.",
            _GPT | {"steps": 192},
        ),
        "vit": Preset(
            "A small vision transformer divided in two, sequence too, makes 10 passes over the bundled digits.",
            {"dataset": "digits", "model": "vit", "ranks": 2, "sequence_parallel": True, "batch_size": 32}
            | {"steps": 450, "learning_rate": 0.04, "threads_per_rank": 1},
        ),
    },
    pattern="average",
    flows=(
        Flow("the same mini-batch", "each rank", "samples"),
        Flow("each rank", "sum over ranks", "its part of the outputs of attention and MLP"),
        Flow("sum over ranks", "each rank", "the whole outputs, or a part of the sequence"),
    ),
    source="Shoeybi et al.: Megatron-LM, 2019; Korthikanti et al.: Reducing Activation Recomputation, 2022",
    work=_work,
    result=Result("test/loss", task=("dataset", "model")),
    headline=(*HEADLINE, "perf/tokens_per_second", "perf/layer_exchanged", "perf/memory_parameters"),
    update_clock=Clock("train/loss", counts="most"),
    axis="ranks",
    counts={"ranks": "rank"},
)
