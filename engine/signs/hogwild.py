"""Exhibits of Hogwild!."""

from engine.signs.sign import Number, Sign

_SYSTEM = "hogwild"

SIGNS = (
    Sign(
        "unequal_comparison",
        "Epochs that are not the same",
        _SYSTEM,
        "The blog series on parallel SGD: Hogwild!'s 98.98 % beside the parameter server's 96.96 %",
        wrong="Both are run for as many epochs. But a server's trainers share one pass over the data in an epoch, "
        "and Hogwild!'s make one each; its "
        "effective step is twice as long, and it makes an update of each gradient, not of each four.",
        right=(
            "Both are compared after the same number of passes, with one step size. What is left between them is "
            "then due to how often they update."
        ),
        seen="How far Hogwild! is ahead of the server after each epoch, on the bundled digits with a linear model: "
        "given the same passes and step, less of "
        "the lead is left, and what is left comes of updating more often.",
        x="Epoch",
        y="Hogwild! ahead by (points of test accuracy)",
        numbers=(
            Number("ahead", "Ahead after the last epoch", "points"),
            Number("passes", "Passes of Hogwild!", "passes"),
            Number("passes_of_server", "Passes of the server", "passes"),
            Number("updates_ratio", "Updates, to one of the server's"),
        ),
        guard="tests/experiments/test_invariants.py::test_passes_count_the_samples_of_all_trainers",
    ),
    Sign(
        "images_one_by_one",
        "Images read one by one",
        _SYSTEM,
        "The blog series on parallel SGD: the data loader of all three programs",
        wrong=(
            "Each image is taken from an array, made a PIL image, transformed back into an array and collated, in "
            "every epoch and in every process."
        ),
        right="The normalized set is one tensor in memory, shared by all ranks; a batch is one gather.",
        seen=(
            "The time to read each mini-batch of 64 images. Reading costs about as much as the training step; what "
            "was compared as training was half reading."
        ),
        x="Mini-batch",
        y="Reading (ms)",
        numbers=(
            Number("reads", "Reads a mini-batch", "reads"),
            Number("share", "Share of a step spent reading", "%"),
            Number("read_ms", "Reading", "ms"),
            Number("train_ms", "Training", "ms"),
        ),
        guard="tests/data/test_datasets.py::test_tensors_lie_in_shared_memory_channels_last",
    ),
)
