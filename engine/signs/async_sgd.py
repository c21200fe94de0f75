"""Exhibits of asynchronous SGD."""

from engine.signs.sign import Number, Sign

SIGNS = (
    Sign(
        "called_asynchronous",
        "Asynchronous in name only",
        "async_sgd",
        "The blog series on parallel SGD: the parameter server that it calls asynchronous",
        wrong=(
            "Calls return futures, so no RPC thread blocks. But the update waits for a gradient from every "
            "trainer, and every trainer waits for the update: this is synchronous SGD."
        ),
        right=(
            "Each gradient is applied on arrival and its staleness is recorded: the number of updates by others "
            "between its fetch and its push."
        ),
        seen=(
            "Trainer1 of four takes four times as long per step. With the barrier, no gradient is stale and all "
            "trainers run at trainer1's pace; applied immediately, gradients are stale, and half of them arrive "
            "sooner."
        ),
        x="Gradient, in order of arrival",
        y="Staleness (updates)",
        numbers=(
            Number("staleness", "Mean staleness", "updates"),
            Number("half_s", "Time to half of all gradients", "s"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_equal_trainers_in_turn_have_a_staleness_of_n_minus_1",
    ),
)
