"""Gradients set to None: a fault of parameter_server.

source: PyTorch's tutorial on batch RPC processing: the parameter server
wrong: The server adds into `parameter.grad` and clears it with `zero_grad()`, which sets it to None since torch 2.0:
    the second round has nothing to add to.
right: The sums keep their memory and are filled with zeros; the engine uses one vector for the server's lifetime.
seen: The published code makes one update and fails from the second round on.
chart: Updates made against Round
values: updates = Updates made (updates); rounds = Rounds (rounds)
rule: updates = rounds
broken: Every round must end in an update; {updates:.0f} of {rounds:.0f} did. Keep the gradient tensors between rounds.
guard: tests/experiments/servers/test_server_runs.py::test_n_trainers_of_batch_b_are_one_process_of_batch_n_times_b
"""

import torch
from torch import nn

from engine.museum.exhibit import Outcome, Version

ROUNDS = 6


def wrong(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()


def right(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=False)


def measure(seed: int, clear: Version) -> Outcome:
    """Add a gradient, update and clear in each round; count the updates."""
    torch.manual_seed(seed)
    net, updates, series, error = nn.Linear(8, 4), 0, {}, ""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for number in range(1, ROUNDS + 1):
        try:
            for parameter in net.parameters():
                parameter.grad += torch.ones_like(parameter)  # type: ignore[operator]
            optimizer.step()
            clear(optimizer)
            updates += 1
        except TypeError as failure:
            error = error or f"TypeError: {failure}"
        series[number] = updates
    return Outcome({"updates": updates, "rounds": ROUNDS}, series, error)
