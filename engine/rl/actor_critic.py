"""Actor and critic for discrete and continuous actions, with all parameters in one flat vector, so that one copy
transfers a whole policy.
"""

import math
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from engine.rl.kinds import Kind

Network = Literal["two_layers", "published"]
CLIP = 10.0
"""Normalized observations are clipped to this many standard deviations."""


class Judged(NamedTuple):
    """The networks' outputs for states and for the actions taken in them."""

    log_probabilities: Tensor
    entropies: Tensor
    values: Tensor


def _layers(sizes: list[int], activation: type[nn.Module], last_gain: float) -> nn.Sequential:
    """Return linear layers with an activation between them, orthogonal weights and zero biases."""
    stack: list[nn.Module] = []
    for place, (inner, outer) in enumerate(pairwise(sizes), start=1):
        layer = nn.Linear(inner, outer)
        last = place == len(sizes) - 1
        nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2))
        nn.init.zeros_(layer.bias)
        stack += [layer] if last else [layer, activation()]
    return nn.Sequential(*stack)


class ActorCritic(nn.Module):
    """pi(a|s) and V(s). Actions are int64 [M] where the environment has choices, float32 [M, action] where it takes
    vectors.

    `two_layers`: 64 and 64 tanh each; vectors have a deviation of their own that depends on no state.
    `published`: actor 200 ReLU, critic 100 ReLU; vectors have mean 2 tanh and a softplus deviation (the reader-writer
    code's networks).
    """

    def __init__(self, kind: Kind, network: Network) -> None:
        super().__init__()
        self.choices = kind.choices
        self.spread = network == "published" and not kind.choices
        """Whether the deviation depends on the state."""
        outputs = kind.choices or len(kind.low) * (2 if self.spread else 1)
        actor, critic, activation = ([200], [100], nn.ReLU) if network == "published" else ([64, 64], [64, 64], nn.Tanh)
        self.actor = _layers([kind.observation, *actor, outputs], activation, 0.01)
        self.critic = _layers([kind.observation, *critic, 1], activation, 1.0)
        self.log_deviation = nn.Parameter(torch.zeros(0 if kind.choices or self.spread else len(kind.low)))

    def values(self, states: Tensor) -> Tensor:
        """Return V(s), [M]."""
        found: Tensor = self.critic(states).squeeze(-1)
        return found

    def _vectors(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and standard deviation of action vectors, [M, action] each."""
        out = self.actor(states)
        if not self.spread:
            return out, self.log_deviation.exp().expand_as(out)
        mean, deviation = out.chunk(2, -1)
        return 2 * mean.tanh(), softplus(deviation) + 1e-4

    def act(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Sample actions for states [M, observation]; return them and their log-probabilities [M]."""
        if self.choices:
            scores = log_softmax(self.actor(states), -1)
            actions = (scores - torch.empty_like(scores).exponential_().log_()).argmax(-1)
            return actions, scores.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        mean, deviation = self._vectors(states)
        drawn = mean + deviation * torch.randn_like(mean)
        return drawn, _normal(drawn, mean, deviation)

    def best(self, states: Tensor) -> Tensor:
        """Return the most likely actions."""
        found: Tensor = self.actor(states).argmax(-1) if self.choices else self._vectors(states)[0]
        return found

    def judge(self, states: Tensor, actions: Tensor) -> Judged:
        """Return log-probabilities, entropies and values, [M] each."""
        if self.choices:
            scores = log_softmax(self.actor(states), -1)
            chosen = scores.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
            return Judged(chosen, -(scores.exp() * scores).sum(-1), self.values(states))
        mean, deviation = self._vectors(states)
        entropies = (0.5 + 0.5 * math.log(2 * math.pi) + deviation.log()).sum(-1)
        return Judged(_normal(actions, mean, deviation), entropies, self.values(states))


def _normal(drawn: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return (-0.5 * ((drawn - mean) / deviation).square() - deviation.log() - 0.5 * math.log(2 * math.pi)).sum(-1)


class Normalizer:
    """Running mean and standard deviation of all observations, stored in a vector [2 * observation + 1] that others may
    copy.
    """

    def __init__(self, numbers: Tensor) -> None:
        size = (len(numbers) - 1) // 2
        self.mean, self.variance, self.count = numbers[:size], numbers[size : 2 * size], numbers[2 * size :]

    @staticmethod
    def size(observation: int) -> int:
        """Return the size of that vector."""
        return 2 * observation + 1

    def reset(self) -> None:
        """Reset to mean 0, deviation 1 and no observations."""
        self.mean.zero_()
        self.variance.fill_(1.0)
        self.count.zero_()

    def add(self, observations: Tensor) -> None:
        """Update the statistics with observations [M, observation] (parallel update of Chan, Golub and LeVeque)."""
        count, mean, variance = float(len(observations)), observations.mean(0), observations.var(0, correction=0)
        before = float(self.count)
        total, shift = before + count, mean - self.mean
        self.variance.copy_(
            (self.variance * before + variance * count + shift.square() * before * count / total) / total
        )
        self.mean.add_(shift * (count / total))
        self.count.fill_(total)

    def __call__(self, observations: Tensor) -> Tensor:
        """Return observations with mean 0 and deviation 1, clipped at `CLIP`."""
        return ((observations - self.mean) / (self.variance + 1e-8).sqrt()).clamp_(-CLIP, CLIP)
