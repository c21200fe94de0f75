"""The learner: proximal policy optimization (Schulman et al. 2017) on one batch after another."""

import torch
from torch import Tensor

from engine.data.weights import FlatAdam, drawn_from
from engine.errors import RunFailed
from engine.experiments.dppo.board import (
    BATCHES,
    BORN,
    COLLECTED,
    GROWN,
    LENGTH,
    MIXED,
    SYNCS,
    THROWN,
    USED,
    VERSION,
    Batch,
    Board,
    Weights,
)
from engine.experiments.dppo.collector import Player
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.modes import MODES, Locks
from engine.recorder import Recorder
from engine.rl.kinds import Kind
from engine.rl.returns import advantages_of
from engine.seeding import ORDER, WEIGHTS, seed_of

LARGEST = 0.5
"""The longest that a gradient of actor or critic may be; a longer one is cut."""


class Learner:
    """Policy, value function and their optimizers."""

    def __init__(self, board: Board, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder) -> None:
        self.board = board
        self.config = config
        self.record = record
        self.mode = MODES[config.mode](board, config, locks, record)
        self.weights = Weights(board, locks)
        with drawn_from(seed_of(config.seed, WEIGHTS)):
            first = Player(config, kind).state
        self._order = torch.Generator().manual_seed(seed_of(config.seed, ORDER))
        board.weights[0].copy_(first)
        self.player = Player(config, kind, board.weights[0] if board.live else first)
        policy = self.player.policy
        critic = sum(parameter.numel() for parameter in policy.critic.parameters())
        parts = (
            slice(0, len(self.player.weights) - critic),
            slice(len(self.player.weights) - critic, len(self.player.weights)),
        )
        self.rates = (config.learning_rate, config.critic_learning_rate or config.learning_rate)
        self.gradients = [self.player.gradient[part] for part in parts]
        self.optimizers = [
            FlatAdam(self.player.weights[part], self.player.gradient[part], rate, epsilon=1e-5)
            for part, rate in zip(parts, self.rates, strict=True)
        ]
        self.updates = 0

    def learn(self) -> None:
        """Learn from every batch that the mode hands over, until the run is over."""
        counts = self.board.counts
        for slot in self.mode.updates():
            about = self.board.about[slot].tolist()
            batch = self.board.batch(slot, about[LENGTH])
            age = int(counts[VERSION]) - about[BORN]
            counts[MIXED] += about[GROWN] != about[BORN]
            with self.record.phase("update"):
                values = self._update(batch)
            counts[USED] += batch.rewards.numel()
            counts[BATCHES] += 1
            self.updates += 1
            self.weights.publish(self.player.state)
            self._log(values | {"perf/policy_age": float(age)})

    def _log(self, values: dict[str, float]) -> None:
        counts = self.board.counts.tolist()
        collected = max(1, counts[COLLECTED])
        values |= {
            "perf/steps_used": 100 * counts[USED] / (counts[USED] + counts[THROWN]),
            "perf/synchronizations": 1000 * counts[SYNCS] / collected,
        }
        if self.board.live:
            values["perf/mixed_rollouts"] = 100 * counts[MIXED] / max(1, counts[BATCHES])
        self.record.log(values, step=self.updates)

    def _update(self, batch: Batch) -> dict[str, float]:
        """Go through the batch as the config says; return what is recorded of the update."""
        config, policy = self.config, self.player.policy
        left = 1 - self.mode.progress() if config.schedule == "linear" else 1.0
        for optimizer, rate in zip(self.optimizers, self.rates, strict=True):
            optimizer.learning_rate = rate * left
        advantages = advantages_of(
            batch.rewards, batch.values, batch.after, batch.ends, config.gamma, config.gae_lambda
        )
        returns = (advantages + batch.values).flatten()
        advantages, behaviour = advantages.flatten(), batch.log_probabilities.flatten()
        states, actions = batch.states.flatten(0, 1), batch.actions.flatten(0, 1)
        if config.normalize_observations:
            self.player.normalizer.add(batch.raw.flatten(0, 1))
        with torch.no_grad():
            ratio = policy.judge(states, actions).log_probabilities - behaviour
            kl = float((ratio.exp() - 1 - ratio).mean())  # Schulman's estimate: never below 0
        total, size = len(advantages), -(-len(advantages) // config.minibatches)
        parts = [
            part
            for _ in range(config.epochs)
            for part in torch.split(torch.randperm(total, generator=self._order), size)
        ]
        losses = [
            self._step(states[part], actions[part], behaviour[part], advantages[part], returns[part]) for part in parts
        ]
        means = torch.stack(losses).mean(0).tolist()
        if not all(map(torch.isfinite, losses[-1])):
            raise RunFailed(
                f"learner's losses became {', '.join(f'{value:g}' for value in losses[-1].tolist())} in update "
                f"{self.updates + 1}. "
                f"Lower learning_rate ({config.learning_rate}), or scale rewards down with reward_scale "
                f"({config.reward_scale})."
            )
        return dict(
            zip(("train/policy_loss", "train/value_loss", "train/entropy", "train/clipped"), means, strict=True)
        ) | {"train/kl": kl}

    def _step(self, states: Tensor, actions: Tensor, behaviour: Tensor, advantages: Tensor, returns: Tensor) -> Tensor:
        """Make one step of Adam; return policy loss, value loss, entropy and the percentage of clipped ratios."""
        config = self.config
        judged = self.player.policy.judge(states, actions)
        if config.normalize_advantages and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratios = (judged.log_probabilities - behaviour).exp()
        cut = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -torch.minimum(ratios * advantages, cut * advantages).mean()
        value_loss = 0.5 * (judged.values - returns).square().mean()
        entropy = judged.entropies.mean()
        self.player.gradient.zero_()
        (policy_loss + value_loss - config.entropy * entropy).backward()  # type: ignore[no-untyped-call]
        for gradient, optimizer in zip(self.gradients, self.optimizers, strict=True):
            gradient.mul_(torch.clamp(LARGEST / (gradient.norm() + 1e-6), max=1.0))
            optimizer.step()
        clipped = 100.0 * (ratios != cut).float().mean()
        return torch.stack([policy_loss.detach(), value_loss.detach(), entropy.detach(), clipped])
