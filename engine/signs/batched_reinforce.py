"""Exhibits of batched-RPC REINFORCE."""

from engine.signs.sign import Number, Sign

_SYSTEM = "batched_reinforce"
_TUTORIAL = "PyTorch's tutorial on batch RPC processing: CartPole"

SIGNS = (
    Sign(
        "mixed_returns",
        "Returns mixed between observers",
        _SYSTEM,
        f"{_TUTORIAL}, mode per_call",
        wrong=(
            "Log-probabilities have shape [N, T, 1] and returns [T, N]. Their product broadcasts to [N, T, N], so "
            "each action is weighted by the returns of all observers. No error is raised."
        ),
        right=(
            "Both get the same shape before the multiplication, and a test compares the gradients of both modes "
            "for the same round."
        ),
        seen=(
            "Weight of each observer's returns on observer1's actions: only its own should count. The gradient is "
            "about N times too large, so the published comparison of the two modes compares two different "
            "learners."
        ),
        x="Returns of observer",
        y="Weight on observer1's actions (%)",
        numbers=(Number("foreign", "Weight of other observers' returns", "%"), Number("length", "Gradient norm")),
        guard="tests/experiments/batched_reinforce/test_batched_reinforce.py::test_both_modes_give_the_same_gradient_for_the_same_round",
    ),
    Sign(
        "states_overwritten",
        "States overwritten before backward",
        _SYSTEM,
        f"{_TUTORIAL}, mode batched, on a CPU",
        wrong=(
            "All steps share one buffer of states, and each forward pass gets the buffer itself: at backward it "
            "holds the last step's states. (On a GPU each step copies it, which hides the fault.)"
        ),
        right=(
            "Each forward pass has its own states; the engine keeps states and actions, and builds the graph once "
            "per round."
        ),
        seen=(
            "No round can be trained on. Here autograd checks tensor versions and raises an error; without that "
            "check the gradient would be silently wrong."
        ),
        x="Round",
        y="Rounds trained on",
        numbers=(Number("learned", "Trained on", "rounds"), Number("rounds", "Played", "rounds")),
        guard="tests/experiments/batched_reinforce/test_batched_reinforce.py::test_the_recomputed_gradient_is_that_of_graphs_kept_while_acting",
    ),
    Sign(
        "same_seeds",
        "One seed for all observers",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Every observer seeds its environment with the seed of the command line: all start each episode in "
            "the same state."
        ),
        right="Every observer draws its environments' seeds from its own random stream.",
        seen=(
            "Distance between the initial states of four observers, by episode. At 0 they see the same episodes, "
            "and N observers learn little more than one."
        ),
        x="Episode",
        y="Largest distance of initial states",
        numbers=(
            Number("different", "Distinct initial states", "states"),
            Number("observers", "Observers", "observers"),
        ),
        guard="tests/rl/test_environments.py::test_seeds_are_distinct_over_environments_and_ranks_and_the_same_again",
    ),
)
