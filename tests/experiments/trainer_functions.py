"""What trainers do in tests; here because a rank's process must be able to import its function."""

import time

import torch
from torch import Tensor

from engine.data.sets import ImageSet
from engine.experiments.hogwild import method
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import OverwriteSampler
from engine.runtime.worker.ranks import Rank
from engine.seeding import EVALUATION


def train_and_keep_weights(rank: Rank, config: HogwildConfig, data: ImageSet, weights: Tensor, counts: Tensor) -> None:
    """Train, and when all have ended write down the weights as this process sees them."""
    method._train(rank, config, data, weights, counts)
    rank.barrier("ended")
    torch.save(weights.clone(), rank.folder / f"{rank.role}.pt")


def write_until_overwritten(rank: Rank, weights: Tensor, seen: Tensor) -> None:
    """Add to all weights again and again until one of the trainers has seen another's write, for 60 s at most."""
    sampler = OverwriteSampler(weights, 1, rank.seed_of(EVALUATION))
    rank.ready()
    deadline = time.monotonic() + 60
    while not seen.any() and time.monotonic() < deadline:
        sampler.write(lambda target: target.add_(1 + rank.index))
        seen[rank.index] = sampler.metrics().get("perf/overwritten_updates", 0.0)
