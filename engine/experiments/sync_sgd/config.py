"""Synchronous parallel SGD's settings, presets and card. Torch-free."""

from statistics import fmean
from typing import Any, Literal

from engine.config import Rule, RuleBroken, Rules, interval, setting
from engine.data.catalogue import MODELS, bytes_exchanged, data_set, steps_of_parts
from engine.experiment import Clock, Contender, Experiment, Flow, Pace, Preset, Ready, ReadySweep, TradeOff
from engine.training.settings import DIGITS, GPT, TrainingConfig, as_published

STEPS_TOGETHER = ("gradients", "ddp")
"""Values of `sync` with which an update is of all trainers that have a mini-batch left."""
DILOCO = {"sync": "diloco"}


class SyncSgdConfig(TrainingConfig):
    """Settings of trainers on parts of the data, which wait for each other and average."""

    work_fields = ("rounds",)

    rounds: int = setting(12, low=1, high=100_000)
    """Number of rounds. In each round every trainer trains on its own part, then all synchronize."""
    average_every: int = setting(0, low=0, high=100_000, unit="steps")
    """Steps per trainer and round. 0: one pass over its own part."""
    sync: Literal["weights", "diloco", "gradients", "elastic", "ddp"] = setting("weights")
    """What is averaged. weights: once per round; diloco: likewise, and an outer optimizer steps towards the mean;
    gradients: in each step, like one process with the combined batch; elastic: trainers keep their own weights, pulled
    towards a centre once per round; ddp: gradients, by torch's DistributedDataParallel."""
    outer_learning_rate: float = setting(0.7, above=0, high=10, only=DILOCO)
    """diloco only: learning rate of the outer SGD. With 1, and outer_momentum 0, the global weights become the mean."""
    outer_momentum: float = setting(0.9, low=0, below=1, only=DILOCO)
    """diloco only: Nesterov momentum of the outer SGD."""
    fragments: int = setting(1, low=1, high=64, only=DILOCO)
    """diloco only: fragments of the weights, averaged one after another, evenly spread over the steps of a round
    (streaming DiLoCo). Each exchange is 1/fragments of the weights; their sum stays. 1: all weights at once."""
    fragment_order: Literal["sequence", "strided"] = setting("sequence", only=DILOCO, advanced=True)
    """diloco only: how weights are divided into fragments. sequence: equal parts in the order of the layers; strided:
    whole blocks of the model, dealt in turn, so that fragments differ in size."""
    overlap: int = setting(0, low=0, high=10_000, unit="steps", only=DILOCO)
    """diloco only: steps that a trainer makes while a fragment is on its way to the average and back. 0: it waits."""
    local_weight: float = setting(0.5, low=0, below=1, only=DILOCO, advanced=True)
    """diloco with overlap only: weight of a trainer's own fragment in the sum with the global one that replaces it."""
    compression: Literal["none", "bf16", "e3m0", "powersgd", "topk", "sign"] = setting("none")
    """What gradients and ddp send of a gradient. bf16: half the bits; e3m0: four bits; powersgd: matrices as products
    of two with few columns; topk: the largest numbers; sign: one bit each and the mean magnitude. All but bf16 add what
    was not sent to the next gradient. By ddp bf16 and powersgd alone, which torch has; by diloco bf16 and e3m0 alone,
    of the differences from the global weights."""
    compression_rank: int = setting(2, low=1, high=64, only={"compression": "powersgd"})
    """powersgd only: columns of the two factors of each matrix."""
    compression_share: float = setting(1.0, above=0, high=100, unit="%", only={"compression": "topk"})
    """topk only: percentage of the gradient's numbers that each trainer sends, with their places."""
    elastic_rate: float = setting(0.9, above=0, high=1, advanced=True)
    """elastic only: fraction by which the centre moves towards the trainers' mean per round (the paper's beta); each
    trainer moves beta / N towards the centre."""
    keep_optimizer: bool = setting(False)
    """Keep the optimizer's momentum or means between rounds. Off: reset them at each round, as published."""
    partition: Literal["contiguous", "shuffled", "dirichlet"] = setting("contiguous")
    """Partition of the data, one part per trainer: contiguous, shuffled, or dirichlet (unequal shares of each
    label)."""
    alpha: float = setting(0.5, above=0, high=1000, advanced=True)
    """dirichlet only: a smaller alpha gives each trainer fewer labels; 100 is nearly even."""
    optimizer: Literal["sgd", "adamw", "muon"] = setting("sgd")
    """Optimizer of each trainer: SGD with momentum, AdamW with torch's betas (0.9, 0.999), or Muon for matrices and
    AdamW for embeddings and vectors."""
    learning_rate: float = setting(0.01, above=0, high=10)
    """Learning rate of a trainer's optimizer; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.5, low=0, below=1, only={"optimizer": "sgd"})
    """Momentum of SGD; each trainer has its own."""
    weight_decay: float = setting(0.01, low=0, high=10, only={"optimizer": ["adamw", "muon"]}, advanced=True)
    """adamw and muon: fraction of the weights, times the learning rate, that each step subtracts."""
    transport: Literal["rpc", "gloo", "shared_memory"] = setting("gloo")  # type: ignore[assignment]  # averages also go by gloo's ring
    """Transport of vectors. gloo: ring over all trainers; rpc, shared_memory: to trainer1 and back; ddp requires gloo
    (NCCL with one GPU per trainer)."""
    simulated_bandwidth: float | None = setting(None, low=0.1, high=1e6, unit="Mbit/s", advanced=True, empty="no limit")
    """Simulated bandwidth of each trainer's link: after each average all sleep as long as what they sent would take
    over such links. gloo only."""
    simulated_latency_ms: float = setting(0.0, low=0, high=10_000, unit="ms", advanced=True)
    """Simulated latency of each message, such as the 2 (N - 1) of a ring all-reduce among N trainers, slept likewise.
    gloo only."""
    evaluate_every: int = interval(1, "rounds", "it is tested only at the end", high=100_000)
    """Rounds between tests of the global weights by trainer1. 0 tests only at the end."""

    @property
    def max_gpus(self) -> int:
        """One per trainer; none for the tutorial variant."""
        return 0 if self.variant == "tutorial" else self.trainers

    @property
    def steps_together(self) -> bool:
        """Whether trainers synchronize in each step, not only at the end of a round."""
        return self.sync in STEPS_TOGETHER

    @property
    def streams(self) -> bool:
        """Whether DiLoCo averages fragments of the weights, or while trainers continue."""
        return self.has("sync diloco") and (self.fragments > 1 or self.overlap > 0)

    @property
    def keeps_local_weights(self) -> bool:
        """Whether trainers start a round from weights of their own, not from the global ones."""
        return self.has("sync elastic") or self.streams

    @property
    def divergence_advice(self) -> str:
        """The end of the error for a loss that is not finite."""
        others = ("momentum",) * self.has("optimizer sgd") + ("outer_learning_rate",) * self.has("sync diloco")
        lower = " or ".join(f"{name} ({getattr(self, name)})" for name in ("learning_rate", *others))
        cure = f"Lower {lower}, or average more often."
        return f"its weights have diverged. {cure} The last checkpoint, if any, is from before."

    @property
    def has_simulated_link(self) -> bool:
        """Whether trainers sleep after each average."""
        return bool(self.simulated_bandwidth or self.simulated_latency_ms)

    def link_s(self, sent: int, messages: int) -> float:
        """Return the seconds of an exchange over the simulated links, in which each trainer sends that many bytes in
        that many messages, one after another.
        """
        transfer_s = 8 * sent / (1e6 * self.simulated_bandwidth) if self.simulated_bandwidth else 0.0
        return transfer_s + messages * self.simulated_latency_ms / 1000

    def tests_after(self, number: int) -> bool:
        """Return whether the global weights are tested after that round (counted from 1)."""
        return number == self.rounds or (self.evaluate_every > 0 and number > 0 and number % self.evaluate_every == 0)

    def rules(self) -> Rules:
        yield from super().rules()
        is_unlabelled = self.partition == "dirichlet" and data_set(self.dataset).kind == "text"
        yield Rule("partition", "contiguous or shuffled for text", "which has no labels", broken=is_unlabelled)
        ddp, tutorial, cure = self.when("sync ddp"), self.when("variant tutorial"), "or variant engine."
        yield ddp("transport", "gloo", why="which uses its own communication", cure="Choose gloo or sync gradients.")
        yield tutorial("sync", "weights", why="which supports no other", cure=f"Choose weights {cure}")
        why = "whose processes make one pass over their part per round"
        yield tutorial("average_every", 0, why=why, cure=f"Choose 0 {cure}")
        yield tutorial("optimizer", "sgd", why="which supports no other", cure=f"Choose sgd {cure}")
        compresses, cure = not self.has("compression none"), "Choose none or sync gradients."
        yield ddp("compression", "none", "bf16", "powersgd", why="for which torch has no other", cure=cure)
        averages_weights, why = not self.steps_together, "which averages weights"
        differs = self.has("sync diloco") and self.compression in ("bf16", "e3m0")
        allowed = f"{'none, bf16 or e3m0' if self.has('sync diloco') else 'none'} for sync {self.sync}"
        yield Rule("compression", allowed, why, cure, broken=compresses and averages_weights and not differs)
        by_server, why = not self.has("transport gloo"), "which exchanges whole vectors"
        yield Rule(
            "compression", f"none for transport {self.transport}", why, "Choose gloo.", broken=compresses and by_server
        )
        yield from self._rules_of_fragments()
        by_our_ring = self.has("transport gloo") and not self.has("sync ddp") and not self.has("variant tutorial")
        if self.has_simulated_link and not by_our_ring:
            field = "simulated_bandwidth" if self.simulated_bandwidth else "simulated_latency_ms"
            raise RuleBroken(
                field,
                f"{field} requires transport gloo, sync other than ddp and variant engine, whose ring all-reduce it "
                f"simulates; got transport {self.transport}, sync {self.sync}, variant {self.variant}. Change these or "
                f"clear {field}.",
            )
        if self.has("variant tutorial") and self.keep_optimizer:
            raise RuleBroken(
                "keep_optimizer",
                "keep_optimizer must be off for variant tutorial, whose optimizers end with the processes of each "
                "round. Turn it off or choose variant engine.",
            )

    def _rules_of_fragments(self) -> Rules:
        if not self.streams:
            return
        field = "fragments" if self.fragments > 1 else "overlap"
        why = f"{field} {getattr(self, field)} exchanges parts of the weights in steps of a round"
        yield Rule("transport", "gloo", why, "Choose gloo.", broken=not self.has("transport gloo"))
        cure = "Set the steps between averages, such as 50."
        yield Rule("average_every", "above 0", why, cure, broken=self.average_every == 0)
        yield self.at_most("fragments", "average_every", "each is averaged after another step of a round")
        most = self.average_every // self.fragments - 1
        allowed = f"at most {most}, below average_every ({self.average_every}) / fragments ({self.fragments})"
        yield Rule("overlap", allowed, "one fragment at a time is on its way", broken=self.overlap > most)
        count, cure = MODELS[self.model].blocks, "Choose fewer, or fragment_order sequence."
        allowed = f"at most {count}, the blocks of {self.model}, for fragment_order strided"
        yield Rule("fragments", allowed, "", cure, broken=self.has("fragment_order strided") and self.fragments > count)


def _pace(config: Any) -> Pace:
    """In one round every trainer takes `average_every` steps, or makes one pass over its own part."""
    every, size = config.average_every, data_set(config.dataset).train
    steps = [every] * config.trainers if every else steps_of_parts(config.dataset, config.trainers, config.batch_size)
    passes = sum(steps) * config.batch_size / size if every else 1.0
    updates = max(steps) if config.steps_together else fmean(steps)
    exchanges = config.trainers * (max(steps) if config.steps_together else 1)
    whole = bytes_exchanged(exchanges / passes, model=config.model) if config.compression == "none" else None
    return Pace(passes, updates / passes, whole, passes / steps[0])


CONTENDER = Contender(
    length="rounds",
    pace=_pace,
    strategies={
        "sync_sgd": Ready("Synchronous SGD, weights"),
        "sync_gradients": Ready("Synchronous SGD, gradients", {"sync": "gradients"}),
        "diloco": Ready("DiLoCo", DILOCO | {"keep_optimizer": True}),
    },
    data="one part of the data per trainer",
    momentum=lambda config: (
        "one per trainer"
        + ("" if config.keep_optimizer else ", reset each round")
        + (", and an outer one" if config.sync == "diloco" else "")
    ),
    tests="by trainer1, which the others wait for at the end of the next round",
    gradients=lambda config: config.trainers if config.steps_together else 1,
)
_PUBLISHED = {
    "dataset": "mnist",
    "trainers": 4,
    "rounds": 12,
    "batch_size": 64,
    "learning_rate": 0.01,
    "momentum": 0.5,
} | {"evaluate_every": 4}

EXPERIMENT = Experiment(
    name="sync_sgd",
    title="Synchronous parallel SGD",
    tagline="Train apart, then average the weights",
    sentence="Every trainer trains on its own part of the data, then all synchronize and average.",
    config=SyncSgdConfig,
    presets={
        "published": Preset(
            "MNIST as published: 4 trainers, 12 rounds of a quarter of the data each, tested after rounds 4, 8 and 12.",
            _PUBLISHED,
        ),
        "tuned": Preset(
            "The same work with a larger learning rate and linear decay, and momentum kept between rounds.",
            _PUBLISHED | {"learning_rate": 0.03, "momentum": 0.9, "schedule": "linear", "keep_optimizer": True},
            expects={"test/accuracy": 98.3},
        ),
        "quick": Preset(
            "Two trainers make 60 passes over the bundled digits; needs no network.",
            DIGITS
            | {"rounds": 60, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.9, "schedule": "linear"}
            | {"keep_optimizer": True, "evaluate_every": 10, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": as_published(_PUBLISHED, "a new Python process per trainer and round, images read one by one."),
        "ddp": Preset(
            "Baseline: torch's DistributedDataParallel on the same work, with gradients averaged in each step.",
            _PUBLISHED | {"sync": "ddp", "learning_rate": 0.04, "keep_optimizer": True},
        ),
        "diloco": Preset(
            "DiLoCo: 50 steps of AdamW per trainer between averages, an outer Nesterov step, 1/50 of the traffic.",
            _PUBLISHED
            | DILOCO
            | {"average_every": 50, "rounds": 56, "optimizer": "adamw", "learning_rate": 0.001, "keep_optimizer": True}
            | {"evaluate_every": 14},
        ),
        "streaming": Preset(
            "Streaming DiLoCo over links of 10 Mbit/s: quarters of the weights travel in turn while trainers continue.",
            DIGITS
            | DILOCO
            | {"fragments": 4, "overlap": 5, "average_every": 40, "rounds": 15, "batch_size": 32, "optimizer": "adamw"}
            | {"learning_rate": 0.001, "keep_optimizer": True, "evaluate_every": 3, "simulated_bandwidth": 10.0}
            | {"threads_per_rank": 1},
        ),
        "gpt": Preset(
            "Two trainers average the weights of a small GPT each 16 steps, on sources of Python's standard library.",
            GPT
            | {"rounds": 24, "average_every": 16, "evaluate_every": 8, "partition": "shuffled"}
            | {"learning_rate": 0.1, "momentum": 0.9, "keep_optimizer": True},
        ),
        "compressed": Preset(
            "Two trainers average compressed gradients of the digits in each step: PowerSGD with factors of 2 columns.",
            DIGITS
            | {"sync": "gradients", "compression": "powersgd", "rounds": 20, "batch_size": 32, "learning_rate": 0.05}
            | {"momentum": 0.9, "schedule": "linear", "keep_optimizer": True, "evaluate_every": 5}
            | {"threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "federated": Preset(
            "As in federated learning: each trainer has few labels, in unequal shares.",
            _PUBLISHED | {"partition": "dirichlet", "alpha": 0.3, "evaluate_every": 1},
        ),
    },
    ready_sweeps=(
        ReadySweep(
            "What does compression cost?",
            "compressed",
            {"compression": "none, bf16, e3m0, powersgd, topk, sign"},
            TradeOff("perf/exchanged.last", "test/accuracy.last", 2, baseline={"compression": "none"}),
            changes={"evaluate_every": 0},
            run_s=6,
        ),
        ReadySweep(
            "How rarely may trainers average?",
            "quick",
            {"sync": "gradients, weights, diloco", "average_every": "10, 50, 200"},
            TradeOff("perf/exchanged.last", "test/accuracy.last", 2, baseline={"sync": "gradients"}),
            changes={"rounds": 8, "average_every": 50, "optimizer": "adamw", "learning_rate": 0.001}
            | {"schedule": "constant", "evaluate_every": 0},
            run_s=5,
        ),
    ),
    pattern="average",
    flows=(
        Flow("own part", "each trainer", "mini-batches"),
        Flow("each trainer", "average", "weights after a round, all or in fragments, or gradients in each step"),
        Flow("average", "each trainer", "the global weights, the same for all"),
    ),
    source="Zinkevich, Weimer, Smola and Li: Parallelized Stochastic Gradient Descent, NeurIPS 2010",
    resumable=True,
    work=lambda config: CONTENDER.work(config, data_set(config.dataset).train),
    update_clock=lambda settings: Clock(
        "train/loss", counts="most" if settings.get("sync") in STEPS_TOGETHER else "mean"
    ),
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
