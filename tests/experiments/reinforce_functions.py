"""What ranks do in the tests of REINFORCE; here because a rank's process must be able to import it."""

import torch

from engine.experiments.batched_reinforce.agent import Agent
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.observer import observe
from engine.rl import environments
from engine.rl.kinds import kind_of
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank
from engine.seeding import DROPOUT
from tests.breaking import Breaking


def take_part_seeded(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange) -> None:
    """Take part as the method has it, with the random numbers of a rank that has just started."""
    torch.manual_seed(rank.seed_of(DROPOUT))
    take_part_and_fall(rank, config, exchange)


def take_part_and_fall(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange, how: str = "") -> None:
    """Take part as the method has it, but observer2's environments break in their eleventh step."""
    kind = kind_of(config.environment)
    if rank.index == 0:
        Agent(rank, config, kind).until_all_played(exchange)
        return
    if rank.index == 2:
        environments.make = lambda name: Breaking(name, how)  # type: ignore[attr-defined]
    observe(rank, config, exchange, kind)
