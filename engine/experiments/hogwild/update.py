"""The one write of Hogwild!: a step on weights that others read and write at the same time."""

from typing import Any, Protocol

import torch

from engine.runtime.worker.ranks import Rank


class Optimizer(Protocol):
    """What can step: ours on flat weights, or torch's."""

    def step(self) -> Any: ...


class Update:
    """A trainer's optimizer step on the shared weights, with a lock round it where the config asks for one."""

    def __init__(self, optimizer: Optimizer, rank: Rank, *, locked: bool) -> None:
        self._step = optimizer.step
        self._record = rank.recorder
        self._lock = rank.lock("weights") if locked else None
        self._on_gpu = rank.device.type == "cuda"

    def __call__(self) -> None:
        """Step; time spent waiting for the lock is the phase `lock`."""
        if self._lock is None:
            with self._record.phase("update"):
                self._step()
            return
        with self._record.phase("lock"), self._lock, self._record.phase("update"):
            self._step()
            if self._on_gpu:
                # a GPU writes after step() has returned; the lock must cover that
                torch.cuda.current_stream().synchronize()
