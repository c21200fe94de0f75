"""What ranks on several nodes do in tests."""

import os
import signal
import time

import torch

from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Rank


def average(rank: Rank, collective: Collective, rounds: int) -> None:
    """Average a vector so many times, and log what came of it."""
    with collective.join(rank) as circle:
        rank.ready()
        for step in range(1, rounds + 1):
            vector = torch.full((4,), float(rank.index + step))
            waited_s = circle.average(vector, f"round {step}")
            rank.recorder.log({"train/loss": float(vector[0]), "perf/waited": waited_s}, step=step)
            if rank.index == 0:
                time.sleep(0.01)


def die_alone(rank: Rank, index: int) -> None:
    rank.ready()
    if rank.index == index:
        os.kill(os.getpid(), signal.SIGKILL)
    rank.barrier("never")


def set_flags(rank: Rank, flags: torch.Tensor) -> None:
    """Set this rank's flag and wait for those of all."""
    rank.ready()
    flags[rank.index] = rank.index + 1
    while not bool((flags > 0).all()):
        time.sleep(0.01)
    rank.recorder.log({"train/loss": float(flags.sum())}, step=1)


def hang(rank: Rank, index: int) -> None:
    rank.ready()
    if rank.index == index:
        with rank.recorder.phase("compute"):
            time.sleep(1000)
    rank.barrier("never")
