"""What ranks do in the tests of REINFORCE; here because a rank's process must be able to import it."""

import torch

from engine.experiments.batched_reinforce import method
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.rl import environments
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank
from engine.seeding import DROPOUT
from tests.breaking import Breaking


def run_seeded(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange) -> None:
    """Run a rank with the random numbers of one that has just started."""
    torch.manual_seed(rank.seed_of(DROPOUT))
    method._run_rank(rank, config, exchange)


def run_and_break(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange, how: str) -> None:
    """Run a rank, but observer2's environments break in their eleventh step."""
    if rank.index == 2:
        environments.make = lambda name: Breaking(name, how)  # type: ignore[attr-defined]
    method._run_rank(rank, config, exchange)
