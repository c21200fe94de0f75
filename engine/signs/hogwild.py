"""Exhibits of Hogwild!."""

from engine.signs.sign import Number, Sign

_SYSTEM = "hogwild"

SIGNS = (
    Sign(
        "unequal_comparison",
        "Unequal epochs",
        _SYSTEM,
        "The blog series on parallel SGD: Hogwild! at 98.98 % compared with the parameter server at 96.96 %",
        wrong=(
            "Both run for the same number of epochs. But the server's trainers share one pass over the data per "
            "epoch, and Hogwild!'s trainers make one each; its effective step is twice as large, and it updates "
            "on every gradient instead of every fourth."
        ),
        right=(
            "Both are compared after the same number of passes, with one step size. The remaining difference is "
            "due to the update frequency."
        ),
        seen=(
            "Lead of Hogwild! over the server after each epoch, on the bundled digits with a linear model: with "
            "equal passes and steps the lead shrinks, and the rest comes from more frequent updates."
        ),
        x="Epoch",
        y="Lead of Hogwild! (points of test accuracy)",
        numbers=(
            Number("ahead", "Lead after the last epoch", "points"),
            Number("passes", "Passes of Hogwild!", "passes"),
            Number("passes_of_server", "Passes of the server", "passes"),
            Number("updates_ratio", "Updates, relative to the server's"),
        ),
        guard="tests/experiments/test_invariants.py::test_passes_count_the_samples_of_all_trainers",
    ),
    Sign(
        "images_one_by_one",
        "Images read one by one",
        _SYSTEM,
        "The blog series on parallel SGD: the data loader of all three programs",
        wrong=(
            "Each image is taken from an array, converted to a PIL image, transformed back into an array and "
            "collated, in every epoch and every process."
        ),
        right=("The normalized data set is one tensor in memory, shared by all ranks; a batch is one gather."),
        seen=(
            "Time to read each mini-batch of 64 images. Reading takes about as long as the training step, so half "
            "of the compared training time was reading."
        ),
        x="Mini-batch",
        y="Reading (ms)",
        numbers=(
            Number("reads", "Reads per mini-batch", "reads"),
            Number("share", "Reading share of a step", "%"),
            Number("read_ms", "Reading", "ms"),
            Number("train_ms", "Training", "ms"),
        ),
        guard="tests/data/test_datasets.py::test_tensors_lie_in_shared_memory_channels_last",
    ),
)
