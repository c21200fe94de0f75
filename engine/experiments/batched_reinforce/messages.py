"""The messages between observers and agent, the agent's memory of a round, and its policy."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.rl.kinds import Kind

REWARD, END = -2, -1
"""Column indices in a row of a message."""
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class MessageLayout:
    """A message has one row per environment of an observer, [observation | previous reward | episode end]; its answer
    starts with the actions.
    """

    environments: int
    observation: int

    @classmethod
    def of(cls, config: BatchedReinforceConfig, kind: Kind) -> "MessageLayout":
        """Return the message layout of a run."""
        return cls(config.envs_per_observer, kind.observation)

    @property
    def shape(self) -> tuple[int, int]:
        return self.environments, self.observation + 2

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def columns(self, first: int, end: int) -> slice:
        """Return the index range of the environments of observers `first` to `end` - 1."""
        return slice(first * self.environments, end * self.environments)


class RoundMemory:
    """One round: observations, actions and rewards of all M environments in T steps. `ends` marks steps that ended a
    sub-episode.
    """

    def __init__(self, steps: int, environments: int, observation: int, device: torch.device) -> None:
        self.states = torch.zeros(steps, environments, observation)
        self.masks = torch.zeros(steps, environments, HIDDEN, dtype=torch.bool, device=device)
        self.actions = torch.zeros(steps, environments, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(steps, environments)
        self.ends = torch.zeros(steps, environments, dtype=torch.bool)

    def remember(self, step: int, columns: slice, rows: Rows) -> None:
        """Store states of this step, and rewards and ends of the previous step, from messages one below the other."""
        if step > 0:
            self.rewards.numpy()[step - 1, columns] = rows[:, REWARD]
            self.ends.numpy()[step - 1, columns] = rows[:, END] > 0
        if step < len(self.states):
            self.states.numpy()[step, columns] = rows[:, :REWARD]

    def first_lengths(self) -> Tensor:
        """Return the length of each environment's first sub-episode in this round, [M]; the whole round if none
        ended.
        """
        ended = self.ends.int().argmax(0) + 1
        return torch.where(self.ends.any(0), ended, len(self.ends)).float()


# ---- The published policy: one hidden layer with dropout, and a softmax over the actions ---------------------------

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
