"""Asynchronous SGD: the server applies every gradient at once, and answers with the weights as they are then.

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient and push it, never waiting for each other.
A gradient g was computed at the weights x' that were fetched; s updates have been applied since: its staleness.

    plain               x <- x - learning_rate * g
    staleness_scaled    x <- x - learning_rate / (1 + s) * g                           (Zhang et al. 2016)
    delay_compensated   x <- x - learning_rate * (g + lambda * g * g * (x - x'))       (Zheng et al. 2017, DC-ASGD)

each with the server's momentum. With a staleness_bound, a trainer that is that many steps ahead of the slowest one waits for it
(stale synchronous parallel, Ho et al. 2013).
"""

import torch
from torch import Tensor

from engine.data.datasets import load
from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.runtime.exchange import Exchange, Request, Respond
from engine.runtime.ranks import Rank, Ranks
from engine.training.learner import flat_state
from engine.training.server import Member, WeightServer
from engine.training.serving import Serving, train
from engine.training.workload import Digits, Workload


def run(config: AsyncSgdConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have ended."""
    workload = Digits(load(config.dataset), config.trainers, config.batch_size, config.epochs)
    if config.variant == "tutorial":
        from engine.training import tutorial_server  # it alone needs torchvision's transforms

        tutorial_server.run(config, ranks, workload, batch=1)
        return
    exchange = Exchange.create(
        config.transport,
        len(flat_state(workload.net(config.seed))),
        server=0,
        server_role="ps",
        clients=tuple(range(1, config.trainers + 1)),
        timeout_s=config.timeout_s,
        wire=config.wire,
        server_device=ranks.devices[0],
    )
    ranks.run(_take_part, config, exchange, workload, expendable=config.expendable)


def _take_part(rank: Rank, config: AsyncSgdConfig, exchange: Exchange, workload: Workload) -> None:
    if rank.index == exchange.server:
        Serving(rank, config, AsyncServer(rank, config, workload.to(rank.device))).until_all_left(exchange)
    else:
        train(rank, config, exchange, workload)


class AsyncServer(WeightServer):
    """Applies each gradient under the lock, by the config's rule, and holds back who is too far ahead."""

    config: AsyncSgdConfig

    def __init__(self, rank: Rank, config: AsyncSgdConfig, workload: Workload) -> None:
        super().__init__(rank, config, workload)
        self.fetched: dict[int, Tensor] = {}
        """For delay compensation: the weights that each trainer was last sent."""
        self.square = torch.zeros_like(self.gradient[: self.parameters]) if config.compensation_decay else None
        """For the adaptive form: the running mean of squared gradients."""
        self.held: list[tuple[Member, int]] = []
        self.furthest_ahead = 0

    def push(self, member: Member, request: Request, vector: Tensor, respond: Respond) -> None:
        staleness = self.version - request.version
        self._apply(member, vector, staleness)
        self.staleness.append(staleness)
        member.respond = respond
        self.held.append((member, staleness))
        self.shrunk()

    def shrunk(self) -> None:
        """Answer all who are not too far ahead of the slowest trainer that is here."""
        slowest = min((member.step for member in self.active), default=0)
        held, self.held = self.held, []
        for member, staleness in held:
            ahead = member.step - slowest
            if self.config.staleness_bound is not None and ahead > self.config.staleness_bound and member.here:
                self.held.append((member, staleness))
                continue
            self.furthest_ahead = max(self.furthest_ahead, ahead)
            assert member.respond is not None
            self.send(member, member.respond, staleness)

    def send(self, member: Member, respond: Respond, staleness: int = 0, note: int = 0) -> None:
        super().send(member, respond, staleness, note)
        if self.config.rule == "delay_compensated":
            self.fetched.setdefault(member.index, torch.empty_like(self.state)).copy_(self.state)

    def _apply(self, member: Member, vector: Tensor, staleness: int) -> None:
        self.gradient.copy_(vector)
        self.mix_statistics(self.gradient[self.parameters :], 1 / self.config.trainers)
        self.optimizer.learning_rate = self.learning_rate()
        if self.config.rule == "staleness_scaled":
            self.optimizer.learning_rate /= 1 + staleness
        elif self.config.rule == "delay_compensated":
            self._compensate(self.gradient[: self.parameters], self.fetched[member.index][: self.parameters])
        self.optimizer.step()
        self.version += 1

    def _compensate(self, gradient: Tensor, fetched: Tensor) -> None:
        """Add what the gradient lacks to first order: its square stands in for the Hessian's diagonal."""
        correction = gradient.square().mul_(self.state[: self.parameters] - fetched).mul_(self.config.compensation)
        if self.square is not None:
            self.square.lerp_(gradient.square(), 1 - self.config.compensation_decay)
            correction.div_(self.square.add(1e-7).sqrt_())
        gradient.add_(correction)
