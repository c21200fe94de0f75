"""The server that applies every gradient at once, by one of three rules."""

import torch
from torch import Tensor

from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.runtime.transport.request_reply import Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.training.membership import Member
from engine.training.server import WeightServer
from engine.training.workload import Workload


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
            self.gradient[: self.parameters].div_(
                1 + staleness
            )  # not the learning rate, which would scale the momentum of other gradients too
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
