"""States overwritten before backward: a fault of batched_reinforce.

source: PyTorch's tutorial on batch RPC processing: CartPole, mode batched, on a CPU
wrong: All steps share one buffer of states, and each forward pass gets the buffer itself: at backward it holds the last
    step's states. (On a GPU each step copies it, which hides the fault.)
right: Each forward pass has its own states; the engine keeps states and actions, and builds the graph once per round.
seen: No round can be trained on. Here autograd checks tensor versions and raises an error; without that check the
    gradient would be silently wrong.
chart: Rounds trained on against Round
values: learned = Trained on (rounds); rounds = Played (rounds)
rule: learned = rounds
broken: All {rounds:.0f} rounds must be usable for training; got {learned:.0f}. Keep the states that backward needs
    unchanged.
guard:
    tests/experiments/batched_reinforce/test_batched_reinforce.py::test_the_recomputed_gradient_is_that_of_graphs_kept_while_acting
"""

import torch
from torch import Tensor, nn

from engine.museum.exhibit import Outcome, Version

OBSERVERS, STEPS, ROUNDS, STATE = 4, 8, 5, 4


def wrong(states: Tensor) -> Tensor:
    return states


def right(states: Tensor) -> Tensor:
    return states.clone()


def measure(seed: int, given: Version) -> Outcome:
    """Play some rounds and train on each; count the rounds that could be trained on."""
    torch.manual_seed(seed)
    policy, states = nn.Linear(STATE, 2), torch.zeros(OBSERVERS, STATE)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    learned, series, error = 0, {}, ""
    for number in range(1, ROUNDS + 1):
        chosen = []
        for _ in range(STEPS):
            states.normal_()
            chosen.append(policy(given(states)).log_softmax(1)[:, 0])
        optimizer.zero_grad()
        try:
            (-torch.stack(chosen).sum() / OBSERVERS).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            learned += 1
        except RuntimeError as failure:
            error = error or f"RuntimeError: {str(failure).partition('; ')[0]}"
        series[number] = learned
    return Outcome({"learned": learned, "rounds": ROUNDS}, series, error)
