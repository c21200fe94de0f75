"""The gradient of PPO's loss by hand against autograd: for every kind of action and network, and for a whole step,
where some ratios are clipped on either side.
"""

import threading
from collections import defaultdict

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal

from engine.data.nets import bind, flat_weights
from engine.experiments.dppo.gradient_by_hand import Evaluation
from engine.experiments.dppo.method import _Learner
from engine.recorder import MemoryRecorder
from engine.rl.actor_critic import ActorCritic, Network
from engine.rl.kinds import kind_of
from tests.experiments.dppo.dppo_runs import board_of, config_of

SAMPLES = 64
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
    now = Evaluation(net, states, actions)
    now.backward(by_log_probabilities, by_entropies, by_values)
    outputs = now.log_probabilities, now.entropies, now.values
    for found, wanted in zip(outputs, (log_probabilities, entropies, values), strict=True):
        torch.testing.assert_close(found, wanted.detach())
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("normalizes", [True, False])
def test_a_step_follows_the_gradient_of_the_published_loss(environment: str, normalizes: bool) -> None:
    torch.manual_seed(3)
    config = config_of(environment=environment, entropy=0.02, normalize_advantages=normalizes)
    kept: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    learner = _Learner(board_of(config), config, kind_of(environment), kept.__getitem__, MemoryRecorder())
    net, states = learner.policy.net, torch.randn(SAMPLES, kind_of(environment).observation)
    with torch.no_grad():
        actions, behaviour = net.act(states)
    behaviour += 0.3 * torch.randn(SAMPLES)
    advantages, returns, importance = torch.randn(SAMPLES), torch.randn(SAMPLES), torch.rand(SAMPLES)

    log_probabilities, entropies, values = by_torch(net, states, actions)
    weights = (advantages - advantages.mean()) / (advantages.std() + 1e-8) if normalizes else advantages
    ratios = (log_probabilities - behaviour).exp()
    clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
    losses = (
        -(importance * torch.minimum(ratios * weights, clipped * weights)).mean(),
        0.5 * (values - returns).square().mean(),
    )
    learner.policy.gradient.zero_()
    (sum(losses) - config.entropy * entropies.mean()).backward()
    expected = learner.policy.gradient.clone()
    share = float((ratios != clipped).float().mean())
    assert 0.1 < share < 0.9

    steps: list[torch.Tensor] = []
    learner.optimizer.step = lambda: steps.append(learner.policy.gradient.clone())  # type: ignore[method-assign]
    found = learner._step(states, actions, behaviour, advantages, returns, importance)
    torch.testing.assert_close(steps[0], expected, rtol=1e-4, atol=1e-6)
    told = [*(float(loss.detach()) for loss in losses), float(entropies.detach().mean()), 100 * share]
    assert found.tolist() == pytest.approx(told, rel=1e-4)
