"""A parameter server that collects gradients and updates once for a batch of them (PyTorch's tutorial on batch RPC processing).

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient on a mini-batch of their own and push it.

    on a push of gradient g:   sum <- sum + g
    when batch_update_size gradients are in:   x <- SGD(x, sum / batch_update_size), and all who wait get the new x

With batch_update_size = N this is synchronous SGD; below it, K-sync: a late gradient counts in the next batch, or is dropped
(Chen et al. 2016, "Revisiting distributed synchronous SGD").
"""

from torch import Tensor

from engine.data.datasets import load
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.runtime.exchange import Exchange, Request, Respond
from engine.runtime.ranks import Rank, Ranks
from engine.training.learner import flat_state
from engine.training.server import Member, WeightServer
from engine.training.serving import Serving, train
from engine.training.workload import Digits, RandomImages, Workload


def run(config: ParameterServerConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have ended."""
    workload = _workload(config)
    if config.variant == "tutorial":
        from engine.training import tutorial_server  # it alone needs torchvision's transforms

        tutorial_server.run(config, ranks, workload, config.batch_update_size)
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


def _workload(config: ParameterServerConfig) -> Workload:
    if config.model == "mnist_net":
        return Digits(load(config.dataset), config.trainers, config.batch_size, config.epochs)
    return RandomImages(config.model, config.trainers, config.batch_size, config.iterations)


def _take_part(rank: Rank, config: ParameterServerConfig, exchange: Exchange, workload: Workload) -> None:
    if rank.index == exchange.server:
        Serving(rank, config, BatchServer(rank, config, workload.to(rank.device))).until_all_left(exchange)
    else:
        train(rank, config, exchange, workload)


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
