"""A net whose state is divided among the trainers by torch's `fully_shard`, or that of DDP, which all trainers have."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.nn.parallel import DistributedDataParallel

from engine.experiments.fsdp.collectives import TrainerLinks
from engine.experiments.fsdp.config import FsdpConfig
from engine.plugin import WEIGHTS, Rank, model_net, seed_of


def shared_out(rank: Rank, config: FsdpConfig, links: TrainerLinks) -> tuple[nn.Module, list[nn.Module]]:
    """Return the net of the run's seed with its state divided among the trainers, and its blocks, the net last."""
    net = model_net(config.model, seed_of(config.seed, WEIGHTS)).to(rank.device)
    layers = list(
        getattr(net, "blocks", None) or [each for each in net.children() if any(True for _ in each.parameters())]
    )
    if config.stage == "ddp":
        return DistributedDataParallel(net, gradient_as_bucket_view=True), [*layers, net]
    mesh = init_device_mesh(rank.device.type, (rank.world,))
    low = torch.bfloat16 if config.precision == "bf16" else None
    offload = CPUOffloadPolicy() if config.offload else OffloadPolicy()
    for module in (*layers, net):
        output = torch.float32 if low and module is net else None
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, output_dtype=output)
        is_freed = config.stage == "full"
        fully_shard(module, mesh=mesh, reshard_after_forward=is_freed, mp_policy=policy, offload_policy=offload)
        links.follow(module)
    for place, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[place + 1 :][: config.prefetch])
        # an empty list would mean torch's choice; a block that is gathered already is not gathered again
        layer.set_modules_to_backward_prefetch(layers[:place][::-1][: config.prefetch] or [layer])
    return net, [*layers, net]
