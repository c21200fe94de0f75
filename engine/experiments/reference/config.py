"""The reference's settings, presets and card. Torch-free."""

from engine.plugin import (
    CHECKPOINTS,
    MODEL,
    SAMPLES,
    Clock,
    Config,
    Contender,
    Experiment,
    Flow,
    ModelName,
    Pace,
    Preset,
    Ready,
    Rules,
    SamplesName,
    data_set,
    fits_the_data,
    fits_the_model,
    interval,
    setting,
    steps_of,
)


class ReferenceConfig(Config):
    """Settings of plain SGD in one process."""

    work_fields = ("epochs",)

    epochs: int = setting(10, "Passes over the training set.", low=1, high=1000)
    batch_size: int = setting(64, "Samples per mini-batch.", low=1, high=60_000, unit="samples")
    learning_rate: float = setting(0.01, above=0, high=10)
    """Learning rate of SGD; lower it if the loss diverges or becomes NaN."""
    momentum: float = setting(0.5, "Momentum of SGD.", low=0, below=1)
    dataset: SamplesName = setting("mnist", SAMPLES)
    model: ModelName = setting("mnist_net", MODEL)
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
        yield from fits_the_data(self.dataset, data_set(self.dataset).train, self.batch_size)
        yield fits_the_model(self.dataset, self.model)


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
        "gpt": Preset(
            "A small GPT makes one pass over sources of Python's standard library; needs no network.",
            {"dataset": "stdlib", "model": "gpt", "epochs": 1, "batch_size": 8, "learning_rate": 0.1, "momentum": 0.9},
        ),
        "gpt_base": Preset(
            "A GPT of 10.8 million weights makes 10 passes over 6.3 MB of the same sources, on a GPU.",
            {"dataset": "stdlib_large", "model": "gpt_base", "batch_size": 32, "learning_rate": 0.1, "momentum": 0.9},
        ),
        "vit": Preset(
            "A small vision transformer makes 60 passes over the bundled digits; needs no network.",
            {
                "dataset": "digits",
                "model": "vit",
                "epochs": 60,
                "batch_size": 32,
                "learning_rate": 0.02,
                "momentum": 0.9,
            },
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
