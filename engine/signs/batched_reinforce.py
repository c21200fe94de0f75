"""Exhibits of batched-RPC REINFORCE."""

from engine.signs.sign import Number, Sign

_SYSTEM = "batched_reinforce"
_TUTORIAL = "PyTorch's tutorial on batch RPC processing: CartPole"

SIGNS = (
    Sign(
        "mixed_returns",
        "Everyone's returns weigh everyone",
        _SYSTEM,
        f"{_TUTORIAL}, mode per_call",
        wrong="Log-probabilities lie [N, T, 1] and returns [T, N]. Their product broadcasts to [N, T, N], so that "
        "each action is weighed by the returns of "
        "all observers. No error tells of it.",
        right=(
            "Both are laid out alike before they are multiplied, and a test computes the gradient of each mode for "
            "the same round."
        ),
        seen="How much the returns of each observer weigh observer1's actions: only its own should. The gradient is "
        "about N times too long, so the "
        "published comparison of the two modes is one of two different learners.",
        x="Returns of observer",
        y="Weight on observer1's actions (%)",
        numbers=(Number("foreign", "Weight of others' returns", "%"), Number("length", "Length of the gradient")),
        guard="tests/experiments/batched_reinforce/test_batched_reinforce.py::test_both_modes_give_the_same_gradient_for_the_same_round",
    ),
    Sign(
        "states_overwritten",
        "States written over before backward",
        _SYSTEM,
        f"{_TUTORIAL}, mode batched, on a CPU",
        wrong="All steps share one buffer of states, and each forward pass is given the buffer itself: by the time "
        "of backward it holds the last step's "
        "states. (On a GPU each step copies it over, which hides the fault.)",
        right=(
            "Each forward pass has states of its own; ours keeps states and actions, and computes the graph once a "
            "round."
        ),
        seen="No round can be learned from. Here autograd counts versions of a tensor and says so; where nobody "
        "counts, the gradient would silently be "
        "another one.",
        x="Round",
        y="Rounds learned from",
        numbers=(Number("learned", "Learned from", "rounds"), Number("rounds", "Played", "rounds")),
        guard="tests/experiments/batched_reinforce/test_batched_reinforce.py::test_the_recomputed_gradient_is_that_of_graphs_kept_while_acting",
    ),
    Sign(
        "same_seeds",
        "One seed for all observers",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Every observer seeds its environment with the one seed of the command line: all begin each episode in "
            "the same state."
        ),
        right="Every observer draws the seeds of its environments from a stream of its own.",
        seen="How far apart the first states of four observers are, episode by episode. At 0 they see the same "
        "episodes, and N observers know little more "
        "than one.",
        x="Episode",
        y="Largest distance of first states",
        numbers=(
            Number("different", "Different first states", "states"),
            Number("observers", "Observers", "observers"),
        ),
        guard="tests/rl/test_environments.py::test_seeds_are_distinct_over_environments_and_ranks_and_the_same_again",
    ),
)
