"""The gradient of PPO's loss by hand. In nets of a few thousand weights autograd's bookkeeping takes longer than the
arithmetic: this way an update takes two thirds of the time (docs/decisions/ppo-gradient.md).

`tests/experiments/dppo/test_gradient.py` compares it with `loss.backward()`. It rounds in another order than autograd,
so the two agree to 1e-5, not bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engine.rl.actor_critic import ActorCritic, Choices, Vectors


class Evaluation:
    """log pi(a|s), the entropy of pi(.|s), and V(s) for states s and the actions a taken in them: [M] each. It keeps
    what the backward pass needs.
    """

    @torch.no_grad()
    def __init__(self, net: ActorCritic, states: Tensor, actions: Tensor) -> None:
        self._net = net
        self._actions = actions
        self._actor, self._critic = _trace(net.actor, states), _trace(net.critic, states)
        self._distribution = net.distribution(self._actor[-1])
        self.log_probabilities = self._distribution.log_probabilities(actions)
        self.entropies = self._distribution.entropies()
        self.values = self._critic[-1].squeeze(-1)

    @torch.no_grad()
    def backward(self, by_log_probabilities: Tensor, by_entropies: float, by_values: Tensor) -> None:
        """Write the gradient of every parameter, from the loss's derivatives by log-probabilities and values [M], and
        by the entropies, which are equal.
        """
        net, distribution, slope = self._net, self._distribution, by_log_probabilities.unsqueeze(-1)
        if isinstance(distribution, Choices):
            gradients = _by_scores(distribution, self._actions, slope, by_entropies)
        else:
            gradients, by_log_deviation = _by_normal(distribution, self._actions, slope, by_entropies)
            if net.spread:  # mean = 2 tanh, deviation = softplus
                _, raw = self._actor[-1].chunk(2, -1)
                gradients = gradients * (2 - 0.5 * distribution.mean.square())
                gradients = torch.cat([gradients, by_log_deviation / distribution.deviation * raw.sigmoid()], -1)
            else:
                assert net.log_deviation.grad is not None
                torch.sum(by_log_deviation, 0, out=net.log_deviation.grad)
        _backward(net.actor, self._actor, gradients)
        _backward(net.critic, self._critic, by_values.unsqueeze(-1))


def _by_scores(distribution: Choices, actions: Tensor, slope: Tensor, by_entropies: float) -> Tensor:
    """Return the loss's derivatives by the actor's outputs [M, choices]; `slope` [M, 1] are those by the
    log-probabilities of `actions`.
    """
    likely = distribution.scores.exp()
    found = (-slope * likely).scatter_add_(-1, actions.unsqueeze(-1), slope)
    if by_entropies:
        found -= by_entropies * likely * (distribution.scores + distribution.entropies().unsqueeze(-1))
    return found


def _by_normal(distribution: Vectors, actions: Tensor, slope: Tensor, by_entropies: float) -> tuple[Tensor, Tensor]:
    """Return the loss's derivatives by the mean and by the logarithm of the deviation [M, action]."""
    away = (actions - distribution.mean) / distribution.deviation
    return slope * away / distribution.deviation, slope * (away.square() - 1) + by_entropies


def _trace(net: nn.Sequential, inputs: Tensor) -> list[Tensor]:
    """Return the inputs [M, size] of each linear layer, and the outputs of the last one."""
    layers, found = list(net), [inputs]
    for linear in layers[:-1:2]:
        outputs = linear(found[-1])
        found.append(outputs.relu_() if isinstance(layers[1], nn.ReLU) else outputs.tanh_())
    return [*found, layers[-1](found[-1])]


def _backward(net: nn.Sequential, trace: Sequence[Tensor], gradients: Tensor) -> None:
    """Write every parameter's gradient into its `grad`, which must exist; `gradients` are the loss's derivatives by the
    outputs of the `trace` [M, outputs].
    """
    layers: list[Any] = list(net)
    for place in reversed(range(len(trace) - 1)):
        layer, inputs = layers[2 * place], trace[place]
        torch.mm(gradients.T, inputs, out=layer.weight.grad)
        torch.sum(gradients, 0, out=layer.bias.grad)
        if place:
            gradients = gradients @ layer.weight
            gradients *= inputs > 0 if isinstance(layers[1], nn.ReLU) else 1 - inputs.square()
