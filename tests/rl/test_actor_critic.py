"""The policy's own backward pass against autograd, for every kind of action and network."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal

from engine.data.nets import bind, flat_weights
from engine.rl.actor_critic import ActorCritic, Network
from engine.rl.kinds import kind_of

SAMPLES = 48
KINDS: list[tuple[str, Network]] = [
    ("CartPole-v1", "two_layers"),
    ("CartPole-v1", "published"),
    ("Pendulum-v1", "two_layers"),
    ("Pendulum-v1", "published"),
]


def made(environment: str, network: Network) -> tuple[ActorCritic, Tensor, Tensor, Tensor]:
    """Return a net with bound weights, its gradient, states and actions."""
    torch.manual_seed(1)
    kind = kind_of(environment)
    net = ActorCritic(kind, network)
    weights = flat_weights(net)
    weights += 0.1 * torch.randn_like(weights)
    gradient = bind(net, weights)
    states = torch.randn(SAMPLES, kind.observation)
    with torch.no_grad():
        actions, _ = net.act(states)
    return net, gradient, states, actions


def by_torch(net: ActorCritic, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities, entropies and values by torch's distributions, for autograd."""
    outputs, values = net.actor(states), net.critic(states).squeeze(-1)
    if net.choices:
        categorical = Categorical(logits=outputs)
        return categorical.log_prob(actions), categorical.entropy(), values
    if net.spread:
        half, raw = outputs.chunk(2, -1)
        mean, deviation = 2 * half.tanh(), torch.nn.functional.softplus(raw) + 1e-4
    else:
        mean, deviation = outputs, net.log_deviation.exp().expand_as(outputs)
    normal = Normal(mean, deviation)
    return normal.log_prob(actions).sum(-1), normal.entropy().sum(-1), values


@pytest.mark.parametrize(("environment", "network"), KINDS)
@pytest.mark.parametrize("by_entropies", [0.0, -0.3])
def test_outputs_and_gradient_are_those_of_autograd(environment: str, network: Network, by_entropies: float) -> None:
    net, gradient, states, actions = made(environment, network)
    by_log_probabilities, by_values = torch.randn(SAMPLES), torch.randn(SAMPLES)
    log_probabilities, entropies, values = by_torch(net, states, actions)
    loss = (by_log_probabilities * log_probabilities).sum() + (by_values * values).sum()
    (loss + by_entropies * entropies.sum()).backward()
    expected = gradient.clone()
    assert expected.abs().max() > 0.1

    gradient.fill_(float("nan"))  # every element is written
    judged, trace = net.evaluate_actions(states, actions)
    net.backward(trace, actions, by_log_probabilities, by_entropies, by_values)
    for found, wanted in zip(judged, (log_probabilities, entropies, values), strict=True):
        torch.testing.assert_close(found, wanted.detach())
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
