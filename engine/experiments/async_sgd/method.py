"""Asynchronous SGD: the server applies every gradient on arrival and answers with the current weights.

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient and push it without waiting for each
other. A gradient g was computed at the fetched weights x'; its staleness s counts the updates applied since then.

    plain               x <- x - learning_rate * g
    staleness_scaled    x <- x - learning_rate * (g / (1 + s))                         (Zhang et al. 2016)
    delay_compensated   x <- x - learning_rate * (g + lambda * g * g * (x - x'))       (Zheng et al. 2017, DC-ASGD)

each with the server's momentum, applied to the term that learning_rate multiplies. With a staleness_bound, a trainer
that many steps ahead of the slowest one waits for it (stale synchronous parallel, Ho et al. 2013). The trainers' loop
is `train` in engine/training/server_run.py.
"""

from typing import Any

import torch
from torch import Tensor

from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.server import TrainerState, WeightServer
from engine.training.server_run import run_with_server
from engine.training.workload import PartitionedData, Workload


def run(config: AsyncSgdConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have finished."""
    workload = PartitionedData.of(config)
    run_with_server(config, ranks, workload, _AsyncServer, tutorial_batch=1)


class _AsyncServer(WeightServer):
    """Applies each gradient under the lock, by the config's rule, and delays trainers that are too far ahead."""

    config: AsyncSgdConfig

    def __init__(self, rank: Rank, config: AsyncSgdConfig, workload: Workload) -> None:
        super().__init__(rank, config, workload)
        self.fetched: dict[int, Tensor] = {}
        """For delay compensation: the weights x' last sent to each trainer."""
        self.square = torch.zeros_like(self.gradient[: self.parameters]) if config.compensation_decay else None
        """For the adaptive form: the running mean of squared gradients."""
        self.held: list[tuple[TrainerState, int]] = []
        """Trainers waiting for an answer, and the staleness of their gradients."""
        self.furthest_ahead = 0

    def on_gradient(self, trainer: TrainerState, gradient: Tensor, staleness: int) -> None:
        self._update(trainer, gradient, staleness)
        self.staleness.append(staleness)
        self.held.append((trainer, staleness))
        self._reply_within_bound()

    def on_member_left(self) -> None:
        self._reply_within_bound()

    def _update(self, trainer: TrainerState, gradient: Tensor, staleness: int) -> None:
        """Make one step with the gradient, adjusted for staleness."""
        self.gradient.copy_(gradient)
        self.mix_statistics(self.gradient[self.parameters :], 1 / self.config.trainers)
        self.optimizer.learning_rate = self.learning_rate(1)
        if self.config.rule == "staleness_scaled":
            # not the learning rate, which would also scale the momentum of other gradients
            self.gradient[: self.parameters].div_(1 + staleness)
        elif self.config.rule == "delay_compensated":
            self._compensate(self.gradient[: self.parameters], self.fetched[trainer.index][: self.parameters])
        self.optimizer.step()
        self.version += 1

    def _compensate(self, gradient: Tensor, fetched: Tensor) -> None:
        """Add the first-order correction to the gradient: its square approximates the Hessian's diagonal."""
        correction = gradient.square().mul_(self.state[: self.parameters] - fetched).mul_(self.config.compensation)
        if self.square is not None:
            self.square.lerp_(gradient.square(), 1 - self.config.compensation_decay)
            correction.div_(self.square.add(1e-7).sqrt_())
        gradient.add_(correction)

    def checkpoint(self) -> dict[str, Any]:
        return super().checkpoint() | ({} if self.square is None else {"square": self.square.cpu().clone()})

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        if self.square is not None and "square" in saved:
            self.square.copy_(saved["square"])

    def _reply_within_bound(self) -> None:
        """Answer all trainers that are not too far ahead of the slowest active one."""
        slowest = min((member.step for member in self.active), default=0)
        held, self.held = self.held, []
        for trainer, staleness in held:
            ahead = trainer.step - slowest
            if self.config.staleness_bound is not None and ahead > self.config.staleness_bound and trainer.is_active:
                self.held.append((trainer, staleness))
                continue
            self.furthest_ahead = max(self.furthest_ahead, ahead)
            self.reply(trainer, staleness)

    def reply(self, member: TrainerState, staleness: int = 0, note: int = 0) -> None:
        super().reply(member, staleness, note)
        if self.config.rule == "delay_compensated":
            self.fetched.setdefault(member.index, torch.empty_like(self.state)).copy_(self.state)
