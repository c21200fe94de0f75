"""Pipeline parallelism's settings, presets and card. Torch-free."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken, interval
from engine.data.catalogue import ImagesName, data_set
from engine.experiment.definition import (
    Baseline,
    Experiment,
    Flow,
    Preset,
    ReadySweep,
    Reference,
    Scaling,
    UpdateClock,
    Work,
)
from engine.experiment.result import Result
from engine.pipelining import Schedule, order_of, speed_up_bound

# ------------------------------------------------------------------------------------------------------------------
# Reference lines of a pipeline's sweeps: equal stages, and the measured stages in their schedule's order. Torch-
# free.


def ideal_time_s(one_split_s: float, splits: int, stages: int) -> float:
    """Return the execution time of a pipeline of equal stages without overhead per micro-batch: T1 (m + p - 1) / (m p).

    `one_split_s` is T1, measured with 1 split, where only one of the p stages works at a time (Huang et al., GPipe,
    section 2.3).
    """
    return one_split_s * (splits + stages - 1) / (splits * stages)


def unequal_stages_time_s(
    one_split_s: float, splits: int, schedule: Schedule, stage_work: Sequence[tuple[float, float]]
) -> float:
    """Return the minimum execution time of stages with these forwards and backwards in that order, without overhead per
    micro-batch.
    """
    forward, backward = zip(*stage_work, strict=True)
    return one_split_s / speed_up_bound(schedule, forward, backward, splits)


def _references(baseline: Baseline, splits: Sequence[int]) -> list[Reference]:
    start, config, work = baseline.execution_time_s, baseline.config, baseline.stage_work
    lines = [Reference("ideal", "dash", tuple(ideal_time_s(start, each, int(config["stages"])) for each in splits))]
    if work:
        schedule = order_of(config["mode"], config.get("peer_schedule", "gpipe"))
        lines.append(
            Reference(
                "bound for these stages",
                "dot",
                tuple(unequal_stages_time_s(start, each, schedule, work) for each in splits),
            )
        )
    return lines


SCALING = Scaling(
    "splits",
    1,
    _references,
    (
        "Ideal: the work with 1 split, divided evenly among the stages. Bound: the minimum time in the "
        "schedule's order for the stages' forwards and backwards, as measured with 1 split."
    ),
    called="Ideal and bound",
    at_once="stages",
    rank_metrics=("perf/activations_held", "perf/peak_memory"),
)


# ---- Config --------------------------------------------------------------------------------------------------------

LAYERS = {"resnet50": 18, "resnet18": 10, "small_resnet": 6}
"""Layers between which a net can be cut: the stem, its residual blocks, the head."""


class PipelineConfig(Config):
    """Settings of one net in stages, each in its own process; a batch is split into micro-batches so that stages
    overlap.
    """

    work_fields = ("batches",)
    server_roles = ("master",)

    stages: int = Field(2, ge=2, le=4, description="Pipeline stages; each is a process with a part of the net.")
    splits: int = Field(
        4,
        ge=1,
        le=10_000,
        description=(
            "Micro-batches per batch. With 1 only one stage works at a time; with many, each is "
            "small and slower per image."
        ),
        json_schema_extra={"unit": "micro-batches"},
    )
    mode: Literal["gpipe", "1f1b", "rpc", "torch_pipelining"] = Field(
        "gpipe",
        description=(
            "gpipe: all forwards, then all backwards; 1f1b: each backward as early as possible, so fewer "
            "activations are held; rpc: the tutorial's master and remote calls; torch_pipelining: torch's "
            "implementation, for comparison."
        ),
    )
    peer_schedule: Literal["gpipe", "1f1b"] = Field(
        "gpipe", description="Schedule of torch; torch_pipelining only.", json_schema_extra=ADVANCED
    )
    model: Literal["resnet50", "resnet18", "small_resnet"] = Field(
        "small_resnet",
        description=(
            "torchvision's ResNet-50 (18 layers to cut between) or ResNet-18 (10), or a small ResNet "
            "with one block per size (6)."
        ),
    )
    cut: str = Field(
        "",
        max_length=20,
        description=(
            "Layers that begin a new stage, counted from 0, such as 9 or 5,9,13. Empty: layers are "
            "timed and cut into stages of equal time."
        ),
        json_schema_extra={"empty": "by measured time"},
    )
    dataset: ImagesName = Field(
        "random",
        description=(
            "Training data. random: new images per batch with fixed targets, as published; other "
            "data sets are real and also tested on."
        ),
    )
    image_size: int = Field(
        64,
        ge=16,
        le=512,
        description="Image size in pixels; images of a data set are enlarged to it.",
        json_schema_extra={"unit": "pixels"},
    )
    classes: int = Field(
        1000,
        ge=2,
        le=10_000,
        description="Number of classes of random images; data sets have their own 10.",
        json_schema_extra={"only": {"dataset": "random"}},
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=10_000,
        description="Images per update, divided into micro-batches.",
        json_schema_extra={"unit": "images"},
    )
    batches: int = Field(20, ge=1, le=1_000_000, description="Number of batches, with one update per batch.")
    loss: Literal["mse", "cross_entropy"] = Field(
        "mse",
        description=(
            "mse: mean squared error against one-hot targets, as published. cross_entropy: the usual "
            "loss for classification."
        ),
    )
    learning_rate: float = Field(
        0.05, gt=0, le=10, description="Learning rate of SGD; lower it if the loss diverges or becomes NaN."
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="Momentum of SGD; 0 as published.")
    batch_norm: Literal["micro_batch", "frozen"] = Field(
        "micro_batch",
        description=(
            "micro_batch: normalize by each micro-batch's own statistics, so results depend on "
            "splits. frozen: fixed statistics, independent of splits."
        ),
    )
    transport: Literal["auto", "shared_memory", "rpc"] = Field(
        "auto",
        description=(
            "Transport of activations for gpipe and 1f1b. auto: shared memory between CPU stages, "
            "RPC device maps between GPUs."
        ),
        json_schema_extra=ADVANCED,
    )
    evaluate_every: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Batches between tests on the data set's test images. 0 tests only at the end.",
        json_schema_extra=ADVANCED | interval("batches", "it is tested only at the end"),
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Maximum wait of a stage for another before the run fails and names it.",
        json_schema_extra=ADVANCED | {"unit": "s"},
    )
    fault: Literal["none", "raise", "kill", "hang", "memory", "nan"] = Field(
        "none",
        description="Fault to inject in fault_stage, in the backward of the middle micro-batch of batch 2.",
        json_schema_extra=ADVANCED,
    )
    fault_stage: int = Field(
        1, ge=1, le=4, description="Stage in which the fault is injected.", json_schema_extra=ADVANCED
    )

    @property
    def stage_roles(self) -> tuple[str, ...]:
        return tuple(f"stage{number}" for number in range(1, self.stages + 1))

    @property
    def trains_on(self) -> str | None:
        """The data set; None for random images."""
        return None if self.dataset == "random" else self.dataset

    @property
    def unused(self) -> frozenset[str]:
        """Runs on random images are not tested."""
        return frozenset({"evaluate_every"} if self.trains_on is None else ())

    @property
    def roles(self) -> tuple[str, ...]:
        return ("master", *self.stage_roles) if self.mode == "rpc" else self.stage_roles

    @property
    def max_gpus(self) -> int:
        """One per stage; the master needs none."""
        return self.stages

    def listens(self, gpus: int) -> bool:
        """Return whether stages connect through RPC or a process group; only CPU stages can use shared memory alone."""
        return (
            self.mode in ("rpc", "torch_pipelining")
            or self.transport == "rpc"
            or (self.transport == "auto" and gpus > 0)
        )

    @property
    def schedule(self) -> Literal["gpipe", "1f1b"]:
        """The schedule of the stages."""
        return order_of(self.mode, self.peer_schedule)

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return self.classes if self.dataset == "random" else 10

    @property
    def cuts(self) -> tuple[int, ...]:
        """The layers that begin stages 2, 3, …, as set; empty if the net is cut by measured time."""
        return tuple(int(text) for text in self.cut.split(",")) if self.cut.strip() else ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.splits > self.batch_size:
            raise RuleBroken(
                "splits",
                (
                    f"splits must be at most batch_size ({self.batch_size}), got {self.splits}: each "
                    "micro-batch needs an image."
                ),
            )
        if self.mode == "torch_pipelining" and self.batch_size % self.splits:
            raise RuleBroken(
                "splits",
                (
                    f"splits must divide batch_size ({self.batch_size}) for mode torch_pipelining, whose "
                    f"micro-batches have equal size, got {self.splits}. Choose a divisor or another mode."
                ),
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
                (
                    "splits must leave at least 2 images per micro-batch for image sizes up to 32 "
                    f"pixels, got {self.splits} for {self.batch_size} images: the last layers have one "
                    f"pixel there, too few for batch-norm. Choose at most {self.batch_size // 2}, larger "
                    "images, or batch_norm frozen."
                ),
            )
        if self.fault_stage > self.stages:
            raise RuleBroken(
                "fault_stage", f"fault_stage must be at most stages ({self.stages}), got {self.fault_stage}."
            )
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
    def _is_cut_somewhere(self) -> Self:
        layers, rule = (
            LAYERS[self.model],
            (
                f"cut must be {self.stages - 1} of the layers 1 to {LAYERS[self.model] - 1} of "
                f"{self.model} in ascending order"
            ),
        )
        try:
            cuts = self.cuts
        except ValueError:
            raise RuleBroken(
                "cut", f"{rule}, separated by commas, got '{self.cut}'. Leave it empty to cut by measured time."
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


def _work(config: PipelineConfig) -> Work:
    """Return the total work: one update per batch."""
    images = config.batches * config.batch_size
    return Work(
        "batches",
        images,
        passes=images / data_set(config.dataset).train if config.trains_on else None,
        updates=config.batches,
        batches=f"{config.batches * config.splits:,} micro-batches",
    )


EXPERIMENT = Experiment(
    name="pipeline",
    title="Pipeline parallelism",
    tagline="One model cut into stages, micro-batches",
    sentence=(
        "One net is divided into stages, one process each; batches are split into micro-batches so that stages overlap."
    ),
    config=PipelineConfig,
    ready_sweeps=(
        ReadySweep("Find the sweet spot of splits", "quick", {"splits": "1, 2, 4, 8"}, "sweet spot", is_timed=True),
    ),
    presets={
        "published": Preset(
            (
                "ResNet-50 in two stages by RPC as published, 120 images per batch in micro-batches "
                "of 8; the published sweep calls this 8 splits."
            ),
            _PUBLISHED | {"mode": "rpc", "splits": 15},
        ),
        "tuned": Preset(
            "The same work with the 1F1B schedule in 4 micro-batches.",
            _PUBLISHED | {"mode": "1f1b"},
        ),
        "quick": Preset(
            "A small ResNet on the bundled digits in two stages; needs no network.",
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
            "The published net and sizes with torch.distributed.pipelining, in 4 micro-batches.",
            _PUBLISHED | {"mode": "torch_pipelining"},
        ),
    },
    pattern="stages",
    flows=(
        Flow("batches", "stage1", "images, one micro-batch at a time"),
        Flow("stage1", "stage2", "activations of a micro-batch"),
        Flow("stage2", "stage1", "gradients of those activations"),
    ),
    source="Huang et al.: GPipe, NeurIPS 2019; Narayanan et al.: PipeDream, SOSP 2019",
    result=Result("perf/samples_per_second", task=("model", "image_size"), nothing_to_learn=()),
    work=_work,
    update_clock=UpdateClock("train/loss"),
    sections=("Pipeline",),
    axis="splits",
    counts={"stages": "stage", "splits": "split"},
    scaling=SCALING,
)
