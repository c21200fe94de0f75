"""Averaging of gradients: all trainers step together, so that they always have the same weights.

    x <- x - eta (mean of all g_i)      in each step
    c <- x                              at the round's end      (notation of `method.py`)

The mean of N gradients of b samples is the gradient of N x b samples. A trainer whose part ends before the longest one
continues without a mini-batch, and the mean is over the others.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.functional import nll_loss
from torch.nn.parallel import DistributedDataParallel

from engine.experiments.sync_sgd.trainer import SyncTrainer
from engine.runtime.transport.allreduce import gone_round

Batch = tuple[Tensor, Tensor]


class GradientAverage:
    """One trainer that averages gradients with our own collective."""

    def __init__(self, trainer: SyncTrainer) -> None:
        self.trainer = trainer

    def train_round(self, number: int) -> None:
        """Make the steps of round `number` (from 1)."""
        trainer, part = self.trainer, self.trainer.part
        if not trainer.config.keep_optimizer:
            trainer.optimizer.reset()
        for step in range(part.longest_steps):
            trainer.optimizer.learning_rate = trainer.learning_rate(number, step, part.longest_steps)
            if step >= part.steps:
                self.step(number, step, None)
                continue
            with trainer.record.phase("data"):
                batch = part.next_batch()
            with trainer.record.phase("compute"):
                trainer.faults.inject(trainer.log.steps + 1)
            loss, measured = self.step(number, step, batch)
            trainer.log.log_step(loss, len(batch[1]), measured)
        trainer.global_state.copy_(trainer.net.state)

    def step(self, number: int, step: int, batch: Batch | None) -> tuple[float, Mapping[str, float]]:
        """Make one step on a mini-batch (None if this trainer has finished its part); return its loss and its other
        measurements.
        """
        trainer, net, loss = self.trainer, self.trainer.net, 0.0
        if batch is None:
            net.message.zero_()
        else:
            with trainer.record.phase("compute"):
                loss = net.compute_gradient(*batch)
        self.store_before_last_average(step)
        is_last = step == trainer.part.longest_steps - 1
        measured = trainer.average_gradient(f"step {step + 1} of round {number}", is_last=is_last)
        with trainer.record.phase("update"):
            if (contributors := trainer.part.contributors(step)) < trainer.config.trainers:
                net.message.mul_(
                    trainer.config.trainers / contributors
                )  # the mean over trainers with a mini-batch left
            trainer.optimizer.step()
            net.statistics.copy_(net.message[net.parameters :])
        return loss, measured

    def store_before_last_average(self, step: int) -> None:
        """Store this trainer's own state for a checkpoint before the round's last average."""
        if step == self.trainer.part.longest_steps - 1:
            self.trainer.store_own_state()


class TorchDdp(GradientAverage):
    """The same by torch, which sends gradients while it computes others: all of it counts as the phase `compute`,
    including waiting.
    """

    def __init__(self, trainer: SyncTrainer) -> None:
        super().__init__(trainer)
        self._net, self._power = DistributedDataParallel(trainer.net.module), None
        if trainer.config.compression == "bf16":
            self._net.register_comm_hook(None, bf16_compress_hook)
        elif trainer.config.compression == "powersgd":  # torch sends the first two steps whole
            self._power = PowerSGDState(None, trainer.config.compression_rank, start_powerSGD_iter=2)
            self._net.register_comm_hook(self._power, powerSGD_hook)
        self._last_batch: Batch | None = None
        self._steps = 0
        """Steps made by this process."""

    def step(self, number: int, step: int, batch: Batch | None) -> tuple[float, Mapping[str, float]]:
        trainer = self.trainer
        # torch always divides by N
        share = trainer.config.trainers / trainer.part.contributors(step) if batch else 0.0
        self._last_batch = batch or self._last_batch
        assert self._last_batch is not None, "a trainer's first step of a round has a mini-batch"
        images, labels = self._last_batch
        what = f"step {step + 1} of round {number}"
        # In the second forward torch has all trainers agree on the order in which gradients became ready, and sends
        # them
        # in that order from then on.
        meeting = trainer.circle.meeting(what) if self._steps == 1 else nullcontext()
        with trainer.record.phase("compute"), meeting, nullcontext() if batch else self._without_draws():
            trainer.net.gradient.zero_()
            loss = nll_loss(self._net(images), labels)
        self._steps += 1
        self.store_before_last_average(step)
        compressed = self._power.total_numel_after_compression if self._power else 0
        with trainer.record.phase("compute"), trainer.circle.meeting(what):
            (loss * share).backward()  # type: ignore[no-untyped-call]
            value = loss.item()
        numbers = self._power.total_numel_after_compression - compressed if self._power else 0
        width = 2 if trainer.config.compression == "bf16" else 4
        sent = width * (numbers or trainer.net.parameters)
        trainer.record.exchanged(gone_round(sent, trainer.config.trainers))
        with trainer.record.phase("update"):
            trainer.optimizer.step()
        return value, {}

    def _without_draws(self) -> AbstractContextManager[None]:
        """Return a block that restores dropout's generator at its end, because an idle trainer must not advance its
        stream.
        """
        device = self.trainer.net.state.device
        return torch.random.fork_rng([device] if device.type == "cuda" else [])
