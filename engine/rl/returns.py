"""Discounted returns within an episode, and advantages estimated from values."""

import torch
from torch import Tensor


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
