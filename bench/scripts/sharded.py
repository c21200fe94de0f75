"""A GPT in two processes over gloo by torch alone: its state sharded by fully_shard, or its layers divided by
parallelize_module. Prints the steps per second. `bench/sharded.py` starts it beside Parallab's experiments.

Run: python bench/scripts/sharded.py {fsdp,tensor_parallel} ADDRESS RANK STEPS, from the root with PYTHONPATH=.
"""

import sys
import time
from typing import Any

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import nll_loss

from engine.data.models import model_net
from engine.data.sets import load

TRAINERS, BATCH = 2, 8


def sharded(net: Any) -> torch.optim.Optimizer:
    """Shard the state of a net as stage full does; return AdamW for it."""
    mesh = init_device_mesh("cpu", (TRAINERS,))
    blocks = list(net.blocks)
    for module in (*blocks, net):
        fully_shard(module, mesh=mesh)
    for place, block in enumerate(blocks):
        block.set_modules_to_forward_prefetch(blocks[place + 1 :][:1])
        block.set_modules_to_backward_prefetch(blocks[:place][::-1][:1] or [block])
    return torch.optim.AdamW(net.parameters(), 0.002, weight_decay=0.01, fused=True)


def divided(net: Any) -> torch.optim.Optimizer:
    """Divide the layers of a net; return SGD for its part."""
    mesh = init_device_mesh("cpu", (TRAINERS,))
    plan = {"qkv": ColwiseParallel(), "merge": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in net.blocks:
        block.heads //= TRAINERS
        with torch.no_grad():  # each rank's rows are its queries, keys and values
            for whole in (block.qkv.weight, block.qkv.bias):
                of_kinds = whole.view(3, TRAINERS, -1, *whole.shape[1:])
                whole.copy_(of_kinds.transpose(0, 1).reshape(whole.shape))
        parallelize_module(block, mesh, plan)
    parts = [each for each in net.parameters() if isinstance(each, DTensor)]
    wholes = [each for each in net.parameters() if not isinstance(each, DTensor)]  # one call takes one kind alone
    return torch.optim.SGD([{"params": parts}, {"params": wholes}], 0.1, momentum=0.9, foreach=True)


def main() -> None:
    """Train, and print the steps per second without the first ten."""
    kind, address, rank, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=TRAINERS)
    data, net = load("stdlib"), model_net("gpt", 1)
    optimizer = sharded(net) if kind == "fsdp" else divided(net)
    order = torch.randperm(len(data.train_labels), generator=torch.Generator().manual_seed(1))
    size = BATCH * TRAINERS if kind == "fsdp" else BATCH
    own = slice(rank * BATCH, rank * BATCH + BATCH) if kind == "fsdp" else slice(None)
    begun = 0.0
    for step, chosen in enumerate(order.split(size)[:steps]):
        if step == 10:
            begun = time.monotonic()
        inputs, targets = data.train_images[chosen[own]], data.train_labels[chosen[own]]
        loss = nll_loss(net(inputs), targets)
        loss.backward()
        loss.item()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        print((steps - 10) / (time.monotonic() - begun))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
