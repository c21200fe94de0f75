"""What ranks do in the tests of the server methods; here because a rank's process must be able to import it."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from engine.experiments.async_sgd.method import _AsyncServer
from engine.experiments.parameter_server.method import _BatchServer
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank
from engine.system.checkpoint_state import last_checkpoint
from engine.training.server import WeightServer
from engine.training.server_run import ServerLoop, train
from engine.training.settings import ServerConfig
from engine.training.workload import Batch, PartitionedData

SERVERS: dict[str, type[WeightServer]] = {"parameter_server": _BatchServer, "async_sgd": _AsyncServer}


@dataclass(frozen=True)
class Frozen(PartitionedData):
    """Digits for a net without dropout: a run of it draws nothing, so it can be compared with another one number by
    number.
    """

    def net(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(
                nn.Conv2d(1, 4, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 10), nn.LogSoftmax(1)
            )


@dataclass(frozen=True)
class Stopping(PartitionedData):
    """Digits whose second trainer stops itself (SIGSTOP) before its third step."""

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        for step, batch in enumerate(super().batches(number, seed, skip), start=1):
            if (number, step) == (2, 3):
                os.kill(os.getpid(), signal.SIGSTOP)
            yield batch


@dataclass(frozen=True)
class Poisoned(PartitionedData):
    """Digits whose fourth batch is not a number; it comes when a checkpoint of some update lies in the run's folder."""

    folder: Path

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        for step, (images, labels) in enumerate(super().batches(number, seed, skip), start=1):
            while step == 4 and not ((found := last_checkpoint(self.folder)) and found.step):
                time.sleep(0.01)
            yield (images * torch.nan if step == 4 else images), labels


def take_part(rank: Rank, name: str, config: ServerConfig, exchange: Exchange, workload: PartitionedData) -> None:
    """Take part as the method has it, and write down how the server's state ended."""
    if rank.index:
        train(rank, config, exchange, workload)
        return
    server = SERVERS[name](rank, config, workload)
    ServerLoop(rank, config, server).run(exchange)
    torch.save(server.checkpoint() | {"time_s": 1.0}, rank.folder / "end.pt")
