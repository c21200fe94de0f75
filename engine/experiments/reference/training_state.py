"""The state of a training in one process: everything a checkpoint needs for an exact continuation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.data.tensors import Batches


@dataclass
class TrainingState:
    """The state that changes during training; `weights` and `velocity` [P] are the trained vectors themselves."""

    weights: Tensor
    velocity: Tensor
    batches: Batches
    epoch: int = 1
    taken: int = 0
    """Mini-batches of this epoch already trained on."""
    step: int = 0
    samples: int = 0

    def count_step(self, samples: int) -> None:
        """Count one more mini-batch."""
        self.taken, self.step, self.samples = self.taken + 1, self.step + 1, self.samples + samples

    def next_epoch(self) -> None:
        """Start the next epoch."""
        self.epoch, self.taken = self.epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Return the state as tensors and numbers, including the random generators."""
        numbers = {name: getattr(self, name) for name in ("epoch", "taken", "step", "samples")}
        return (
            numbers
            | {"weights": self.weights, "velocity": self.velocity, "order": self.batches.random_state}
            | _random_states(self.weights.device)
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        self.weights.copy_(state["weights"])
        self.velocity.copy_(state["velocity"])
        self.batches.restore(state["order"])
        self.epoch, self.taken, self.step, self.samples = (
            int(state[name]) for name in ("epoch", "taken", "step", "samples")
        )
        torch.set_rng_state(state["random"].cpu())
        if "random_cuda" in state and self.weights.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.weights.device)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that dropout may draw from."""
    found = {"random": torch.get_rng_state()}
    return found | {"random_cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else found
