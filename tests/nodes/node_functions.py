"""What ranks on several nodes do in tests."""

import os
import signal
import time
from itertools import count

import torch

from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Rank


def average_and_set_flags(rank: Rank, transports: list[Collective], flags: torch.Tensor, rounds: int) -> None:
    """Average a vector so many times over each transport, then set this rank's flag and wait for those of all; log what
    came of it.
    """
    rank.ready()
    steps = count(1)
    for collective in transports:
        with collective.join(rank) as group:
            for number in range(1, rounds + 1):
                vector = torch.full((4,), float(rank.index + number))
                waited_s = group.average(vector, f"round {number}")
                rank.recorder.log({"train/loss": float(vector[0]), "perf/waited": waited_s}, step=next(steps))
                if rank.index == 0:
                    time.sleep(0.01)
    flags[rank.index] = rank.index + 1
    while not bool((flags > 0).all()):
        time.sleep(0.01)
    rank.recorder.log({"train/loss": float(flags.sum())}, step=next(steps))


def die_alone(rank: Rank, index: int) -> None:
    rank.ready()
    if rank.index == index:
        os.kill(os.getpid(), signal.SIGKILL)
    rank.barrier("never")


def hang(rank: Rank, index: int) -> None:
    rank.ready()
    if rank.index == index:
        with rank.recorder.phase("compute"):
            time.sleep(1000)
    rank.barrier("never")
