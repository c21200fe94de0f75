"""Tensor parallelism: one transformer whose layers are divided among ranks (Shoeybi et al. 2019, Megatron-LM).

Roles: `rank1…N`, all alike. Each has 1/N of the heads of each block's attention and of the neurons of its MLP, and all
of the norms and embeddings. All work on the same mini-batch; in each block

    x <- x + sum over ranks of Wo_i attention_i(f(norm x))
    x <- x + sum over ranks of W2_i gelu(W1_i f(norm x))

with two sums in the forward (g) and two, of the gradients of f's inputs, in the backward (`layers.py`). Each rank then
makes the step of plain SGD for its own part, so that together they do what one process does:

    v <- momentum * v + gradient
    weights <- weights - learning_rate * v
"""

import math
from contextlib import nullcontext
from itertools import chain, count, islice
from typing import Any

from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import nll_loss

from engine.experiments.tensor_parallel.config import TensorParallelConfig
from engine.plugin import (
    ORDER,
    WEIGHTS,
    Batches,
    Collective,
    FlatSgd,
    ImageSet,
    Rank,
    Ranks,
    RunFailed,
    bind,
    evaluate,
    flat_weights,
    keep_freed_memory,
    load,
    model_net,
    seed_of,
    usable,
)


def run(config: TensorParallelConfig, ranks: Ranks) -> None:
    """Train the model in all ranks together; return when they have finished."""
    for device in ranks.devices:
        usable(config.device, device)
    collective = Collective.create("torch", 0, config.roles, config.timeout_s)
    ranks.run(_train, config, load(config.dataset), collective)


def _train(rank: Rank, config: TensorParallelConfig, shared: ImageSet, collective: Collective) -> None:
    """Run as one of the ranks."""
    # Here, since torch's DTensor takes a second to import:
    from torch.distributed.tensor.parallel import loss_parallel

    from engine.experiments.tensor_parallel.layers import LossParallelGpt, TensorGroup, divide

    keep_freed_memory()
    record, data = rank.recorder, shared.to(rank.device)
    divides_loss = loss_parallel() if config.loss_parallel else nullcontext()
    with collective.join(rank) as joined, divides_loss:
        group = TensorGroup(init_device_mesh(rank.device.type, (rank.world,)), joined.meeting, record)
        net: Any = model_net(config.model, seed_of(config.seed, WEIGHTS)).to(rank.device)
        blocks = len(net.blocks)
        summed = divide(net, group, sequence_parallel=config.sequence_parallel, loss_parallel=config.loss_parallel)
        if config.loss_parallel:
            net = LossParallelGpt(net, group)
        weights = flat_weights(net).to(rank.device)
        gradient = bind(net, weights)
        optimizer = FlatSgd(weights, gradient, config.learning_rate, config.momentum)
        batches = Batches(data.train_images, data.train_labels, config.batch_size, seed_of(config.seed, ORDER, 0))
        positions = chain.from_iterable(batches.epoch() for _ in count())
        rank.ready()
        for group.step, chosen in enumerate(islice(positions, config.steps), start=1):
            with record.phase("data"):
                inputs, targets = batches.take(chosen)
            group.sent_in_blocks = 0
            with record.phase("compute"):
                gradient.zero_()
                loss = net.loss(inputs, targets) if config.loss_parallel else nll_loss(net(inputs), targets)
                loss.backward()
                group.sum_gradients(summed)
                value = loss.item()
            with record.phase("update"):
                optimizer.step()
            samples = config.samples(group.step)
            measured = {"train/loss": value} if rank.index == 0 else {}
            if group.step == 1:
                measured |= {"perf/memory_parameters": weights.nbytes / 1e6}
                measured |= {"perf/layer_exchanged": group.sent_in_blocks / blocks / 1e6}
            record.log(measured, step=group.step, passes=samples / data.size)
            if not math.isfinite(value):
                raise RunFailed(
                    f"The loss became {value} at step {group.step}. Lower learning_rate ({config.learning_rate}) or "
                    f"momentum ({config.momentum})."
                )
            if rank.index == 0:  # all work on the same samples, which count once
                done, total = (each * config.units_per_sample for each in (samples, config.samples(config.steps)))
                record.progress(done, total, config.unit)
            if config.tests_after(group.step):
                with record.phase("evaluate"):
                    score = evaluate(net, data.test_images, data.test_labels)
                if rank.index == 0:
                    record.log(score.metrics, step=group.step, passes=samples / data.size)
