"""The server that updates once for a batch of gradients."""

from torch import Tensor

from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.runtime.transport.request_reply import Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.training.membership import Member
from engine.training.server import WeightServer
from engine.training.workload import Workload


class BatchServer(WeightServer):
    """Sums gradients under the lock; the one that completes a batch makes the update and answers everyone in it."""

    config: ParameterServerConfig

    def __init__(self, rank: Rank, config: ParameterServerConfig, workload: Workload) -> None:
        super().__init__(rank, config, workload)
        self.batch: list[tuple[Member, int]] = []
        """Whose gradients are in the sum, and how stale each is."""
        self.dropped = 0

    def push(self, member: Member, request: Request, vector: Tensor, respond: Respond) -> None:
        staleness = self.version - request.version
        if staleness and self.config.late == "drop":
            self.dropped += 1
            self.send(member, respond, staleness)
            return
        self.gradient.add_(vector)
        self.batch.append((member, staleness))
        member.respond = respond
        self.shrunk()

    def shrunk(self) -> None:
        """Update where the batch is complete: it never waits for more trainers than there are."""
        if self.batch and len(self.batch) >= min(self.config.batch_update_size, len(self.active)):
            self._update()

    def _update(self) -> None:
        self.gradient.div_(len(self.batch))
        self.mix_statistics(self.gradient[self.parameters :], len(self.batch) / self.config.trainers)
        self.optimizer.learning_rate = self.learning_rate()
        self.optimizer.step()
        self.version += 1
        for member, staleness in self.batch:
            self.staleness.append(staleness)
            assert member.respond is not None
            self.send(member, member.respond, staleness)
        self.gradient.zero_()
        self.batch.clear()
