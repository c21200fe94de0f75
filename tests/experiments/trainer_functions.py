"""What trainers do in tests; here because a rank's process must be able to import its function."""

import torch
from torch import Tensor

from engine.data.images import ImageSet
from engine.experiments.hogwild import method
from engine.experiments.hogwild.config import HogwildConfig
from engine.runtime.ranks import Rank


def train_and_keep_weights(rank: Rank, config: HogwildConfig, data: ImageSet, weights: Tensor, counts: Tensor) -> None:
    """Train, and when all have ended write down the weights as this process sees them."""
    method._train(rank, config, data, weights, counts)
    rank.barrier("ended")
    torch.save(weights.clone(), rank.folder / f"{rank.role}.pt")
