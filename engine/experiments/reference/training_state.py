"""The state of a training in one process: everything a checkpoint needs for an exact continuation."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.data.batches import Batches


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
    time_before_s: float = 0.0
    """Training time of the runs that this one resumes."""
    began: float = field(default_factory=time.monotonic)

    def count_step(self, samples: int) -> None:
        """Count one more mini-batch."""
        self.taken, self.step, self.samples = self.taken + 1, self.step + 1, self.samples + samples

    def next_epoch(self) -> None:
        """Start the next epoch."""
        self.epoch, self.taken = self.epoch + 1, 0

    @property
    def time_s(self) -> float:
        """The training time so far; `began` must be shortly before all ranks were ready, so that no recorded point is
        later.
        """
        return self.time_before_s + time.monotonic() - self.began

    def state(self) -> dict[str, Any]:
        """Return the state as tensors and numbers, including the random generators."""
        numbers = {name: getattr(self, name) for name in ("epoch", "taken", "step", "samples", "time_s")}
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
        self.time_before_s = float(state["time_s"])
        torch.set_rng_state(state["random"].cpu())
        if "random_cuda" in state and self.weights.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.weights.device)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that dropout may draw from."""
    found = {"random": torch.get_rng_state()}
    return found | {"random_cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else found
