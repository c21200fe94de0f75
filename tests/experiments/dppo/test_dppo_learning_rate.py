"""DPPO's linear schedule: it falls from the first batch to the last, and every batch that is learned from moves the
policy.
"""

import threading
from collections import defaultdict
from itertools import pairwise

import pytest
import torch

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.ppo import Collector, PpoLearner
from engine.experiments.dppo.shared_state import Rollout
from engine.experiments.dppo.threads import CollectorThread, ThreadRecorder
from engine.recorder import MemoryRecorder
from engine.rl.kinds import kind_of
from tests.experiments.dppo.dppo_runs import board_of, config_of


def learned(config: DppoConfig) -> tuple[list[float], list[bool]]:
    """Carry out a run in threads of this process; return the actor's learning rate in each update, and whether that
    moved the policy.
    """
    board, kind, record = board_of(config), kind_of(config.environment), MemoryRecorder()
    kept: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    learner = PpoLearner(board, config, kind, kept.__getitem__, record)
    rates, moved, update = list[float](), list[bool](), learner._update

    def noted(batch: Rollout) -> dict[str, float]:
        before = learner.policy.weights.clone()
        values = update(batch)
        rates.append(learner.optimizer.parts[0].learning_rate)
        moved.append(not torch.equal(before, learner.policy.weights))
        return values

    learner._update = noted  # type: ignore[method-assign]
    own = ThreadRecorder(record)
    threads = [
        CollectorThread(board, Collector(board, config, kind, kept.__getitem__, own, place))
        for place in range(config.collectors)
    ]
    for thread in threads:
        thread.start()
    learner.learn()
    for thread in threads:
        thread.join()
        thread.check()
    return rates, moved


@pytest.mark.parametrize("total_steps", [384, 400, 384 * 3])
def test_each_batch_of_a_bounded_queue_has_its_place_on_the_line(total_steps: int) -> None:
    config = config_of(total_steps=total_steps, max_queue_size=12)  # 12 batches of 16 steps of 2 environments
    rates, moved = learned(config)
    assert all(moved)
    count = 12 * -(-total_steps // 384)
    assert rates == pytest.approx([config.learning_rate * (1 - place / count) for place in range(count)])


@pytest.mark.parametrize("mode", ["update_locked", "reader_writer", "unlocked"])
def test_the_rate_falls_and_ends_above_0_in_every_mode(mode: str) -> None:
    config = config_of(mode=mode, total_steps=1000)
    rates, _ = learned(config)
    assert rates[0] == config.learning_rate
    assert all(later <= earlier for earlier, later in pairwise(rates))
    assert 0 < rates[-1] < config.learning_rate
