"""Hogwild!: SGD by processes that share one set of weights without waiting for each other (Recht et al. 2011, Algorithm
1).

Roles: `trainer1…N`, all alike; trainer1 also tests. Each one repeats, as fast as it can:

    take a mini-batch at random
    compute the gradient g from the current shared weights x
    x <- x - learning_rate * g      element by element, without a lock

With momentum each trainer has its own velocity v, and v <- momentum * v + g replaces g.
"""

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.nets import bind, evaluate, flat_weights, mnist_net
from engine.data.sets import ImageSet, load
from engine.data.tensors import Batches, keep_freed_memory, shared, usable
from engine.experiments.hogwild import sparse
from engine.experiments.hogwild.config import HogwildConfig
from engine.experiments.hogwild.optimizers import LockedOptimizer, Optimizer, OverwriteSampler, SampledSgd
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import DROPOUT, EVALUATION, ORDER, WEIGHTS, seed_of
from engine.training.step_log import StepLog


def run(config: HogwildConfig, ranks: Ranks) -> None:
    """Put weights and data into shared memory and train in one rank per trainer; return when all have finished."""
    if config.variant == "tutorial":
        from engine.experiments.hogwild import tutorial  # only this one imports torchvision, which takes a second

        tutorial.run(config, ranks)
        return
    if config.model == "sparse_logistic":
        sparse.run(config, ranks)
        return
    device = usable(config.device, ranks.devices[0])
    data = load(config.dataset).to(device)
    weights = _shared_weights(config, device)
    ranks.run(_train, config, data, weights, StepLog.shared_counters(config.trainers))


def _shared_weights(config: HogwildConfig, device: torch.device) -> Tensor:
    """Return the initial weights in memory that every trainer can write.

    A GPU tensor is enough by itself: ranks open the same memory (CUDA IPC) while this process keeps it.
    """
    weights = flat_weights(mnist_net(seed_of(config.seed, WEIGHTS))).to(device)
    return shared(weights) if device.type == "cpu" else weights


def _train(rank: Rank, config: HogwildConfig, data: ImageSet, weights: Tensor, counters: Tensor) -> None:
    """Run as one trainer: Algorithm 1, epoch by epoch."""
    keep_freed_memory()
    net, record = mnist_net(seed_of(config.seed, WEIGHTS)), rank.recorder
    gradient = bind(net, weights)  # from here on the net uses the shared weights
    sampler = OverwriteSampler(weights, config.overwrites_every, rank.seed_of(EVALUATION))
    optimizer: Optimizer = SampledSgd(weights, gradient, config.learning_rate, config.momentum, sampler)
    if config.lock:
        optimizer = LockedOptimizer(optimizer, rank)
    batches = Batches(data.train_images, data.train_labels, config.batch_size, rank.seed_of(ORDER))
    log = StepLog(rank, counters, pass_size=data.size, total=config.epochs * data.size, advice=config.divergence_advice)
    torch.manual_seed(rank.seed_of(DROPOUT))  # dropout's stream starts here, regardless of set-up
    rank.ready()
    for epoch in range(1, config.epochs + 1):
        for positions in batches.epoch():
            with record.phase("data"):
                images, labels = batches.take(positions)
            log.mark_read()
            with record.phase("compute"):
                gradient.zero_()
                loss = nll_loss(net(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                value = loss.item()
            with record.phase("update"):
                optimizer.step()
            log.log_step(value, len(labels), sampler.metrics())
        if rank.index == 0 and config.tests_after(epoch):
            _test(weights.clone(), config, data, log)
        record.summarize("epoch", epoch, config.epochs)
    with record.phase("wait"):
        rank.barrier("trained")
    if rank.index == 0:
        _test(weights, config, data, log)


def _test(weights: Tensor, config: HogwildConfig, data: ImageSet, log: StepLog) -> None:
    """Test unchanging weights: a copy while others train, the shared ones after all have finished."""
    net = mnist_net(seed_of(config.seed, WEIGHTS))
    bind(net, weights)
    with log.record.phase("evaluate"):
        log.log_score(evaluate(net, data.test_images, data.test_labels))
