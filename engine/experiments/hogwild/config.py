"""Hogwild!'s settings, presets and card. Torch-free."""

from math import ceil
from typing import Literal

from engine.config import RuleBroken, Rules, interval, setting
from engine.data.catalogue import DatasetName, data_set
from engine.experiment import HEADLINE, Clock, Contender, Experiment, Flow, Pace, Preset, Ready, ReadySweep
from engine.metrics import Result
from engine.training.settings import DIGITS, IMAGES, SLOW_START, TrainersConfig, as_published, fits_the_data

SPARSE = {"model": "sparse_logistic"}


class HogwildConfig(TrainersConfig):
    """Settings for SGD by several trainers on one set of shared weights."""

    work_fields = ("epochs",)
    unused_with = (("overwrites_every", "variant tutorial"),)

    trainers: int = setting(4, low=1, high=64)
    """Trainer processes. Each trains on the whole training set in its own order."""
    epochs: int = setting(10, low=1, high=1000)
    """Passes of each trainer over the training set; the total is trainers x epochs."""
    batch_size: int = setting(64, "Images (or sparse samples) per mini-batch.", low=1, high=60_000, unit="samples")
    learning_rate: float = setting(0.01, above=0, high=10)
    """Learning rate of SGD. Lower it for more trainers, or if the loss diverges or becomes NaN."""
    momentum: float = setting(0.5, "Momentum of SGD, kept separately by each trainer.", low=0, below=1)
    model: Literal["mnist_net", "sparse_logistic"] = setting("mnist_net")
    """mnist_net: a dense net on images; it converges without the theorem's guarantee. sparse_logistic: logistic
    regression on generated sparse samples, close to the theorem's assumptions; ignores the data set."""
    dataset: DatasetName = setting("mnist", IMAGES)
    variant: Literal["engine", "tutorial"] = setting("engine")
    """engine: images as tensors in shared memory, one flat buffer of weights. tutorial: built like the published code,
    at its original speed."""
    lock: bool = setting(False, "Lock each update so that updates never overlap: the baseline for Hogwild!.")
    evaluate_every: int = interval(1, "epochs", "it is tested only at the end", high=1000, advanced=True)
    """Epochs of trainer1 between tests of the shared weights; 0 tests only at the end. Trainer1 pauses during a
    test."""
    overwrites_every: int = interval(100, "steps", "no overwritten updates are measured", high=100_000, advanced=True)
    """Steps between measurements of a trainer's overwritten updates; 0 disables them. Not supported by variant
    tutorial."""
    sparse_samples: int = setting(20_000, low=100, high=100_000, unit="samples", advanced=True, only=SPARSE)
    """Training samples of sparse_logistic; a fifth as many are generated for testing."""
    sparse_features: int = setting(2_000, low=10, high=1_000_000, advanced=True, only=SPARSE)
    """Features of sparse_logistic, one weight each. More features mean fewer collisions."""
    sparse_nonzeros: int = setting(10, low=1, high=1_000, advanced=True, only=SPARSE)
    """Nonzero features per sample of sparse_logistic. Fewer mean fewer collisions."""

    @property
    def max_gpus(self) -> int:
        """One: the trainers share its memory. None for the tutorial variant and the sparse model."""
        return 0 if self.variant == "tutorial" or self.model == "sparse_logistic" else 1

    @property
    def trains_on(self) -> str | None:
        """The data set; None for the sparse model, which generates its samples."""
        return None if self.model == "sparse_logistic" else self.dataset

    @property
    def samples(self) -> int:
        """Training samples per pass."""
        return self.sparse_samples if self.model == "sparse_logistic" else data_set(self.dataset).train

    def tests_after(self, epoch: int) -> bool:
        """Return whether trainer1 tests after that epoch (from 1); the others continue. It also tests at the end."""
        return self.evaluate_every > 0 and epoch < self.epochs and epoch % self.evaluate_every == 0

    @property
    def divergence_advice(self) -> str:
        """The end of the error for a loss that is not finite."""
        lower = f"learning_rate ({self.learning_rate}), momentum ({self.momentum}) or trainers ({self.trainers})"
        return f"the shared weights have diverged. Lower {lower}."

    def pace(self) -> Pace:
        """In one epoch every trainer goes through the whole set; trainer1, which tests, counts only its own steps."""
        steps = ceil(self.samples / self.batch_size)
        return Pace(float(self.trainers), steps, None, self.trainers / steps, self.trainers)

    def rules(self) -> Rules:
        yield from fits_the_data(self.trains_on or self.model, self.samples, self.batch_size)
        yield self.no_apple_gpu("for hogwild", "processes can't share an Apple GPU's memory")
        tutorial, sparse = self.when("variant tutorial"), self.when("model sparse_logistic")
        yield tutorial("device", "auto", "cpu", why="which only runs on the CPU", cure="Choose cpu or variant engine.")
        yield tutorial("start_method", "spawn", why=SLOW_START, cure="Choose spawn or variant engine.")
        yield sparse("variant", "engine", why="which the published code does not have")
        yield sparse("device", "auto", "cpu", why="whose updates are too small for a GPU", cure="Choose cpu.")
        yield sparse("momentum", 0, why="because momentum would write every weight in each step")
        if self.model == "sparse_logistic":
            yield self.at_most("sparse_nonzeros", "sparse_features")
            if self.samples * self.sparse_nonzeros > 4_000_000:  # 12 bytes each, plus a fifth for the test set
                got = f"4,000,000 (58 MB of shared memory), got {self.samples:,} × {self.sparse_nonzeros}"
                raise RuleBroken("sparse_samples", f"sparse_samples x sparse_nonzeros must be at most {got}.")


CONTENDER = Contender(
    length="epochs",
    pace=HogwildConfig.pace,
    strategies={"hogwild": Ready("Hogwild!"), "hogwild_locked": Ready("Hogwild! with a lock", {"lock": True})},
    data="the whole data set per trainer, in its own order",
    momentum=lambda config: "one per trainer",
    tests="by trainer1, which pauses; the others continue",
    given=lambda settings: {"overwrites_every": 0},
)
_PUBLISHED = {"dataset": "mnist", "trainers": 4, "epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.5}
_SPARSE = {"model": "sparse_logistic", "trainers": 4, "epochs": 5, "batch_size": 10, "learning_rate": 5.0}
EXPERIMENT = Experiment(
    name="hogwild",
    title="Hogwild!",
    tagline="One model in shared memory, no locks",
    sentence="Several processes train one model in shared memory, without waiting for each other's updates.",
    config=HogwildConfig,
    ready_sweeps=(ReadySweep("Show scaling", "quick", {"trainers": "1, 2, 4"}, "scaling", run_s=9),),
    presets={
        "published": Preset(
            "MNIST as published: 4 trainers with 10 epochs each, 40 passes over the data in total.", _PUBLISHED
        ),
        "tuned": Preset(
            "MNIST in 10 passes with 2 trainers, and a learning rate chosen for few passes.",
            _PUBLISHED | {"trainers": 2, "epochs": 5, "learning_rate": 0.02, "momentum": 0.8},
        ),
        "quick": Preset(
            "Two trainers make 30 passes each over the bundled digits; needs no network.",
            DIGITS | {"epochs": 30, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "tutorial": as_published(_PUBLISHED, "a new Python process per trainer, images read one by one."),
        "sparse": Preset(
            "Logistic regression on sparse samples with few collisions, as the theorem assumes; needs no network.",
            _SPARSE | {"momentum": 0.0, "threads_per_rank": 1},
            expects={"test/accuracy": 84.0},
        ),
    },
    pattern="shared memory",
    flows=(
        Flow("shared data", "each trainer", "mini-batches, each trainer in its own order"),
        Flow("shared weights", "each trainer", "reads, while others write"),
        Flow("each trainer", "shared weights", "updates, without a lock"),
    ),
    source="Recht, Ré, Wright and Niu: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent, "
    "NeurIPS 2011",
    result=Result(own_tasks=(("model", "sparse_logistic"),)),
    work=lambda config: CONTENDER.work(config, config.samples),
    headline=(*HEADLINE, "theory/omega", "theory/delta", "theory/rho"),
    update_clock=Clock("train/loss"),  # of all trainers: each updates the one model
    stale_gradients="Hogwild!",
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
