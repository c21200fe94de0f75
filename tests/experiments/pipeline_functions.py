"""What stages do in tests; here because a rank's process must be able to import its function."""

from typing import Any

import torch

from engine.experiments.pipeline import peer, remote, served, staged
from engine.experiments.pipeline.stage import Stage
from engine.runtime.worker.ranks import Rank


def keep_weights(rank: Rank, stage: Stage) -> None:
    """Keep a stage's weights, and what lies in their `.grad`, at the end of a run."""
    torch.save((stage.weights.detach().clone(), stage.gradient.clone()), rank.folder / f"{stage.role}.pt")


def take_part_and_keep(rank: Rank, mode: str, *given: Any) -> None:
    """Take part in a run of that mode and keep the stage's weights."""
    for each in (peer, served, staged):
        each.log_memory = keep_weights  # type: ignore[attr-defined]
    module: Any = {"rpc": remote, "torch_pipelining": peer}.get(mode, staged)
    module.take_part(rank, *given)
