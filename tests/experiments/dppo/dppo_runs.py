"""Small runs of DPPO for its tests."""

from pathlib import Path
from typing import Any

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.shared_state import SharedState
from engine.rl.kinds import kind_of
from engine.runtime.worker.ranks import Ranks
from tests.doubles import MemorySink, process_ranks

SMALL: dict[str, Any] = {
    "collectors": 3,
    "envs_per_collector": 2,
    "batch_steps": 16,
    "total_steps": 2000,
    "epochs": 2,
    "minibatches": 2,
    "evaluate_every_s": 0,
    "render_every_s": 0,
    "stop_when_solved": False,
    "threads_per_rank": 1,
    "seed": 3,
}


def config_of(**changes: Any) -> DppoConfig:
    return DppoConfig.check(SMALL | changes)


def ranks_of(config: DppoConfig, folder: Path) -> tuple[Ranks, MemorySink]:
    sink = MemorySink()
    return process_ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, folder, sink), sink


def board_of(config: DppoConfig) -> SharedState:
    return SharedState.create(config, kind_of(config.environment))
