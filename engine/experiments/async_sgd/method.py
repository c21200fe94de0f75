"""Asynchronous SGD: the server applies every gradient at once, and answers with the weights as they are then.

Roles: `ps` owns the weights x; `trainer1…N` each fetch them, compute a gradient and push it, never waiting for each
other. A gradient g was computed at the weights x' that were fetched; s updates have been applied since: its staleness.

    plain               x <- x - learning_rate * g
    staleness_scaled    x <- x - learning_rate * (g / (1 + s))                         (Zhang et al. 2016)
    delay_compensated   x <- x - learning_rate * (g + lambda * g * g * (x - x'))       (Zheng et al. 2017, DC-ASGD)

each with the server's momentum, in which what is multiplied with learning_rate takes the gradient's place. With a
staleness_bound, a trainer that is that many steps ahead of the slowest one waits for it (stale synchronous parallel, Ho
et al. 2013).
"""

from engine.data.sets.registry import load
from engine.experiments.async_sgd.config import AsyncSgdConfig
from engine.experiments.async_sgd.server import AsyncServer
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank, Ranks
from engine.training.serving import Serving, exchange_with_server, train
from engine.training.workload import Digits, Workload


def run(config: AsyncSgdConfig, ranks: Ranks) -> None:
    """Start the server and its trainers; return when all have ended."""
    workload = Digits(load(config.dataset), config.trainers, config.batch_size, config.epochs)
    if config.variant == "tutorial":
        from engine.training import tutorial_server  # it alone needs torchvision's transforms

        tutorial_server.run(config, ranks, workload, batch=1)
        return
    exchange = exchange_with_server(config, workload, ranks.devices[0])
    ranks.run(_take_part, config, exchange, workload, expendable=config.expendable)


def _take_part(rank: Rank, config: AsyncSgdConfig, exchange: Exchange, workload: Workload) -> None:
    if rank.index == exchange.server:
        Serving(rank, config, AsyncServer(rank, config, workload.to(rank.device))).until_all_left(exchange)
    else:
        train(rank, config, exchange, workload)
