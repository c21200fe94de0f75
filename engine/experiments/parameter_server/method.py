"""A parameter server that collects gradients and updates once for a batch of them (PyTorch's tutorial on batch RPC
processing).

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient on their own mini-batch and push it.

    on a push of gradient g:   sum <- sum + g
    when batch_update_size gradients are in:   x <- SGD(x, sum / batch_update_size), answer all with the new x

With batch_update_size = N this is synchronous SGD; below it, K-sync: a late gradient counts in the next batch, or is
dropped (Chen et al. 2016, "Revisiting distributed synchronous SGD"). The trainers' loop is `train` in
engine/training/server_run.py.
"""

from typing import Any

from torch import Tensor

from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.server import TrainerState, WeightServer
from engine.training.server_run import run_with_server
from engine.training.workload import PartitionedData, RandomImages, Workload


def run(config: ParameterServerConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have finished."""
    workload: Workload
    match config.model:
        case "resnet50" | "small_resnet" as name:
            workload = RandomImages(name, config.trainers, config.batch_size, config.iterations)
        case _:
            workload = PartitionedData.of(config)
    run_with_server(config, ranks, workload, _BatchServer, tutorial_batch=config.batch_update_size)


class _BatchServer(WeightServer):
    """Sums gradients under the lock; the one that completes a batch triggers the update and answers everyone in it."""

    config: ParameterServerConfig

    def __init__(self, rank: Rank, config: ParameterServerConfig, workload: Workload) -> None:
        super().__init__(rank, config, workload)
        self.batch: list[tuple[TrainerState, int]] = []
        """Contributors to the sum `self.gradient`, and the staleness of each."""
        self.dropped = 0 if config.late == "drop" else None

    def on_gradient(self, trainer: TrainerState, gradient: Tensor, staleness: int) -> None:
        if staleness and self.dropped is not None:
            self.dropped += 1
            self.reply(trainer, staleness)
            return
        self.gradient.add_(gradient)
        self.batch.append((trainer, staleness))
        self._update_if_complete()

    def on_member_left(self) -> None:
        self._update_if_complete()

    def checkpoint(self) -> dict[str, Any]:
        """Leave out the gradients of an incomplete batch: their trainers compute them again."""
        pending = [trainer for trainer, _ in self.batch]
        saved = super().checkpoint()
        steps = [member.step - (member in pending) for member in self.members.values()]
        return saved | {"steps": steps, "samples": self.samples - sum(trainer.samples for trainer in pending)}

    def _update_if_complete(self) -> None:
        """Update if the batch is complete; it never waits for more trainers than there are."""
        if self.batch and len(self.batch) >= min(self.config.batch_update_size, len(self.active)):
            self._update()

    def _update(self) -> None:
        """Step with the mean of the batch's gradients, and send the new weights to all contributors."""
        self.gradient.div_(len(self.batch))
        self.mix_statistics(self.gradient[self.parameters :], len(self.batch) / self.config.trainers)
        self.optimizer.learning_rate = self.learning_rate(len(self.batch))
        self.optimizer.step()
        self.version += 1
        for trainer, staleness in self.batch:
            self.staleness.append(staleness)
            self.reply(trainer, staleness)
        self.gradient.zero_()
        self.batch.clear()
