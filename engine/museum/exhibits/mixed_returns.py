"""Returns mixed between observers: a fault of batched_reinforce.

source: PyTorch's tutorial on batch RPC processing: CartPole, mode per_call
wrong: Log-probabilities have shape [N, T, 1] and returns [T, N]. Their product broadcasts to [N, T, N], so each action
    is weighted by the returns of all observers. No error is raised.
right: Both get the same shape before the multiplication, and a test compares the gradients of both modes for the same
    round.
seen: Weight of each observer's returns on observer1's actions: only its own should count. The gradient is about N times
    too large, so the published comparison of the two modes compares two different learners.
chart: Weight on observer1's actions (%) against Returns of observer
values: foreign = Weight of other observers' returns (%); length = Gradient norm
rule: foreign = 0
broken: Weight of other observers' returns on observer1's actions must be 0 %; got {foreign:.0f} % of its own. Give
    log-probabilities and returns the same shape before multiplying.
guard:
    tests/experiments/batched_reinforce/test_batched_reinforce.py::test_both_modes_give_the_same_gradient_for_the_same_round
"""

import torch
from torch import Tensor, nn

from engine.museum.exhibit import Outcome, Version
from engine.rl.actor_critic import returns_of

OBSERVERS, STEPS, STATE = 4, 100, 4


def wrong(log_probabilities: Tensor, returns: Tensor) -> Tensor:
    return -(log_probabilities * returns).sum() / OBSERVERS


def right(log_probabilities: Tensor, returns: Tensor) -> Tensor:
    return -(log_probabilities.squeeze(-1) * returns.T).sum() / OBSERVERS


def measure(seed: int, loss: Version) -> Outcome:
    """Compute the gradient of one round, and the weight of each observer's returns on observer1's actions."""
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(STATE, 16), nn.ReLU(), nn.Linear(16, 2))
    states, actions = torch.randn(OBSERVERS, STEPS, STATE), torch.randint(2, (OBSERVERS, STEPS, 1))
    returns = returns_of(torch.ones(STEPS, OBSERVERS), torch.rand(STEPS, OBSERVERS) < 0.05, 1.0)
    loss(policy(states).log_softmax(-1).gather(2, actions), returns).backward()
    gradient = [parameter.grad.flatten() for parameter in policy.parameters() if parameter.grad is not None]
    series = {number: _weight_of(number - 1, returns, loss) for number in range(1, OBSERVERS + 1)}
    return Outcome({"foreign": sum(list(series.values())[1:]), "length": float(torch.cat(gradient).norm())}, series)


def _weight_of(observer: int, returns: Tensor, loss: Version) -> float:
    """Return the weight of an observer's returns on observer1's actions, in percent of its own."""
    log_probabilities = torch.zeros(OBSERVERS, STEPS, 1, requires_grad=True)
    alone = torch.zeros_like(returns)
    alone[:, observer] = returns[:, observer]
    loss(log_probabilities, alone).backward()
    assert log_probabilities.grad is not None
    return 100 * float(-log_probabilities.grad[0].sum() * OBSERVERS / returns[:, observer].sum())
