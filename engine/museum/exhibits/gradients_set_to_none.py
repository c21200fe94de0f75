"""A server that adds to gradients which its optimizer has removed: `zero_grad()` sets them to None since torch 2.0."""

from collections.abc import Callable

import torch
from torch import nn

from engine.museum.outcome import Broken, ExhibitOutcome

ROUNDS = 6


def wrong(seed: int) -> ExhibitOutcome:
    """Clear the sums with `zero_grad()`, like the published server after each update."""
    net, optimizer = _server(seed)
    return _updates(net, optimizer, lambda: optimizer.zero_grad())


def right(seed: int) -> ExhibitOutcome:
    """Keep the tensors and fill them with zeros; the engine sums into one vector for the server's lifetime."""
    net, optimizer = _server(seed)
    return _updates(net, optimizer, lambda: optimizer.zero_grad(set_to_none=False))


def _server(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    net = nn.Linear(8, 4)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def _updates(net: nn.Module, optimizer: torch.optim.Optimizer, empty: Callable[[], None]) -> ExhibitOutcome:
    made, series, error = 0, {}, ""
    for number in range(1, ROUNDS + 1):
        try:
            for parameter in net.parameters():
                parameter.grad += torch.ones_like(parameter)  # type: ignore[operator]
            optimizer.step()
            empty()
            made += 1
        except TypeError as failure:
            error = error or f"TypeError: {failure}"
        series[number] = float(made)
    return ExhibitOutcome({"updates": float(made), "rounds": float(ROUNDS)}, series, error)


def invariant(outcome: ExhibitOutcome) -> None:
    """Every round ends in an update."""
    made, rounds = outcome.numbers["updates"], outcome.numbers["rounds"]
    if made != rounds:
        raise Broken(
            f"Every round must end in an update; {made:.0f} of {rounds:.0f} did. Keep the gradient tensors between "
            "rounds."
        )
