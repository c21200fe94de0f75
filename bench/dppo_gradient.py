"""What the learner's own gradient of its small nets brings to DPPO: env steps learned from per second, against the same
runs whose learner leaves the gradient to torch's autograd.

Run: python -m bench.dppo_gradient [--rounds 5]
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.measuring import alternate, ratio, save
from engine.experiments.dppo import method
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.ppo import PpoLearner
from engine.experiments.dppo.shared_state import SharedState
from engine.registry import experiment
from engine.rl.kinds import kind_of
from engine.runtime.worker.ranks import Rank, Ranks
from engine.runtime.worker.sink import MemorySink

SETTINGS: dict[str, Any] = {
    "total_steps": 40_000,
    "evaluate_every_s": 0,
    "render_every_s": 0,
    "stop_when_solved": False,
    "device": "cpu",
}
LAST = 20
"""Number of episodes whose mean reward is reported, the last ones of a run."""


class AutogradLearner(PpoLearner):
    """The learner with the same networks, loss and optimizer, whose gradient is computed by autograd."""

    def _step(self, states: Tensor, actions: Tensor, behaviour: Tensor, advantages: Tensor, returns: Tensor) -> Tensor:
        config, net = self.config, self.policy.net
        distribution, values = net._distribution(net.actor(states)), net.values(states)
        if config.normalize_advantages and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratios = (distribution.log_probabilities(actions) - behaviour).exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -torch.minimum(ratios * advantages, clipped * advantages).mean()
        value_loss = 0.5 * (values - returns).square().mean()
        entropy = distribution.entropies().mean()
        self.policy.gradient.zero_()
        (policy_loss + value_loss - config.entropy * entropy).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        share = 100.0 * (ratios != clipped).float().mean()
        return torch.stack([policy_loss.detach(), value_loss.detach(), entropy.detach(), share])


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    sides = {"own_gradient": method._run_rank, "autograd": run_rank_by_autograd}
    rewards: dict[str, list[float]] = {name: [] for name in sides}

    def rate(name: str) -> float:
        steps, reward = one_run(sides[name], seed=len(rewards[name]) + 1)
        rewards[name].append(reward)
        return steps

    rates = alternate(rounds, **{name: (lambda name=name: rate(name)) for name in sides})
    save(
        "dppo_gradient",
        {
            "rounds": rounds,
            "preset": "published",
            "settings": SETTINGS,
            "used_steps_per_second": rates,
            f"mean_reward_of_the_last_{LAST}_episodes": rewards,
            "own_gradient_over_autograd": ratio(rates["own_gradient"], rates["autograd"]),
        },
    )


def one_run(rank: Callable[[Rank, DppoConfig, SharedState], None], seed: int) -> tuple[float, float]:
    """Return the env steps learned from per second of a complete run, and the mean reward of its last episodes."""
    config = experiment("dppo").configure("published", SETTINGS | {"seed": seed})
    assert isinstance(config, DppoConfig)
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        sink = MemorySink()
        ranks = Ranks(config.roles, ("cpu",) * len(config.roles), 1, seed, Path(folder), sink)
        ranks.run(rank, config, SharedState.create(config, kind_of(config.environment)))
    speed = [point.value for point in sink.run_points if point.name == "perf/env_steps_per_second"][-1]
    used = speed * sink.values("perf/steps_used")[-1] / 100
    return used, statistics.fmean(sink.values("charts/episodic_return")[-LAST:])


def run_rank_by_autograd(rank: Rank, config: DppoConfig, shared: SharedState) -> None:
    """Run one rank of DPPO; the learner is the one with autograd."""
    method.PpoLearner = AutogradLearner  # type: ignore[misc]
    method._run_rank(rank, config, shared)


if __name__ == "__main__":
    main()
