"""The ways to average: what a trainer does at the start of a round, in each step, and when all meet.

N trainers i with weights x_i, gradients g_i of their own mini-batches, and global weights c:

    weights     x_i <- c;  x_i <- x_i - eta g_i in each step;  at the round's end  c <- mean of x_i
    elastic     x_i <- x_i - eta g_i in each step;  at the round's end  x_i <- x_i + (beta / N) (c - x_i),  c <- c +
    beta (mean of x_i - c) gradients   x <- x - eta (mean of g_i) in each step, the same for all;  at the round's end  c
    <- x ddp         as gradients, by torch
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import nll_loss
from torch.nn.parallel import DistributedDataParallel

from engine.experiments.sync_sgd.trainer import Trainer
from engine.runtime.transport.allreduce import gone_round

Batch = tuple[Tensor, Tensor]


def pull(local: Tensor, center: Tensor, rate: float) -> None:
    """x <- x + rate (c - x), in place: elastic averaging's move of one trainer's weights to the centre."""
    local.add_(center - local, alpha=rate)


class Way(Protocol):
    """One way to average."""

    steps: int
    """Steps of a round."""

    def start(self, round_: int) -> None:
        """Begin that round (counted from 1)."""

    def step(self, number: int, batch: Batch | None) -> float:
        """Make one step on a mini-batch (None where this trainer has gone through its part) and return its loss."""

    def meet(self, what: str) -> None:
        """End the round: afterwards `trainer.center` holds the global weights, the same at all trainers."""


class WeightAverage:
    """Each trains alone for a round, then weights are averaged (Zinkevich et al. 2010; local SGD, federated
    averaging).
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.steps = trainer.part.steps
        self._sent = torch.zeros_like(trainer.learner.state)

    def start(self, round_: int) -> None:
        self.trainer.learner.state.copy_(self.trainer.center)
        if not self.trainer.config.keep_optimizer:
            self.trainer.optimizer.velocity.zero_()

    def step(self, number: int, batch: Batch | None) -> float:
        assert batch is not None
        with self.trainer.record.phase("compute"):
            loss = self.trainer.learner.step(*batch)
        with self.trainer.record.phase("update"):
            self.trainer.optimizer.step()
        return loss

    def meet(self, what: str) -> None:
        self.trainer.lay_down()
        self._sent.copy_(self.trainer.learner.state)
        self.trainer.average(self._sent, what)
        with self.trainer.record.phase("update"):
            self.trainer.center.copy_(self._sent)


class ElasticAverage(WeightAverage):
    """EASGD in its synchronous form (Zhang, Choromanska and LeCun 2015, equations 5 and 6, every round instead of every
    step).
    """

    def start(self, round_: int) -> None:
        if not self.trainer.config.keep_optimizer:
            self.trainer.optimizer.velocity.zero_()

    def meet(self, what: str) -> None:
        local, center, beta = self.trainer.learner.state, self.trainer.center, self.trainer.config.elastic_rate
        self._sent.copy_(local)
        with self.trainer.record.phase("update"):
            pull(local, center, beta / self.trainer.config.trainers)
        self.trainer.lay_down()
        self.trainer.average(self._sent, what)
        with self.trainer.record.phase("update"):
            pull(center, self._sent, beta)


class GradientAverage:
    """All step together: the mean of N gradients of b samples is the gradient of N x b samples."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.steps = trainer.part.longest
        self.round = 0

    def start(self, round_: int) -> None:
        self.round = round_
        if not self.trainer.config.keep_optimizer:
            self.trainer.optimizer.velocity.zero_()

    def step(self, number: int, batch: Batch | None) -> float:
        trainer, message, loss = self.trainer, self.trainer.learner.message, 0.0
        if batch is None:
            message.zero_()
        else:
            with trainer.record.phase("compute"):
                loss = trainer.learner.step(*batch)
        if number == self.steps - 1:
            trainer.lay_down()
        trainer.average(message, f"step {number + 1} of round {self.round}")
        with trainer.record.phase("update"):
            if (contributors := trainer.part.contributors(number)) < trainer.config.trainers:
                message.mul_(trainer.config.trainers / contributors)  # the mean of those who have a mini-batch left
            trainer.optimizer.step()
            trainer.learner.statistics.copy_(message[trainer.learner.parameters :])
        return loss

    def meet(self, what: str) -> None:
        self.trainer.center.copy_(self.trainer.learner.state)


class TorchDdp(GradientAverage):
    """The same by torch, which sends gradients while it computes others: all of it is the phase `compute`, waiting
    included.
    """

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._net = DistributedDataParallel(trainer.learner.net)
        self._before: Batch | None = None
        self._made = 0
        """Steps made by this process."""

    def step(self, number: int, batch: Batch | None) -> float:
        trainer = self.trainer
        share = (
            trainer.config.trainers / trainer.part.contributors(number) if batch else 0.0
        )  # torch divides by N, whoever contributes
        self._before = batch or self._before
        assert self._before is not None, "a trainer's first step of a round has a mini-batch"
        images, labels = self._before
        what = f"step {number + 1} of round {self.round}"
        # In the second forward torch has all trainers agree on the order in which gradients came to be, and send them
        # so from then on.
        meeting = trainer.circle.meeting(what) if self._made == 1 else nullcontext()
        with trainer.record.phase("compute"), meeting, nullcontext() if batch else self._without_draws():
            trainer.learner.gradient.zero_()
            loss = nll_loss(self._net(images), labels)
        self._made += 1
        if number == self.steps - 1:
            trainer.lay_down()
        with trainer.record.phase("compute"), trainer.circle.meeting(what):
            (loss * share).backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        trainer.record.exchanged(gone_round(trainer.learner.gradient.nbytes, trainer.config.trainers))
        with trainer.record.phase("update"):
            trainer.optimizer.step()
        return value

    def _without_draws(self) -> AbstractContextManager[None]:
        """Return a block after which the generator of dropout is as before: an idle trainer only goes along, and draws
        what it would draw without that.
        """
        device = self.trainer.learner.state.device
        return torch.random.fork_rng([device] if device.type == "cuda" else [])


WAYS: dict[str, type[WeightAverage] | type[GradientAverage]] = {
    "weights": WeightAverage,
    "elastic": ElasticAverage,
    "gradients": GradientAverage,
    "ddp": TorchDdp,
}
