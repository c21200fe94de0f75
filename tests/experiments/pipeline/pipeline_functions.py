"""What stages do in tests; here because a rank's process must be able to import its function."""

from typing import Any

import torch

from engine.data.nets import flat_weights
from engine.experiments.pipeline.monitor import StageMonitor
from engine.experiments.pipeline.rpc import master as rpc_master
from engine.experiments.pipeline.rpc import stage as rpc_stage
from engine.experiments.pipeline.scheduled import stage as scheduled
from engine.runtime.worker.ranks import Rank


def keep_weights(rank: Rank, monitor: StageMonitor) -> None:
    """Keep a stage's weights, and what lies in their `.grad`, at the end of a run."""
    stage = monitor.stage
    for chunk, net in enumerate(stage.nets):
        kept = flat_weights(net), torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
        torch.save(kept, rank.folder / f"part{stage.config.layout.part(stage.number, chunk)}.pt")


def run_and_keep(rank: Rank, mode: str, *given: Any) -> None:
    """Run a rank of that mode and keep the stage's weights; a GPU's convolutions are as exact as a CPU's for once."""
    torch.backends.cudnn.allow_tf32 = False
    module: Any = rpc_master if mode == "rpc" else scheduled
    if mode == "torch_pipelining":
        from engine.experiments.pipeline.torch import stage as module  # takes seconds
    for each in (module, rpc_stage, scheduled):
        each.log_memory = keep_weights  # type: ignore[attr-defined]
    module.run_rank(rank, *given)
