"""Actor and critic for discrete and continuous actions, with all parameters in one flat vector, so that one copy
transfers a whole policy.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from engine.rl.dense import Dense
from engine.rl.distributions import Choices, Vectors
from engine.rl.kinds import Kind

Network = Literal["two_layers", "published"]
CLIP = 10.0
"""Normalized observations are clipped to this many standard deviations."""


class Judged(NamedTuple):
    """The networks' outputs for states and for the actions taken in them."""

    log_probabilities: Tensor
    entropies: Tensor
    values: Tensor


class Trace(NamedTuple):
    """What a backward pass needs of a forward pass: the layers' inputs and outputs, and the actions' distribution."""

    actor: list[Tensor]
    critic: list[Tensor]
    distribution: Choices | Vectors


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
        published = network == "published"
        actor, critic = ([200], [100]) if published else ([64, 64], [64, 64])
        activation = nn.ReLU if published else nn.Tanh
        self.actor = Dense([kind.observation, *actor, outputs], activation, 0.01)
        self.critic = Dense([kind.observation, *critic, 1], activation, 1.0)
        self.log_deviation = nn.Parameter(torch.zeros(0 if kind.choices or self.spread else len(kind.low)))

    def values(self, states: Tensor) -> Tensor:
        """Return V(s), [M]."""
        found: Tensor = self.critic(states).squeeze(-1)
        return found

    def _distribution(self, outputs: Tensor) -> Choices | Vectors:
        """Return the distribution of actions by the actor's outputs [M, outputs]."""
        if self.choices:
            return Choices(outputs)
        if not self.spread:
            return Vectors(outputs, self.log_deviation.exp().expand_as(outputs))
        mean, deviation = outputs.chunk(2, -1)
        return Vectors(2 * mean.tanh(), softplus(deviation) + 1e-4)

    def act(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Sample actions for states [M, observation]; return them and their log-probabilities [M]."""
        distribution = self._distribution(self.actor(states))
        drawn = distribution.sample()
        return drawn, distribution.log_probabilities(drawn)

    def best(self, states: Tensor) -> Tensor:
        """Return the most likely actions."""
        distribution = self._distribution(self.actor(states))
        return distribution.scores.argmax(-1) if isinstance(distribution, Choices) else distribution.mean

    @torch.no_grad()
    def evaluate_actions(self, states: Tensor, actions: Tensor) -> tuple[Judged, Trace]:
        """Return log-probabilities, entropies and values, [M] each, and what `backward` needs of them."""
        actor, critic = self.actor.trace(states), self.critic.trace(states)
        distribution = self._distribution(actor[-1])
        judged = Judged(distribution.log_probabilities(actions), distribution.entropies(), critic[-1].squeeze(-1))
        return judged, Trace(actor, critic, distribution)

    @torch.no_grad()
    def backward(
        self, trace: Trace, actions: Tensor, by_log_probabilities: Tensor, by_entropies: float, by_values: Tensor
    ) -> None:
        """Write the gradient of every parameter, from the loss's derivatives by what `judge` returned: by
        log-probabilities and values [M], and by the entropies, which are equal.
        """
        distribution = trace.distribution
        if isinstance(distribution, Choices):
            gradients = distribution.gradients(actions, by_log_probabilities, by_entropies)
        else:
            by_mean, by_log_deviation = distribution.gradients(actions, by_log_probabilities, by_entropies)
            if self.spread:  # mean = 2 tanh, deviation = softplus
                _, raw = trace.actor[-1].chunk(2, -1)
                by_outputs = by_mean * (2 - 0.5 * distribution.mean.square())
                gradients = torch.cat([by_outputs, by_log_deviation / distribution.deviation * raw.sigmoid()], -1)
            else:
                assert self.log_deviation.grad is not None
                torch.sum(by_log_deviation, 0, out=self.log_deviation.grad)
                gradients = by_mean
        self.actor.backward(trace.actor, gradients)
        self.critic.backward(trace.critic, by_values.unsqueeze(-1))


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
