"""Exhibits of synchronous parallel SGD."""

from engine.signs.sign import Number, Sign

_SYSTEM = "sync_sgd"
_BLOG = "The blog series on parallel SGD: synchronous parallel SGD"

SIGNS = (
    Sign(
        "aliased_weights",
        "Weights that share their storage",
        _SYSTEM,
        _BLOG,
        wrong="Each worker takes the global weights by `mine.data = theirs.data`. That copies no number: it shares "
        "the storage, so every local step is a "
        "step of the global weights and of every other worker's.",
        right="Trainers copy the numbers; what they do between two averages stays theirs.",
        seen="The distance of the global weights from where the round began: with one storage each local step moves "
        "them, with copies nothing does until "
        "the average. What ran was Hogwild!, and so are the published figures.",
        x="Local step, trainer after trainer",
        y="Global weights moved within the round",
        numbers=(
            Number("storages", "Storages of 4 trainers and the global weights", "storages"),
            Number("moved", "Moved before the average"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_no_two_of_all_weights_share_memory",
    ),
    Sign(
        "tested_before_average",
        "Tested before the average",
        _SYSTEM,
        _BLOG,
        wrong="The test stands before the average, so each round tells the accuracy of the global weights of the "
        "round before. (With the shared storage of "
        "the exhibit above it made no difference; mend that one, and this one shows.)",
        right="The average comes first: the score that is told is the score of the weights that are kept.",
        seen="The published order follows one round behind, and its first score is that of untrained weights.",
        x="Round",
        y="Test accuracy told (%)",
        numbers=(
            Number("reported", "Told last", "%"),
            Number("kept", "Reached by the weights kept", "%"),
            Number("apart", "Weights tested, to those kept"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_the_global_weights_are_the_mean_of_all_and_the_same_for_all",
    ),
    Sign(
        "epochs_repeated",
        "Every epoch four times over",
        _SYSTEM,
        _BLOG,
        wrong=(
            "The loop that starts all workers stands inside another loop over the workers: each epoch is carried "
            "out N times, and told once."
        ),
        right=(
            "All trainers start once a round, and every accuracy is recorded beside the passes over the data that "
            "were really made."
        ),
        seen="After 3 epochs told, 12 passes were made: the published 97.96 % is the accuracy of 12.",
        x="Epochs told",
        y="Passes over the data made",
        numbers=(
            Number("passes", "Passes made", "passes"),
            Number("told", "Epochs told", "epochs"),
            Number("averages", "Averages", "rounds"),
        ),
        guard="tests/experiments/sync_sgd/test_sync_sgd.py::test_passes_count_the_samples_of_all_and_only_trainer1_tests",
    ),
)
