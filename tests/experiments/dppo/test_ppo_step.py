"""One step of PPO against autograd on the published loss, where some ratios are clipped on either side."""

import threading
from collections import defaultdict

import pytest
import torch

from engine.experiments.dppo.ppo import PpoLearner
from engine.recorder import MemoryRecorder
from engine.rl.kinds import kind_of
from tests.experiments.dppo.dppo_runs import board_of, config_of
from tests.rl.test_actor_critic import by_torch

SAMPLES = 64


@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("normalizes", [True, False])
def test_a_step_follows_the_gradient_of_the_published_loss(environment: str, normalizes: bool) -> None:
    torch.manual_seed(3)
    config = config_of(environment=environment, entropy=0.02, normalize_advantages=normalizes)
    kept: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    learner = PpoLearner(board_of(config), config, kind_of(environment), kept.__getitem__, MemoryRecorder())
    net, states = learner.policy.net, torch.randn(SAMPLES, kind_of(environment).observation)
    with torch.no_grad():
        actions, behaviour = net.act(states)
    behaviour += 0.3 * torch.randn(SAMPLES)
    advantages, returns = torch.randn(SAMPLES), torch.randn(SAMPLES)

    log_probabilities, entropies, values = by_torch(net, states, actions)
    weights = (advantages - advantages.mean()) / (advantages.std() + 1e-8) if normalizes else advantages
    ratios = (log_probabilities - behaviour).exp()
    clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
    losses = -torch.minimum(ratios * weights, clipped * weights).mean(), 0.5 * (values - returns).square().mean()
    learner.policy.gradient.zero_()
    (sum(losses) - config.entropy * entropies.mean()).backward()
    expected = learner.policy.gradient.clone()
    share = float((ratios != clipped).float().mean())
    assert 0.1 < share < 0.9

    steps: list[torch.Tensor] = []
    learner.optimizer.step = lambda: steps.append(learner.policy.gradient.clone())  # type: ignore[method-assign]
    found = learner._step(states, actions, behaviour, advantages, returns)
    torch.testing.assert_close(steps[0], expected, rtol=1e-4, atol=1e-6)
    told = [*(float(loss.detach()) for loss in losses), float(entropies.detach().mean()), 100 * share]
    assert found.tolist() == pytest.approx(told, rel=1e-4)
