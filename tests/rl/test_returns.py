"""Returns and advantages against a plain loop over one episode at a time."""

import torch
from torch import Tensor

from engine.rl.actor_critic import advantages_of, returns_of


def drawn(steps: int = 40, environments: int = 3) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(4)
    return torch.randn(steps, environments, generator=random), torch.rand(steps, environments, generator=random) < 0.15


def test_returns_stop_at_the_end_of_an_episode_and_never_mix_environments() -> None:
    rewards, ends = drawn()
    found = returns_of(rewards, ends, 0.9)
    for column in range(rewards.shape[1]):
        for step in range(len(rewards)):
            total, factor = 0.0, 1.0
            for later in range(step, len(rewards)):
                total += factor * float(rewards[later, column])
                factor *= 0.9
                if ends[later, column]:
                    break
            assert abs(total - float(found[step, column])) < 1e-5


def test_advantages_with_lambda_one_are_returns_less_values() -> None:
    rewards, ends = drawn()
    values = torch.randn(rewards.shape, generator=torch.Generator().manual_seed(5))
    after = torch.zeros_like(values)
    after[:-1] = values[1:]
    after[ends] = 0.0
    after[-1] = 0.0
    found = advantages_of(rewards, values, after, ends, 0.9, 1.0)
    assert torch.allclose(found, returns_of(rewards, ends, 0.9) - values, atol=1e-5)


def test_a_truncated_episode_counts_on_with_the_value_of_its_last_state() -> None:
    one = torch.ones(1, 1)
    advantages = advantages_of(one, 2 * one, 5 * one, torch.tensor([[True]]), 0.5, 0.95)
    assert float(advantages) == 1 + 0.5 * 5 - 2
