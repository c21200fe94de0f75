"""Log-probabilities [N, T, 1] times returns [T, N]: the product is [N, T, N], so each observer's returns weight all
others' actions.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.rl.returns import returns_of

OBSERVERS, STEPS, STATE = 4, 100, 4
Loss = Callable[[Tensor, Tensor], Tensor]


def wrong(seed: int) -> ExhibitOutcome:
    """Multiply without aligning the shapes."""

    def loss(log_probabilities: Tensor, returns: Tensor) -> Tensor:
        return -(log_probabilities * returns).sum() / OBSERVERS

    return _learned(seed, loss)


def right(seed: int) -> ExhibitOutcome:
    """Align both to [N, T] first."""

    def loss(log_probabilities: Tensor, returns: Tensor) -> Tensor:
        return -(log_probabilities.squeeze(-1) * returns.T).sum() / OBSERVERS

    return _learned(seed, loss)


def _learned(seed: int, loss: Loss) -> ExhibitOutcome:
    """Compute the gradient of one round, and the weight of each observer's returns on observer1's actions."""
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(STATE, 16), nn.ReLU(), nn.Linear(16, 2))
    states, actions = torch.randn(OBSERVERS, STEPS, STATE), torch.randint(2, (OBSERVERS, STEPS, 1))
    rewards, ends = torch.ones(STEPS, OBSERVERS), torch.rand(STEPS, OBSERVERS) < 0.05
    returns = returns_of(rewards, ends, 1.0)
    log_probabilities = policy(states).log_softmax(-1).gather(2, actions)
    loss(log_probabilities, returns).backward()  # type: ignore[no-untyped-call]
    length = float(
        torch.cat([parameter.grad.flatten() for parameter in policy.parameters() if parameter.grad is not None]).norm()
    )
    series = {number: _weight_of(number - 1, returns, loss) for number in range(1, OBSERVERS + 1)}
    return ExhibitOutcome({"foreign": sum(list(series.values())[1:]), "length": length}, series)


def _weight_of(observer: int, returns: Tensor, loss: Loss) -> float:
    """Return the weight of an observer's returns on observer1's actions, in percent of its own."""
    log_probabilities = torch.zeros(OBSERVERS, STEPS, 1, requires_grad=True)
    alone = torch.zeros_like(returns)
    alone[:, observer] = returns[:, observer]
    loss(log_probabilities, alone).backward()  # type: ignore[no-untyped-call]
    assert log_probabilities.grad is not None
    return 100 * float(-log_probabilities.grad[0].sum() * OBSERVERS / returns[:, observer].sum())


def invariant(outcome: ExhibitOutcome) -> None:
    """No return weights another observer's actions."""
    foreign = outcome.numbers["foreign"]
    if foreign:
        raise Broken(
            f"Weight of other observers' returns on observer1's actions must be 0 %; got {foreign:.0f} % of its own. "
            "Give log-probabilities and returns the same shape before multiplying."
        )
