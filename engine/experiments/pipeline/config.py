"""Pipeline parallelism's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken
from engine.data.catalogue import ImagesName
from engine.experiment.definition import Experiment, Flow, Preset, Result, UpdateClock
from engine.experiments.pipeline.scaling import SCALING
from engine.pipelining.schedules import order_of

LAYERS = {"resnet50": 18, "resnet18": 10, "small_resnet": 6}
"""Layers that a net can be cut between: the stem, its residual blocks, the head."""


class PipelineConfig(Config):
    """One net in stages, each in a process of its own; a batch goes through as micro-batches, so that stages work at
    the same time.
    """

    server_roles = ("master",)

    stages: int = Field(2, ge=2, le=4, description="Parts that the net is cut into; each is a process.")
    splits: int = Field(
        4,
        ge=1,
        le=10_000,
        description=(
            "Micro-batches that a batch is cut into: with 1 only one stage works at a time, with many each is "
            "small and slow per image."
        ),
        json_schema_extra={"unit": "micro-batches"},
    )
    mode: Literal["gpipe", "1f1b", "rpc", "torch_pipelining"] = Field(
        "gpipe",
        description="gpipe: all forwards, then all backwards. 1f1b: a backward as soon as one can be, so that fewer "
        "activations are held. "
        "rpc: the tutorial's way, a master and remote calls. torch_pipelining: torch's own, as the peer.",
    )
    peer_schedule: Literal["gpipe", "1f1b"] = Field(
        "gpipe", description="torch_pipelining only: the schedule that torch runs.", json_schema_extra=ADVANCED
    )
    model: Literal["resnet50", "resnet18", "small_resnet"] = Field(
        "small_resnet",
        description=(
            "torchvision's ResNet-50 (18 layers to cut between), ResNet-18 (10), or one with a block a stage (6)."
        ),
    )
    cut: str = Field(
        "",
        max_length=20,
        description=(
            "Layers that begin a new stage, counted from 0, such as 9 or 5,9,13; empty: the net is timed and cut "
            "so that stages take equally long."
        ),
        json_schema_extra={"empty": "by measured time"},
    )
    dataset: ImagesName = Field(
        "random",
        description=(
            "random: images drawn anew for each batch, against targets drawn once, as published; the others are "
            "real and tested on."
        ),
    )
    image_size: int = Field(
        64,
        ge=16,
        le=512,
        description="Side of an image; those of a data set are enlarged to it.",
        json_schema_extra={"unit": "pixels"},
    )
    classes: int = Field(
        1000, ge=2, le=10_000, description="random only: classes that the net tells apart; data sets have their own 10."
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=10_000,
        description="Images between two updates; what the micro-batches add up to.",
        json_schema_extra={"unit": "images"},
    )
    batches: int = Field(20, ge=1, le=1_000_000, description="Batches trained on, an update after each.")
    loss: Literal["mse", "cross_entropy"] = Field(
        "mse", description="mse: against one-hot targets, as published. cross_entropy: what classes are learned by."
    )
    learning_rate: float = Field(
        0.05, gt=0, le=10, description="Step size of SGD. If the loss jumps or becomes NaN, lower it."
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="Momentum of SGD; published: none.")
    batch_norm: Literal["micro_batch", "frozen"] = Field(
        "micro_batch",
        description=(
            "micro_batch: normalizes by each micro-batch's own statistics, so results depend on splits. frozen: by "
            "fixed ones, so they don't."
        ),
    )
    transport: Literal["auto", "shared_memory", "rpc"] = Field(
        "auto",
        description=(
            "gpipe and 1f1b only: how activations travel. auto: in shared memory between CPU stages, by RPC's "
            "device maps between GPUs."
        ),
        json_schema_extra=ADVANCED,
    )
    evaluate_every: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Batches between two tests on the data set's test images; 0 tests at the end only.",
        json_schema_extra=ADVANCED | {"unit": "batches"},
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="So long a stage waits for another before the run fails and names it.",
        json_schema_extra=ADVANCED | {"unit": "s"},
    )
    fault: Literal["none", "raise", "kill", "hang", "memory", "nan"] = Field(
        "none",
        description="What goes wrong on purpose in fault_stage, in the backward of its batch 2's middle micro-batch.",
        json_schema_extra=ADVANCED,
    )
    fault_stage: int = Field(1, ge=1, le=4, description="The stage that the fault strikes.", json_schema_extra=ADVANCED)

    @property
    def stage_roles(self) -> tuple[str, ...]:
        return tuple(f"stage{number}" for number in range(1, self.stages + 1))

    @property
    def trains_on(self) -> str | None:
        """The data set; random images are drawn."""
        return None if self.dataset == "random" else self.dataset

    @property
    def roles(self) -> tuple[str, ...]:
        return ("master", *self.stage_roles) if self.mode == "rpc" else self.stage_roles

    @property
    def max_gpus(self) -> int:
        """One a stage; the master needs none."""
        return self.stages

    def listens(self, gpus: int) -> bool:
        """Return whether stages meet through RPC or a process group; only activations of CPU stages can travel in
        shared memory alone.
        """
        return (
            self.mode in ("rpc", "torch_pipelining")
            or self.transport == "rpc"
            or (self.transport == "auto" and gpus > 0)
        )

    @property
    def schedule(self) -> Literal["gpipe", "1f1b"]:
        """In which order stages work."""
        return order_of(self.mode, self.peer_schedule)

    @property
    def outputs(self) -> int:
        """Classes that the net tells apart."""
        return self.classes if self.dataset == "random" else 10

    @property
    def cuts(self) -> tuple[int, ...]:
        """The layers that begin stages 2, 3, …, as written; empty where the net is cut by measured time."""
        return tuple(int(text) for text in self.cut.split(",")) if self.cut.strip() else ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.splits > self.batch_size:
            raise RuleBroken(
                "splits",
                (
                    f"splits must be at most batch_size ({self.batch_size}), got {self.splits}: a micro-batch "
                    "needs an image."
                ),
            )
        if self.mode == "torch_pipelining" and self.batch_size % self.splits:
            raise RuleBroken(
                "splits",
                f"splits must divide batch_size ({self.batch_size}) for mode torch_pipelining, whose "
                f"micro-batches are all of one size, got {self.splits}. "
                "Choose a divisor or another mode.",
            )
        if self.mode == "torch_pipelining" and self.peer_schedule == "1f1b" and self.splits < self.stages:
            raise RuleBroken(
                "splits",
                (
                    f"splits must be at least stages ({self.stages}) for torch's 1f1b, got {self.splits}. Raise "
                    "it, or choose peer_schedule gpipe or mode 1f1b."
                ),
            )
        if self.batch_norm == "micro_batch" and self.image_size <= 32 and self.batch_size // self.splits == 1:
            raise RuleBroken(
                "splits",
                "splits must leave 2 images to each micro-batch of images of up to 32 pixels, got "
                f"{self.splits} for {self.batch_size} images: the last layers "
                "have one pixel there, and batch-norm nothing to compare. Choose at most "
                f"{self.batch_size // 2}, larger images, or batch_norm frozen.",
            )
        if self.fault_stage > self.stages:
            raise RuleBroken(
                "fault_stage", f"fault_stage must be at most stages ({self.stages}), got {self.fault_stage}."
            )
        if self.device == "mps":
            raise RuleBroken(
                "device",
                (
                    "device must be auto, cpu or cuda here, got 'mps': an Apple GPU can't be shared by several "
                    "processes. Choose cpu."
                ),
            )
        return self

    @model_validator(mode="after")
    def _is_cut_somewhere(self) -> Self:
        layers, rule = (
            LAYERS[self.model],
            (
                f"cut must be {self.stages - 1} of the layers 1 to {LAYERS[self.model] - 1} of {self.model} in "
                "rising order"
            ),
        )
        try:
            cuts = self.cuts
        except ValueError:
            raise RuleBroken(
                "cut", f"{rule}, apart by commas, got '{self.cut}'. Leave it empty to cut by measured time."
            ) from None
        if len(cuts) >= layers:
            raise RuleBroken(
                "cut", f"cut must make at most {layers} stages, the layers of {self.model}, got {len(cuts) + 1}."
            )
        if cuts and (
            len(cuts) != self.stages - 1 or list(cuts) != sorted(set(cuts)) or cuts[0] < 1 or cuts[-1] >= layers
        ):
            raise RuleBroken("cut", f"{rule}, got '{self.cut}'. Leave it empty to cut by measured time.")
        return self


_PUBLISHED = {
    "model": "resnet50",
    "image_size": 128,
    "batch_size": 120,
    "batches": 3,
    "loss": "mse",
    "learning_rate": 0.05,
}

EXPERIMENT = Experiment(
    name="pipeline",
    title="Pipeline parallelism",
    sentence=(
        "One net in stages, a process each; a batch goes through in micro-batches, so that stages work at the same "
        "time."
    ),
    config=PipelineConfig,
    presets={
        "published": Preset(
            (
                "ResNet-50 in two stages by RPC as published, 120 images a batch in micro-batches of 8: what the "
                "published sweep calls 8 splits."
            ),
            _PUBLISHED | {"mode": "rpc", "splits": 15},
        ),
        "tuned": Preset(
            "The same work by stages with a queue of their own, in 4 micro-batches, a backward as soon as one can be.",
            _PUBLISHED | {"mode": "1f1b"},
        ),
        "quick": Preset(
            "A small ResNet learns the bundled digits in two stages: needs no network.",
            {
                "dataset": "digits",
                "image_size": 32,
                "batch_size": 64,
                "batches": 120,
                "loss": "cross_entropy",
                "learning_rate": 0.02,
                "momentum": 0.9,
                "threads_per_rank": 1,
            },
            expects={"test/accuracy": 95.0},
            takes="Takes about 20 s on two cores.",
        ),
        "peer": Preset(
            "The published net and sizes by torch.distributed.pipelining, in 4 micro-batches.",
            _PUBLISHED | {"mode": "torch_pipelining"},
        ),
    },
    flows=(
        Flow("batches", "stage1", "images, a micro-batch at a time"),
        Flow("stage1", "stage2", "activations of a micro-batch"),
        Flow("stage2", "stage1", "gradients of those activations"),
    ),
    source="Huang et al.: GPipe, NeurIPS 2019; Narayanan et al.: PipeDream, SOSP 2019",
    result=Result("perf/samples_per_second", task=("model", "image_size"), nothing_to_learn=()),
    update_clock=UpdateClock("train/loss"),
    sections=("Pipeline",),
    axis="splits",
    counts={"stages": "stage", "splits": "split"},
    scaling=SCALING,
)
