"""One buffer of states for all steps: each step overwrites data that the previous step's backward pass still needs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.museum.outcome import Broken, ExhibitOutcome

OBSERVERS, STEPS, ROUNDS, STATE = 4, 8, 5, 4


def wrong(seed: int) -> ExhibitOutcome:
    """Pass the buffer itself to the policy."""
    return _rounds(seed, lambda states: states)


def right(seed: int) -> ExhibitOutcome:
    """Pass a copy to the policy."""
    return _rounds(seed, lambda states: states.clone())


def _rounds(seed: int, given: Callable[[Tensor], Tensor]) -> ExhibitOutcome:
    torch.manual_seed(seed)
    policy = nn.Linear(STATE, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    states = torch.zeros(OBSERVERS, STATE)
    learned, series, error = 0, {}, ""
    for number in range(1, ROUNDS + 1):
        chosen = []
        for _ in range(STEPS):
            for observer in range(OBSERVERS):
                states[observer] = torch.randn(STATE)
            chosen.append(policy(given(states)).log_softmax(1)[:, 0])
        optimizer.zero_grad()
        try:
            (-torch.stack(chosen).sum() / OBSERVERS).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            learned += 1
        except RuntimeError as failure:
            error = error or f"RuntimeError: {str(failure).partition('; ')[0]}"
        series[number] = float(learned)
    return ExhibitOutcome({"learned": float(learned), "rounds": float(ROUNDS)}, series, error)


def invariant(outcome: ExhibitOutcome) -> None:
    """Every round can be trained on."""
    learned, rounds = outcome.numbers["learned"], outcome.numbers["rounds"]
    if learned != rounds:
        raise Broken(
            f"All {rounds:.0f} rounds must be usable for training; got {learned:.0f}. Keep the states that backward "
            "needs unchanged."
        )
