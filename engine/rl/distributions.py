"""Distributions of actions, from the actor's outputs, with the derivatives that the policy's gradient needs."""

import math

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

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
