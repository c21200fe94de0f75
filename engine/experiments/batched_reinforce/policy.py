"""The published policy: one hidden layer with dropout, and a softmax over the actions."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

HIDDEN = 128


class Policy(nn.Module):
    """observation -> 128, dropout, ReLU, 128 -> choices.

    The caller passes dropout's masks and keeps them, so that the gradient is later computed for the same masked net
    that acted.
    """

    def __init__(self, observation: int, choices: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(observation, HIDDEN)
        self.out = nn.Linear(HIDDEN, choices)
        self.keep = 1.0 - dropout

    def draw_masks(self, count: int) -> Tensor:
        """Return masks for `count` states, bool [count, 128]: True for units kept."""
        return torch.rand(count, HIDDEN, device=self.hidden.weight.device) < self.keep

    def log_probabilities(self, states: Tensor, masks: Tensor) -> Tensor:
        """Return the log-probability of every action, [..., choices], for states [..., observation] with masks [...,
        128].
        """
        hidden = (self.hidden(states) * masks / self.keep).relu()
        return log_softmax(self.out(hidden), dim=-1)

    @torch.inference_mode()
    def act(self, states: Tensor, masks: Tensor) -> Tensor:
        """Sample actions for states [count, observation]; return int64 [count]."""
        hidden = (linear(states, self.hidden.weight, self.hidden.bias) * masks).mul_(1 / self.keep).relu_()
        scores = linear(hidden, self.out.weight, self.out.bias)
        noise = (
            torch.empty_like(scores).exponential_().log_()
        )  # Gumbel-max: the largest of score - log(exponential) has softmax's probabilities
        return (scores - noise).argmax(1)
