"""A parameter server that collects gradients and updates once for a batch of them (PyTorch's tutorial on batch RPC
processing).

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient on a mini-batch of their own and push
it.

    on a push of gradient g:   sum <- sum + g
    when batch_update_size gradients are in:   x <- SGD(x, sum / batch_update_size), and all who wait get the new x

With batch_update_size = N this is synchronous SGD; below it, K-sync: a late gradient counts in the next batch, or is
dropped (Chen et al. 2016, "Revisiting distributed synchronous SGD").
"""

from engine.data.sets.registry import load
from engine.experiments.parameter_server.config import ParameterServerConfig
from engine.experiments.parameter_server.server import BatchServer
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.serving import Serving, exchange_with_server, train
from engine.training.workload import Digits, RandomImages, Workload


def run(config: ParameterServerConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have ended."""
    workload = _workload(config)
    if config.variant == "tutorial":
        from engine.training import tutorial_server  # it alone needs torchvision's transforms

        tutorial_server.run(config, ranks, workload, config.batch_update_size)
        return
    exchange = exchange_with_server(config, workload, ranks.devices[0])
    ranks.run(_take_part, config, exchange, workload, expendable=config.expendable)


def _workload(config: ParameterServerConfig) -> Workload:
    if config.model == "mnist_net":
        return Digits(load(config.dataset), config.trainers, config.batch_size, config.epochs)
    return RandomImages(config.model, config.trainers, config.batch_size, config.iterations)


def _take_part(rank: Rank, config: ParameterServerConfig, exchange: Exchange, workload: Workload) -> None:
    if rank.index == exchange.server:
        Serving(rank, config, BatchServer(rank, config, workload.to(rank.device))).until_all_left(exchange)
    else:
        train(rank, config, exchange, workload)
