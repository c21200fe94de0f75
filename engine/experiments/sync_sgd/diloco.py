"""DiLoCo (Douillard et al. 2023, Algorithm 1), and its streaming form (Douillard et al. 2025, Algorithm 2), in which
fragments of the weights are averaged one after another while training continues.

    d <- c - mean of x_i                  for the fragment that is due, sent tau steps before
    v <- mu v + d;    c <- c - eta' (d + mu v)
    x_i <- c + alpha (x_i - c)

    x_i: a trainer's weights, c: the global weights, v: the outer momentum, eta' and mu: the outer learning rate and
    momentum, tau: `overlap`, alpha: `local_weight`, 0 without overlap

Of F fragments and rounds of H steps the k-th is merged after step k H / F (rounded up) of each round, so that none is
on its way when a round ends. With F = 1 and tau = 0 it is DiLoCo.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import accumulate
from threading import Thread

import torch
from torch import Tensor, nn

from engine.experiments.sync_sgd.compression import FourBits
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.trainer import SyncTrainer
from engine.runtime.transport.allreduce import gone_round


def fragments(config: SyncSgdConfig, net: nn.Module) -> list[Tensor]:
    """Return the places in the flat weights [P] of each fragment. sequence: equal parts, within 1; strided: whole
    blocks, dealt in turn.
    """
    sizes = [sum(parameter.numel() for parameter in block.parameters()) for block in blocks(net)]
    count = config.fragments
    if config.fragment_order == "sequence":
        return list(torch.arange(sum(sizes)).tensor_split(count))
    places = [torch.arange(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return [torch.cat(places[first::count]) for first in range(count)]


def blocks(net: nn.Module) -> list[nn.Module]:
    """Return the net's children with weights in their order, those of a sequence one by one."""
    children = (each for child in net.children() for each in (child if isinstance(child, nn.Sequential) else [child]))
    return [child for child in children if next(child.parameters(), None) is not None]


def merge_steps(steps: int, count: int) -> list[int]:
    """Return the step of a round (from 1) after which each of `count` fragments is merged."""
    return [-(-number * steps // count) for number in range(1, count + 1)]


def outer_step(center: Tensor, mean: Tensor, velocity: Tensor, rate: float, momentum: float) -> None:
    """d <- c - mean; v <- mu v + d; c <- c - rate (d + mu v), in place: SGD with Nesterov momentum, d as its gradient.

    c - rate d is computed as a point between c and the mean, so that rate 1 without momentum gives the mean exactly.
    """
    velocity.mul_(momentum).add_(center - mean)
    center.lerp_(mean, rate).sub_(velocity, alpha=rate * momentum)


def bytes_sent(config: SyncSgdConfig, numbers: int) -> int:
    """Return the bytes that a trainer sends for the mean of so many numbers."""
    if config.has("compression e3m0"):
        return (config.trainers - 1) * FourBits.size(numbers)
    return gone_round((2 if config.has("compression bf16") else 4) * numbers, config.trainers)


class OuterAverage:
    """One trainer's rounds."""

    def __init__(self, trainer: SyncTrainer) -> None:
        self.trainer = trainer
        config, net = trainer.config, trainer.net
        assert not len(net.statistics), "no net to choose has batch-norm, whose statistics are no weights"
        self._fragments = [places.to(net.state.device) for places in fragments(config, net.module)]
        self._sent_mb = [bytes_sent(config, len(places)) / 1e6 for places in self._fragments]
        self._merges = {step: part for part, step in enumerate(merge_steps(trainer.part.steps, config.fragments))}
        self._kept = config.local_weight if config.overlap else 0.0
        self._sent: Callable[[], Tensor] | None = None
        """Waits for the fragment that is on its way, and returns its mean."""

    def train_round(self, number: int) -> None:
        """Make the steps of round `number` (from 1), with each fragment merged once."""
        trainer = self.trainer
        trainer.train_alone(number, lambda step: self._after(number, step))
        if trainer.config.keeps_local_weights:
            trainer.store_own_state()
            trainer.meet(f"round {number}")

    def _after(self, number: int, step: int) -> None:
        """Send and merge what is due after a step of the round (from 1)."""
        trainer = self.trainer
        due, part = self._merges.get(step + trainer.config.overlap), self._merges.get(step)
        if trainer.circle.ring:
            sent = {"perf/sent_per_step": 0.0 if due is None else self._sent_mb[due]}
            trainer.record.log(sent, step=trainer.log.steps, passes=trainer.log.passes)
        if due is not None:
            if not trainer.config.keeps_local_weights:
                trainer.store_own_state()
            self._sent = self._send(due, number)
        if part is not None:
            assert self._sent, "it was sent `overlap` steps before"
            mean, self._sent = self._sent(), None
            with trainer.record.phase("update"):
                self._merge(self._fragments[part], mean)

    def _send(self, part: int, number: int) -> Callable[[], Tensor]:
        """Send this trainer's weights of a fragment; return a function that waits for their mean."""
        trainer, places = self.trainer, self._fragments[part]
        config, center = trainer.config, trainer.global_state[places]
        own = trainer.net.weights[places]
        if compressor := trainer.compressor:
            own -= center
        what = f"round {number}" if config.fragments == 1 else f"fragment {part + 1} of round {number}"
        wait = None
        if config.overlap:
            wait = self._in_background(own, what)
        else:
            trainer.average(own, what, compressor)

        def mean() -> Tensor:
            if wait:
                wait()
            return center + own if compressor else own

        return mean

    def _in_background(self, vector: Tensor, what: str) -> Callable[[], None]:
        """Begin to replace a vector by its mean over all trainers, in another thread; return a function that waits for
        the end, which counts as `wait` until the last trainer has sent its own, then as `communicate`.
        """
        trainer, done = self.trainer, Future[float]()

        def exchange() -> None:
            try:
                done.set_result(trainer.exchange_mean(vector, what, trainer.compressor))
            except BaseException as error:  # it is raised where the trainer waits
                done.set_exception(error)

        def wait() -> None:
            began = time.monotonic()
            with trainer.record.phase("communicate"):
                done.result()
            trainer.count_wait(max(0.0, trainer.circle.latest_s() - began))

        Thread(target=exchange, name=what, daemon=True).start()
        return wait

    def _merge(self, places: Tensor, mean: Tensor) -> None:
        """Make the outer step of a fragment, and move this trainer's own weights to it."""
        trainer, config = self.trainer, self.trainer.config
        center, velocity = trainer.global_state[places], trainer.outer_velocity[places]
        outer_step(center, mean, velocity, config.outer_learning_rate, config.outer_momentum)
        trainer.global_state[places], trainer.outer_velocity[places] = center, velocity
        own = trainer.net.weights[places]
        trainer.net.weights[places] = center.lerp(own, self._kept)
