"""Actor and critic for discrete and continuous actions, with all parameters in one flat vector, so that one copy
transfers a whole policy.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from engine.rl.kinds import Kind

# ------------------------------------------------------------------------------------------------------------------
# Distributions of actions, from the actor's outputs.

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Choices:
    """A categorical distribution per state; actions are int64 [M]."""

    def __init__(self, outputs: Tensor) -> None:
        self.scores = log_softmax(outputs, -1)
        """Log-probability of each choice [M, choices]."""

    def sample(self) -> Tensor:
        """Draw actions."""
        return (self.scores - torch.empty_like(self.scores).exponential_().log_()).argmax(-1)

    def log_probabilities(self, actions: Tensor) -> Tensor:
        """Return the log-probabilities of actions [M]."""
        return self.scores.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropies(self) -> Tensor:
        """Return the entropy per state [M]."""
        return -(self.scores.exp() * self.scores).sum(-1)


class Vectors:
    """A normal distribution per state with independent parts; actions are float32 [M, action]."""

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        self.mean, self.deviation = mean, deviation
        self._log_deviation = deviation.log()

    def sample(self) -> Tensor:
        """Draw actions."""
        return self.mean + self.deviation * torch.randn_like(self.mean)

    def log_probabilities(self, actions: Tensor) -> Tensor:
        """Return the log-probabilities of actions [M]."""
        away = (actions - self.mean) / self.deviation
        return (-0.5 * away.square() - self._log_deviation - _HALF_LOG_TWO_PI).sum(-1)

    def entropies(self) -> Tensor:
        """Return the entropy per state [M]."""
        return (0.5 + _HALF_LOG_TWO_PI + self._log_deviation).sum(-1)


# ---- Actor critic --------------------------------------------------------------------------------------------------

Network = Literal["two_layers", "published"]
CLIP = 10.0
"""Normalized observations are clipped to this many standard deviations."""


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
        self.actor = dense([kind.observation, *actor, outputs], activation, 0.01)
        self.critic = dense([kind.observation, *critic, 1], activation, 1.0)
        self.log_deviation = nn.Parameter(torch.zeros(0 if kind.choices or self.spread else len(kind.low)))

    def values(self, states: Tensor) -> Tensor:
        """Return V(s), [M]."""
        found: Tensor = self.critic(states).squeeze(-1)
        return found

    def distribution(self, outputs: Tensor) -> Choices | Vectors:
        """Return the distribution of actions by the actor's outputs [M, outputs]."""
        if self.choices:
            return Choices(outputs)
        if not self.spread:
            return Vectors(outputs, self.log_deviation.exp().expand_as(outputs))
        mean, deviation = outputs.chunk(2, -1)
        return Vectors(2 * mean.tanh(), softplus(deviation) + 1e-4)

    def act(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Sample actions for states [M, observation]; return them and their log-probabilities [M]."""
        distribution = self.distribution(self.actor(states))
        drawn = distribution.sample()
        return drawn, distribution.log_probabilities(drawn)

    def best(self, states: Tensor) -> Tensor:
        """Return the most likely actions."""
        distribution = self.distribution(self.actor(states))
        return distribution.scores.argmax(-1) if isinstance(distribution, Choices) else distribution.mean


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


def dense(sizes: Sequence[int], activation: type[nn.ReLU] | type[nn.Tanh], last_gain: float) -> nn.Sequential:
    """Return linear layers of the given sizes with ReLU or tanh between them; orthogonal weights, zero biases."""
    stack: list[nn.Module] = []
    for place, (inner, outer) in enumerate(pairwise(sizes), start=1):
        layer = nn.Linear(inner, outer)
        last = place == len(sizes) - 1
        nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2))
        nn.init.zeros_(layer.bias)
        stack += [layer] if last else [layer, activation()]
    return nn.Sequential(*stack)


# ---- Discounted returns within an episode, and advantages estimated from values ------------------------------------


def returns_of(rewards: Tensor, ends: Tensor, gamma: float = 1.0) -> Tensor:
    """Return for each step the discounted sum of the rewards from it to the end of its episode, [T, M].

    `rewards` [T, M] of M environments side by side; `ends` bool [T, M] where an episode ended with that step. What
    follows the last row is not known and counts as 0.
    """
    found = torch.empty_like(rewards)
    later = torch.zeros_like(rewards[0])
    for step in range(len(rewards) - 1, -1, -1):
        later = rewards[step] + gamma * later.masked_fill(ends[step], 0.0)
        found[step] = later
    return found


def advantages_of(rewards: Tensor, values: Tensor, after: Tensor, ends: Tensor, gamma: float, lambda_: float) -> Tensor:
    """Return generalized advantage estimates [T, M] (Schulman et al. 2016).

    `values` [T, M] are those of the states acted in, `after` [T, M] those of the states that came next: 0 where the
    episode terminated, the value of its last observation where it was truncated. `ends` bool [T, M] says where either
    happened.
    """
    found = torch.empty_like(rewards)
    later = torch.zeros_like(rewards[0])
    for step in range(len(rewards) - 1, -1, -1):
        error = rewards[step] + gamma * after[step] - values[step]
        later = error + gamma * lambda_ * later.masked_fill(ends[step], 0.0)
        found[step] = later
    return found


def vtrace(
    rewards: Tensor, values: Tensor, after: Tensor, ends: Tensor, gamma: float, lambda_: float, rho: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the advantages of the actions and the targets of the value function by V-trace, [T, M] each (Espeholt et
    al. 2018), for steps that another policy played.

    `rho` and `c` [T, M] are the truncated importance weights of the steps; the rest is as in `advantages_of`, to which
    weights of 1 lead. `lambda_` discounts c (remark 2 of the paper), and the advantage of a step accordingly.
    """
    advantages, targets = torch.empty_like(rewards), torch.empty_like(rewards)
    later = torch.zeros_like(rewards[0])
    for step in range(len(rewards) - 1, -1, -1):
        error = rewards[step] + gamma * after[step] - values[step]
        later = gamma * lambda_ * later.masked_fill(ends[step], 0.0)
        advantages[step] = rho[step] * (error + later)
        later = rho[step] * error + c[step] * later
        targets[step] = values[step] + later
    return advantages, targets
