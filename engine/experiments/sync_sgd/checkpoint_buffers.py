"""Shared memory for the trainers' own state, so that trainer1 can save it for all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.data.shared_tensors import shared
from engine.experiments.sync_sgd.config import SyncSgdConfig


@dataclass(frozen=True)
class CheckpointBuffers:
    """Two places for each trainer: one is free again once trainer1 has reached the next round's average.

    This avoids another barrier: all of round r is stored when r's average is, and no trainer writes to r's places
    before the average of round r + 1.
    """

    velocity: Tensor
    """[2, N, P] in shared memory."""
    local: Tensor
    """[2, N, P + B] in shared memory: weights that trainers keep from round to round (elastic averaging)."""
    random: Tensor
    """uint8 [2, N, ...] in shared memory: state of dropout's generator."""

    @classmethod
    def create(cls, config: SyncSgdConfig, state: int, parameters: int) -> "CheckpointBuffers":
        """Return buffers sized for the config's averaging method."""
        count = config.trainers if config.checkpoint_every_s else 0
        of_its_own = config.keep_optimizer and not config.steps_together
        return cls(
            shared(torch.zeros(2, count, parameters if of_its_own else 0)),
            shared(torch.zeros(2, count, state if config.sync == "elastic" else 0)),
            shared(torch.zeros(2, count, len(torch.get_rng_state()), dtype=torch.uint8)),
        )
