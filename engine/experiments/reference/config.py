"""The reference's settings, presets and card. Torch-free."""

from engine.plugin import (
    CHECKPOINTS,
    IMAGES,
    Clock,
    Config,
    Contender,
    DatasetName,
    Experiment,
    Flow,
    Pace,
    Preset,
    Ready,
    Rules,
    data_set,
    fits_the_data,
    interval,
    setting,
    steps_of,
)


class ReferenceConfig(Config):
    """Settings of plain SGD in one process."""

    work_fields = ("epochs",)

    epochs: int = setting(10, "Passes over the training set.", low=1, high=1000)
    batch_size: int = setting(64, "Images per mini-batch.", low=1, high=60_000, unit="samples")
    learning_rate: float = setting(0.01, above=0, high=10)
    """Learning rate of SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.5, "Momentum of SGD.", low=0, below=1)
    dataset: DatasetName = setting("mnist", IMAGES)
    evaluate_every: int = interval(1, "epochs", "it is tested only at the end", high=1000, advanced=True)
    """Epochs between tests of the model. 0 tests only at the end."""
    checkpoint_every_s: float = interval(30.0, "s", "it keeps no checkpoint", CHECKPOINTS, high=86_400, advanced=True)

    def tests_after(self, epoch: int) -> bool:
        """Return whether the model is tested after that epoch (counted from 1)."""
        return epoch == self.epochs or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("trainer1",)

    def rules(self) -> Rules:
        return fits_the_data(self.dataset, data_set(self.dataset).train, self.batch_size)


CONTENDER = Contender(
    length="epochs",
    pace=lambda config: Pace(1.0, steps_of(config.dataset, config.batch_size), None),
    strategies={"reference": Ready("Reference")},
    data="the whole data set",
    momentum=lambda config: "one",
    tests="by the trainer, which pauses",
)
_PUBLISHED = {"dataset": "mnist", "epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.5}

EXPERIMENT = Experiment(
    name="reference",
    title="Reference",
    tagline="One process: the baseline for speed-up",
    sentence="The same model, data and optimizer in one process: the baseline for every speed-up.",
    config=ReferenceConfig,
    presets={
        "published": Preset(
            "MNIST with the settings of one published Hogwild! trainer: 10 epochs, learning rate 0.01, momentum 0.5.",
            _PUBLISHED,
        ),
        "tuned": Preset(
            "MNIST in 10 passes, with a learning rate chosen for few passes.",
            _PUBLISHED | {"learning_rate": 0.02, "momentum": 0.8},
        ),
        "quick": Preset(
            "60 passes over the bundled digits; needs no network.",
            {"dataset": "digits", "epochs": 60, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5},
            expects={"test/accuracy": 95.0},
        ),
    },
    pattern="one process",
    flows=(Flow("data", "trainer1", "mini-batches"), Flow("trainer1", "weights", "updates, one after the other")),
    source="Robbins and Monro: A Stochastic Approximation Method, 1951 (plain SGD, here with momentum)",
    resumable=True,
    work=lambda config: CONTENDER.work(config, data_set(config.dataset).train),
    update_clock=Clock("train/loss"),
    axis="learning_rate",
    duel=CONTENDER,
)
