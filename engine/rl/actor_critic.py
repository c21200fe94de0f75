"""Actor and critic for discrete and continuous actions, with all parameters in one flat vector, so that one copy
transfers a whole policy.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

from engine.rl.kinds import Kind

# ------------------------------------------------------------------------------------------------------------------
# Distributions of actions, from the actor's outputs, with the derivatives that the policy's gradient needs.

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

    def gradients(self, actions: Tensor, by_log_probabilities: Tensor, by_entropies: float) -> Tensor:
        """Return the loss's derivatives by the actor's outputs [M, choices], from those by the log-probabilities of
        `actions` [M], and by the entropies, which are equal.
        """
        likely, slope = self.scores.exp(), by_log_probabilities.unsqueeze(-1)
        found = (-slope * likely).scatter_add_(-1, actions.unsqueeze(-1), slope)
        if by_entropies:
            found -= by_entropies * likely * (self.scores + self.entropies().unsqueeze(-1))
        return found


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

    def gradients(self, actions: Tensor, by_log_probabilities: Tensor, by_entropies: float) -> tuple[Tensor, Tensor]:
        """Return the loss's derivatives by the mean and by the logarithm of the deviation [M, action]; arguments as in
        `Choices.gradients`.
        """
        away, slope = (actions - self.mean) / self.deviation, by_log_probabilities.unsqueeze(-1)
        return slope * away / self.deviation, slope * (away.square() - 1) + by_entropies


# ---- Actor critic --------------------------------------------------------------------------------------------------

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


# ------------------------------------------------------------------------------------------------------------------
# Dense layers with a backward pass of their own: in nets of a few thousand weights, autograd's bookkeeping takes
# more time than the arithmetic.


class Dense(nn.Sequential):
    """Linear layers of the given sizes with ReLU or tanh between them; orthogonal weights, zero biases."""

    def __init__(self, sizes: Sequence[int], activation: type[nn.ReLU] | type[nn.Tanh], last_gain: float) -> None:
        stack: list[nn.Module] = []
        for place, (inner, outer) in enumerate(pairwise(sizes), start=1):
            layer = nn.Linear(inner, outer)
            last = place == len(sizes) - 1
            nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2))
            nn.init.zeros_(layer.bias)
            stack += [layer] if last else [layer, activation()]
        super().__init__(*stack)
        self._linear = [layer for layer in stack if isinstance(layer, nn.Linear)]
        self._is_relu = activation is nn.ReLU

    @torch.no_grad()
    def trace(self, inputs: Tensor) -> list[Tensor]:
        """Return the inputs [M, size] of each linear layer, and the outputs of the last one."""
        found = [inputs]
        for layer in self._linear[:-1]:
            outputs = layer(found[-1])
            found.append(outputs.relu_() if self._is_relu else outputs.tanh_())
        return [*found, self._linear[-1](found[-1])]

    @torch.no_grad()
    def backward(self, trace: Sequence[Tensor], gradients: Tensor) -> None:
        """Write every parameter's gradient into its `grad`, which must exist; `gradients` are the loss's derivatives by
        the outputs of the `trace` [M, outputs].
        """
        for place in reversed(range(len(self._linear))):
            layer, inputs = self._linear[place], trace[place]
            assert layer.weight.grad is not None and layer.bias.grad is not None
            torch.mm(gradients.T, inputs, out=layer.weight.grad)
            torch.sum(gradients, 0, out=layer.bias.grad)
            if place:
                gradients = gradients @ layer.weight
                gradients *= inputs > 0 if self._is_relu else 1 - inputs.square()


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
