"""Exhibits of asynchronous SGD."""

from engine.signs.sign import Number, Sign

SIGNS = (
    Sign(
        "called_asynchronous",
        "Asynchronous in name",
        "async_sgd",
        "The blog series on parallel SGD: the parameter server that it calls asynchronous",
        wrong="Calls return futures, so no RPC thread waits. But the update waits for a gradient of every trainer, "
        "and every trainer for the update: that "
        "is synchronous SGD.",
        right=(
            "Each gradient is applied when it comes, and its staleness is recorded: the updates that others made "
            "between its fetch and its push."
        ),
        seen="Trainer1 of four takes four times as long for a step. Waiting for all, no gradient is ever stale and "
        "everyone keeps trainer1's pace; applied "
        "at once, gradients are stale, and half of them are in sooner.",
        x="Gradient, in the order of arrival",
        y="Staleness (updates)",
        numbers=(
            Number("staleness", "Mean staleness", "updates"),
            Number("half_s", "Half of all gradients are in after", "s"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_equal_trainers_in_turn_have_a_staleness_of_n_minus_1",
    ),
)
