"""Pipeline parallelism: one net in stages, a batch in micro-batches, so that stages overlap (Huang et al. 2019).

Roles: `stage1…p`, each with some of the net's layers; in mode rpc also a `master`, which splits the batches and calls
the stages. Each way has a folder: scheduled (gpipe, 1f1b, interleaved and zb_h1), rpc, and torch (torch_pipelining).
With m micro-batches, each stage does in every batch, in the order of its schedule (engine/pipelining.py),

    forward  i   activations of micro-batch i from the previous stage, through its layers, to the next stage
    backward i   their gradient from the next stage, through its layers, to the previous stage
    update       weights <- weights - learning_rate * gradient of the whole batch

and idles the rest of the time (the bubble): at least (p - 1) / (m + p - 1) of it for equal stages by gpipe and 1f1b.
"""

import torch

from engine.data.tensors import shared_zeros, usable
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches
from engine.experiments.pipeline.partition import boundaries
from engine.experiments.pipeline.scheduled import stage as scheduled
from engine.experiments.pipeline.scheduled.links import Links
from engine.runtime.worker.ranks import Ranks


def run(config: PipelineConfig, ranks: Ranks) -> None:
    """Start the stages, and the master if there is one; return when all have finished."""
    devices = [usable(config.device, device) for device in ranks.devices]
    stages = tuple(map(str, devices[-config.stages :]))
    batches = MicroBatches.create(config)
    costs = shared_zeros(config.stages, len(boundaries(config)), dtype=torch.float64)
    if config.mode == "rpc":
        from engine.experiments.pipeline.rpc import master

        ranks.run(master.run_rank, config, batches, costs, stages)
    elif config.mode == "torch_pipelining":
        from engine.experiments.pipeline.torch import stage  # torch.distributed.pipelining takes a second to import

        ranks.run(stage.run_rank, config, batches, costs)
    else:
        over_rpc = config.transport == "rpc" or (config.transport == "auto" and devices[-1].type == "cuda")
        ranks.run(scheduled.run_rank, config, batches, Links.create(config, over_rpc, stages), costs)
