"""Exhibits of synchronous parallel SGD."""

from engine.signs.sign import Number, Sign

_SYSTEM = "sync_sgd"
_BLOG = "The blog series on parallel SGD: synchronous parallel SGD"

SIGNS = (
    Sign(
        "aliased_weights",
        "Weights that share storage",
        _SYSTEM,
        _BLOG,
        wrong=(
            "Each worker takes the global weights with `mine.data = theirs.data`. This copies nothing: it shares "
            "the storage, so every local step also changes the global weights and every other worker's."
        ),
        right="Trainers copy the values, so steps between two averages stay local.",
        seen=(
            "Distance of the global weights from the start of the round: with shared storage each local step "
            "moves them, with copies only the average does. The code that ran was Hogwild!, and so are the "
            "published numbers."
        ),
        x="Local step, by trainer",
        y="Change of the global weights within the round",
        numbers=(
            Number("storages", "Storages of 4 trainers and the global weights", "storages"),
            Number("moved", "Change before the average"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_no_two_of_all_weights_share_memory",
    ),
    Sign(
        "tested_before_average",
        "Tested before the average",
        _SYSTEM,
        _BLOG,
        wrong=(
            "The test runs before the average, so each round reports the accuracy of the previous round's global "
            "weights. (With the shared storage of the exhibit above it made no difference; with that fixed, this "
            "one shows.)"
        ),
        right="The average comes first: the reported score belongs to the weights that are kept.",
        seen=("The published order lags one round behind, and its first score is that of untrained weights."),
        x="Round",
        y="Reported test accuracy (%)",
        numbers=(
            Number("reported", "Last reported accuracy", "%"),
            Number("kept", "Accuracy of the kept weights", "%"),
            Number("apart", "Distance of tested to kept weights"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_the_global_weights_are_the_mean_of_all_and_the_same_for_all",
    ),
    Sign(
        "epochs_repeated",
        "Every epoch four times",
        _SYSTEM,
        _BLOG,
        wrong=(
            "The loop that starts all workers is inside another loop over the workers: each epoch runs N times "
            "and is reported once."
        ),
        right=(
            "All trainers start once per round, and every accuracy is recorded with the actual passes over the data."
        ),
        seen=("After 3 reported epochs, 12 passes were made: the published 97.96 % is the accuracy after 12."),
        x="Reported epochs",
        y="Passes made",
        numbers=(
            Number("passes", "Passes made", "passes"),
            Number("told", "Reported epochs", "epochs"),
            Number("averages", "Averages", "rounds"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_passes_count_the_samples_of_all_and_only_trainer1_tests",
    ),
)
