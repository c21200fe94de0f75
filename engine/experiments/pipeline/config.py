"""Pipeline parallelism's settings, presets and card. Torch-free."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from engine.config import Config, Rule, RuleBroken, Rules, interval, setting
from engine.data.catalogue import SourceName, data_set
from engine.data.stdlib import BYTES, WINDOW
from engine.experiment import Baseline, Clock, Experiment, Flow, Preset, ReadySweep, Reference, Scaling, Work
from engine.metrics import Result
from engine.pipelining import Layout, Schedule, speed_up_bound

# ---- Reference lines of its sweeps: equal stages, and the measured stages in their schedule's order -----------------


def least_time_s(one_split_s: float, splits: int, schedule: Schedule, stage_work: Sequence[Sequence[float]]) -> float:
    """Return the minimum execution time of stages with this work (`speed_up_bound`) in a schedule's order, without
    overhead per micro-batch.

    `one_split_s` is T1, measured with 1 split. By gpipe and 1f1b only one stage works at a time then, so that p equal
    stages take T1 (m + p - 1) / (m p) (Huang et al., GPipe, section 2.3). By zb_h1 weight gradients overlap already.
    """
    one, more = (speed_up_bound(schedule, stage_work, Layout(len(stage_work), each)) for each in (1, splits))
    return one_split_s * one / more


def _references(baseline: Baseline, splits: Sequence[int]) -> list[Reference]:
    """Return the lines of a schedule; interleaved has none, since it can't start from 1 split."""
    config, work = PipelineConfig.model_construct(**baseline.config), baseline.stage_work
    if config.schedule == "interleaved":
        return []
    kinds = [sum(kind) for kind in zip(*work, strict=True)] or (1.0, 1.0, 1.0)
    drawn = [Reference("ideal", "dash", _least_times(baseline, splits, config.schedule, [kinds] * config.stages))]
    if work:
        drawn.append(Reference("bound for these stages", "dot", _least_times(baseline, splits, config.schedule, work)))
    return drawn


def _least_times(
    baseline: Baseline, splits: Sequence[int], schedule: Schedule, work: Sequence[Sequence[float]]
) -> tuple[float, ...]:
    return tuple(least_time_s(baseline.execution_time_s, each, schedule, work) for each in splits)


SCALING = Scaling(
    "splits",
    1,
    _references,
    "Ideal: the work with 1 split, divided evenly among the stages. Bound: the minimum time in the schedule's order "
    "for the stages' forwards and backwards, as measured with 1 split.",
    called="Ideal and bound",
    at_once="stages",
    rank_metrics=("perf/activations_held", "perf/peak_memory"),
)


# ---- Config --------------------------------------------------------------------------------------------------------

RESNETS = {"resnet50": 18, "resnet18": 10, "small_resnet": 6}
"""Layers between which a ResNet can be cut: the stem, its residual blocks, the head."""


class PipelineConfig(Config):
    """Settings of one net in stages, each in its own process; a batch is split into micro-batches so that stages
    overlap.
    """

    work_fields = ("batches",)
    server_roles = ("master",)
    unused_with = (("evaluate_every", "dataset random"),)

    stages: int = setting(2, "Pipeline stages; each is a process with a part of the net.", low=2, high=4)
    splits: int = setting(4, low=1, high=10_000, unit="micro-batches")
    """Micro-batches per batch. With 1 only one stage works at a time; with many, each is small and slower per image."""
    mode: Literal["gpipe", "1f1b", "interleaved", "zb_h1", "rpc", "torch_pipelining"] = setting("gpipe")
    """gpipe: all forwards, then all backwards; 1f1b: each backward as early as possible, so fewer activations are held;
    interleaved: 1f1b with several chunks of the net per stage; zb_h1: 1f1b whose weight gradients fill the bubble; rpc:
    the tutorial's master and remote calls; torch_pipelining: torch's implementation, for comparison."""
    chunks: int = setting(2, "Parts of the net per stage; used by interleaved schedules only.", low=2, high=4)
    peer_schedule: Schedule = setting("gpipe", advanced=True, only={"mode": "torch_pipelining"})
    """Schedule of torch; torch_pipelining only. zb_h1: torch's ScheduleInterleavedZeroBubble with one part of the net
    per stage, which has the same order."""
    model: Literal["resnet50", "resnet18", "small_resnet", "gpt", "vit"] = setting("small_resnet")
    """torchvision's ResNet-50 (18 layers to cut between) or ResNet-18 (10), a small ResNet with one block per size (6),
    a GPT on bytes of text, or a vision transformer."""
    blocks: int = setting(6, "Transformer blocks of gpt and vit, which are cut between.", low=2, high=16)
    cut: Annotated[str, Field(max_length=20)] = setting("", empty="by measured time")
    """Layers that begin a new part of the net, counted from 0, such as 9 or 5,9,13. Empty: layers are timed and cut
    into parts of equal time."""
    dataset: SourceName = setting("random")
    """Training data. random: new images per batch with fixed targets, as published; other data sets are real and also
    tested on, images or text (stdlib, stdlib_large)."""
    image_size: int = setting(64, low=16, high=512, unit="pixels")
    """Image size in pixels, for ResNets; images of a data set are enlarged to it."""
    classes: int = setting(1000, low=2, high=10_000, only={"dataset": "random"})
    """Number of classes of random images; data sets have their own 10."""
    batch_size: int = setting(32, "Samples per update, divided into micro-batches.", low=1, high=10_000, unit="samples")
    batches: int = setting(20, "Number of batches, with one update per batch.", low=1, high=1_000_000)
    loss: Literal["mse", "cross_entropy"] = setting("mse")
    """mse: mean squared error against one-hot targets, as published. cross_entropy: the usual loss for
    classification."""
    learning_rate: float = setting(0.05, above=0, high=10)
    """Learning rate of SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.0, "Momentum of SGD; 0 as published.", low=0, below=1)
    batch_norm: Literal["micro_batch", "frozen"] = setting("micro_batch")
    """micro_batch: normalize by each micro-batch's own statistics, so results depend on splits. frozen: fixed
    statistics, independent of splits."""
    transport: Literal["auto", "shared_memory", "rpc"] = setting("auto", advanced=True)
    """Transport of activations between the engine's own stages. auto: shared memory between CPU stages, RPC device
    maps between GPUs."""
    evaluate_every: int = interval(0, "batches", "it is tested only at the end", high=1_000_000, advanced=True)
    """Batches between tests on the data set's test images. 0 tests only at the end."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum wait of a stage for another before the run fails and names it."""
    sleep_ms: float = setting(0.0, low=0, high=60_000, unit="ms", advanced=True)
    """Sleep per forward of a stage, and twice as long per backward; simulates slower stages without using a core."""
    fault: Literal["none", "raise", "kill", "hang", "memory", "nan"] = setting("none", advanced=True)
    """Fault to inject in fault_stage, in the backward of the middle micro-batch of batch 2."""
    fault_stage: int = setting(1, "Stage in which the fault is injected.", low=1, high=4, advanced=True)

    @property
    def stage_roles(self) -> tuple[str, ...]:
        return tuple(f"stage{number}" for number in range(1, self.stages + 1))

    @property
    def trains_on(self) -> str | None:
        """The data set; None for random images."""
        return None if self.dataset == "random" else self.dataset

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
    def schedule(self) -> Schedule:
        """The schedule of the stages; mode rpc works on arrivals, which gives gpipe's order."""
        if self.mode == "torch_pipelining":
            return self.peer_schedule
        return "gpipe" if self.mode == "rpc" else self.mode

    @property
    def layout(self) -> Layout:
        """The parts of the net and of a batch."""
        return Layout(self.stages, self.splits, self.chunks if self.schedule == "interleaved" else 1)

    @property
    def outputs(self) -> int:
        """Number of classes."""
        if self.model == "gpt":
            return BYTES
        return self.classes if self.dataset == "random" else 10

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample: images, or bytes of text."""
        if self.model == "gpt":
            return (WINDOW,)
        return (3, self.image_size, self.image_size) if self.model in RESNETS else (1, 28, 28)

    @property
    def layers(self) -> int:
        """Number of layers between which the net can be cut; a transformer's are its input, its blocks, its output."""
        return RESNETS.get(self.model, 2 + self.blocks)

    @property
    def cuts(self) -> tuple[int, ...]:
        """The layers that begin stages 2, 3, …, as set; empty if the net is cut by measured time."""
        return tuple(int(text) for text in self.cut.split(",")) if self.cut.strip() else ()

    def rules(self) -> Rules:
        splits, images, stages = self.splits, self.batch_size, self.stages
        why = "each micro-batch needs a sample"
        yield Rule("splits", f"at most batch_size ({images})", why, broken=splits > images)
        torch = self.mode == "torch_pipelining"
        if torch and images % splits:
            raise RuleBroken(
                "splits",
                f"splits must divide batch_size ({images}) for mode torch_pipelining, whose micro-batches have equal "
                f"size, got {splits}. Choose a divisor or another mode.",
            )
        peer = self.peer_schedule
        too_few = torch and peer == "1f1b" and splits < stages
        cure = "Raise it, or choose peer_schedule gpipe or mode 1f1b."
        yield Rule("splits", f"at least stages ({stages}) for torch's 1f1b", cure=cure, broken=too_few)
        uneven = torch and peer == "zb_h1" and splits % stages > 0
        cure = "Choose a multiple, or mode zb_h1."
        yield Rule("splits", f"a multiple of stages ({stages}) for torch's zb_h1", cure=cure, broken=uneven)
        if (
            self.model in RESNETS
            and self.batch_norm == "micro_batch"
            and self.image_size <= 32
            and images // splits == 1
        ):
            raise RuleBroken(
                "splits",
                "splits must leave at least 2 images per micro-batch for image sizes up to 32 pixels, got "
                f"{splits} for {images} images: the last layers have one pixel there, too few for batch-norm. Choose "
                f"at most {images // 2}, larger images, or batch_norm frozen.",
            )
        interleaves = self.schedule == "interleaved"
        why, cure = "stages take turns on as many micro-batches", "Choose a multiple, or mode 1f1b or zb_h1."
        broken = interleaves and splits % stages > 0
        yield Rule("splits", f"a multiple of stages ({stages}) for interleaved schedules", why, cure, broken=broken)
        parts, layers = self.layout.parts, self.layers
        yield Rule("stages", f"at most {layers}, the layers of {self.model}", broken=stages > layers)
        allowed = f"at most {layers // stages} for {stages} stages of {self.model}, which has {layers} layers"
        yield Rule("chunks", allowed, broken=parts > layers)
        yield Rule(
            "sleep_ms", "0 for mode rpc", "autograd runs its backwards", broken=self.mode == "rpc" and self.sleep_ms > 0
        )
        is_text, is_gpt = self.dataset != "random" and data_set(self.dataset).kind == "text", self.model == "gpt"
        yield Rule("dataset", "a dataset of text for model gpt", cure="Choose stdlib.", broken=is_gpt and not is_text)
        yield Rule("model", "gpt for a dataset of text", broken=is_text and not is_gpt)
        yield self.when("model gpt")("loss", "cross_entropy", why="which predicts bytes")
        yield self.at_most("fault_stage", "stages")
        yield self.no_apple_gpu()
        yield from self._rules_of_cut()

    def _rules_of_cut(self) -> Rules:
        layers, cure = self.layers, "Leave it empty to cut by measured time."
        parts = self.layout.parts
        allowed = f"{parts - 1} of the layers 1 to {layers - 1} of {self.model} in ascending order"
        try:
            cuts = self.cuts
        except ValueError:
            yield Rule("cut", f"{allowed}, separated by commas", cure=cure, broken=True)
            return
        if len(cuts) >= layers:
            raise RuleBroken(
                "cut", f"cut must make at most {layers} stages, the layers of {self.model}, got {len(cuts) + 1}."
            )
        ordered = list(cuts) == sorted({*cuts}) and all(0 < cut < layers for cut in cuts)
        yield Rule("cut", allowed, cure=cure, broken=bool(cuts) and not (ordered and len(cuts) == parts - 1))


_PUBLISHED = {
    "model": "resnet50",
    "image_size": 128,
    "batch_size": 120,
    "batches": 3,
    "loss": "mse",
    "learning_rate": 0.05,
}
_GPT = {
    "model": "gpt",
    "dataset": "stdlib",
    "stages": 4,
    "splits": 8,
    "batch_size": 16,
    "batches": 60,
    "loss": "cross_entropy",
    "learning_rate": 0.1,
    "momentum": 0.9,
    "threads_per_rank": 1,
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
    sentence="One net is divided into stages, one process each; batches are split into micro-batches so that stages "
    "overlap.",
    config=PipelineConfig,
    ready_sweeps=(
        ReadySweep("Find the sweet spot of splits", "quick", {"splits": "1, 2, 4, 8"}, "sweet spot", run_s=25),
        ReadySweep(
            "Where did the bubble go?",
            "gpt",
            {"mode": "gpipe, 1f1b, interleaved, zb_h1"},
            "contest",
            changes={"batches": 10, "sleep_ms": 40},
            run_s=19,
        ),
    ),
    presets={
        "published": Preset(
            "ResNet-50 in two stages by RPC as published, 120 images per batch in micro-batches of 8; the published "
            "sweep calls this 8 splits.",
            _PUBLISHED | {"mode": "rpc", "splits": 15},
        ),
        "tuned": Preset(
            "The same work with the 1F1B schedule in 4 micro-batches.",
            _PUBLISHED | {"mode": "1f1b"},
        ),
        "quick": Preset(
            "A small ResNet on the bundled digits in two stages by GPipe; needs no network. For remote calls as "
            "in the tutorial, set mode to rpc.",
            {"dataset": "digits", "image_size": 32, "batch_size": 64, "batches": 120, "loss": "cross_entropy"}
            | {"learning_rate": 0.02, "momentum": 0.9, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
            takes="Takes about 20 s on two cores.",
        ),
        "gpt": Preset(
            "A GPT of 6 blocks on Python's standard library in four stages by ZB-H1; needs no network.",
            _GPT | {"mode": "zb_h1"},
        ),
        "peer": Preset(
            "The published net and sizes with torch.distributed.pipelining, in 4 micro-batches.",
            _PUBLISHED | {"mode": "torch_pipelining"},
        ),
    },
    pattern="stages",
    flows=(
        Flow("batches", "stage1", "samples, one micro-batch at a time"),
        Flow("stage1", "stage2", "activations of a micro-batch"),
        Flow("stage2", "stage1", "gradients of those activations"),
    ),
    source="Huang et al.: GPipe, NeurIPS 2019; Narayanan et al.: PipeDream, SOSP 2019",
    result=Result("perf/samples_per_second", task=("model", "blocks", "image_size"), nothing_to_learn=()),
    work=_work,
    update_clock=Clock("train/loss"),
    sections=("Pipeline",),
    axis="splits",
    counts={"stages": "stage", "splits": "split"},
    scaling=SCALING,
)
