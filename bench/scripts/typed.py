"""A net whose settings are dataclasses; tyro."""

from dataclasses import dataclass, field
from typing import Literal

import tyro
from net import fit


@dataclass
class Optim:
    """The optimizer's settings."""

    lr: float = 0.05
    """Learning rate of SGD."""
    schedule: Literal["constant", "cosine"] = "constant"


@dataclass
class Train:
    """Train a small net."""

    optim: Optim = field(default_factory=Optim)
    epochs: int = 3
    """Passes over the data."""
    batch_size: int = 64


if __name__ == "__main__":
    chosen = tyro.cli(Train)
    fit(chosen.optim.lr, chosen.epochs, chosen.batch_size)
