"""Mode bounded_lag: no rollout is trained on with a policy that is too old, each order keeps its promise, a lag of 0 is
the synchronous method bit for bit, and V-trace is what its paper defines.
"""

import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ConfigError
from engine.experiments.dppo import evaluation
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.method import LARGEST_WEIGHT, _Collector, _Learner
from engine.experiments.dppo.modes import Mode, mode_of
from engine.experiments.dppo.shared_state import Locks, Rollout, SharedState
from engine.recorder import MemoryRecorder
from engine.rl.actor_critic import ActorCritic, advantages_of, vtrace
from engine.rl.kinds import kind_of
from tests.doubles import LocalRanks
from tests.experiments.dppo import dppo_functions as functions
from tests.experiments.dppo.dppo_runs import board_of, config_of

pytestmark = pytest.mark.ranks
BATCH = {"collectors": 3, "envs_per_collector": 1, "batch_steps": 2, "minibatches": 1}


@pytest.fixture(autouse=True)
def short_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "CONFIRM", 2)


def lag_config(**changes: Any) -> DppoConfig:
    return config_of(**{"mode": "bounded_lag", **changes})


def own_locks() -> Locks:
    kept: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
    return kept.__getitem__


# ---- Orders, without policies: threads that begin and finish rollouts at random times ------------------------------


class Schedule:
    """A run of which each rank only sleeps: what the learner was given."""

    def __init__(self, config: DppoConfig, seed: int, sleeps_ms: float = 1.0) -> None:
        self.board, self.config, self.random = board_of(config), config, Random(seed)
        self.lags: list[int] = []
        self.updates: list[list[int]] = []
        self.records = [MemoryRecorder() for _ in range(1 + config.collectors)]
        self._locks, self._longest_s = own_locks(), sleeps_ms / 1000
        collectors = [threading.Thread(target=self._collect, args=(place,)) for place in range(config.collectors)]
        for collector in collectors:
            collector.start()
        self._learn()
        for collector in collectors:
            collector.join()

    def _mode(self, place: int, record: int) -> Mode:
        return mode_of(self.config)(self.board, self.config, self._locks, self.records[record], place)

    def _collect(self, place: int) -> None:
        mode = self._mode(place, 1 + place)
        while (slot := mode.begin()) is not None:
            header = self.board.header(slot)
            header.first_version = self.board.counts.version
            time.sleep(self.random.random() ** 3 * self._longest_s * (1 + place))
            mode.finish(slot, self.config.batch_steps)

    def _learn(self) -> None:
        counts = self.board.counts
        for slots in self._mode(0, 0).updates():
            headers = [self.board.header(slot) for slot in slots]
            self.lags += [counts.version - header.first_version for header in headers]
            self.updates.append([header.number for header in headers])
            time.sleep(self.random.random() ** 3 * self._longest_s)
            counts.rollouts += len(slots)
            counts.version += 1

    @property
    def dropped(self) -> list[int]:
        return [each.number for record in self.records for each in record.operations if each.name == "drop"]


@pytest.mark.parametrize("order", ["strict_fifo", "windowed", "drop_oldest"])
@pytest.mark.parametrize("most", [0, 1, 3, None])
def test_the_lag_of_no_rollout_exceeds_its_bound_and_each_is_used_or_dropped_once(order: str, most: int | None) -> None:
    config = lag_config(**BATCH, max_lag=most, lag_order=order, total_steps=6 * 25)
    for seed in range(2):
        found = Schedule(config, seed)
        assert most is None or max(found.lags) <= most
        assert all(len(numbers) == 3 and numbers == sorted(numbers) for numbers in found.updates)
        used = [number for numbers in found.updates for number in numbers]
        assert max(Counter([*used, *found.dropped]).values()) == 1
        assert found.board.counts.dropped_rollouts == len(found.dropped)
        if order == "drop_oldest":
            assert found.board.counts.steps_collected >= config.total_steps
            continue
        assert sorted(used) == list(range(75)), (
            "nothing is lost, and the run ends with the rollout that reaches its steps"
        )
        assert not found.dropped
        if order == "strict_fifo":
            assert used == list(range(75))


def test_collectors_wait_for_a_newer_policy_and_the_learner_counts_its_waits() -> None:
    for most in (0, 1):
        found = Schedule(lag_config(**BATCH, max_lag=most, total_steps=36), seed=1)
        assert 0 < found.board.counts.synchronizations <= 6
        waits = Counter(each.name for each in found.records[1].operations if each.kind == "wait")
        assert set(waits) == {"newer policy"}
        assert max(found.lags) <= most


def modes_of(config: DppoConfig) -> tuple[SharedState, list[Mode], MemoryRecorder]:
    """Return a state, each collector's side of the mode, and the record of the first; the learner's is one of them."""
    board, locks, record = board_of(config), own_locks(), MemoryRecorder()
    return board, [mode_of(config)(board, config, locks, record, place) for place in range(config.collectors)], record


def test_a_full_queue_drops_exactly_its_oldest_rollout_and_an_update_what_is_too_old() -> None:
    config = lag_config(**BATCH, max_lag=1, lag_order="drop_oldest", max_queue_size=3, total_steps=10**6)
    board, (mode, *_), record = modes_of(config)
    slots = [mode.begin() for _ in range(5)]
    assert [board.header(slot).number for slot in slots if slot is not None] == [0, 1, 2, 3, 4]
    for place in (3, 1, 4):
        mode.finish(slots[place], 2)
    assert not board.counts.dropped_rollouts
    mode.finish(slots[2], 2)  # the queue holds 1, 2, 3 and 4
    assert [each.number for each in record.operations if each.name == "drop"] == [1]
    mode.finish(slots[0], 2)  # it is itself the oldest
    assert [each.number for each in record.operations if each.name == "drop"] == [1, 0]
    assert (board.counts.dropped_rollouts, board.counts.queue_depth) == (2, 3)

    for place, version in ((2, 4), (3, 2), (4, 3)):
        board.header(slots[place]).first_version = version
    board.counts.version = 4
    taken = mode._choose(3)
    assert taken == slots[2] and board.counts.dropped_rollouts == 3, "3 is two updates old, 2 is of this version"
    assert mode._choose(2) == slots[4] and mode._choose(1) is None


def test_windowed_waits_only_for_a_rollout_that_would_become_too_old() -> None:
    config = lag_config(**BATCH, max_lag=1, lag_order="windowed", total_steps=10**6)
    board, modes, _ = modes_of(config)
    learner = modes[0]
    learner._permit(2)
    slots = [mode.begin() for _ in range(2) for mode in modes]
    for place in (5, 4, 3):
        modes[place % 3].finish(slots[place], 2)
    assert [learner._choose(left) for left in (3, 2, 1)] == slots[3:], "1 to 3 can wait for the next update"
    for slot in slots[3:]:
        learner.queue.free(slot)
    board.counts.version = 1
    learner._permit(1)
    more = [mode.begin() for mode in modes]
    modes[0].finish(more[0], 2)
    assert learner._choose(3) is None, "0, 1 and 2 have to go into this update"
    assert learner._awaited(3) == 2, "collector1, which plays the oldest"
    modes[1].finish(slots[1], 2)
    assert learner._choose(3) == slots[1]


def test_strict_fifo_waits_for_the_collector_whose_turn_it_is() -> None:
    board, modes, _ = modes_of(lag_config(**BATCH, max_lag=1, total_steps=10**6))
    learner = modes[0]
    learner._permit(2)
    first = [mode.begin() for mode in modes]
    modes[2].finish(first[2], 2)
    modes[2].finish(modes[2].begin(), 2)
    modes[0].finish(first[0], 2)
    assert learner._choose(3) == first[0] and learner._choose(2) is None
    assert learner._awaited(2) == 3, "collector2"
    assert [board.header(slot).number for slot in first] == [0, 1, 2]


def test_an_update_of_fewer_rollouts_than_collectors_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_queue_size must be at least the collectors \(3\) for mode bounded_lag"):
        lag_config(max_queue_size=2)
    with pytest.raises(ConfigError, match=r"c_bar must be at most rho_bar"):
        lag_config(c_bar=2)


# ---- A lag of 0 is the synchronous method --------------------------------------------------------------------------


@pytest.fixture
def own_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw each policy's actions from a generator of its own, since the ranks of these tests are threads."""

    def act(net: ActorCritic, states: Tensor) -> tuple[Tensor, Tensor]:
        distribution: Any = net.distribution(net.actor(states))
        draws = net.__dict__.setdefault("draws", torch.Generator().manual_seed(7))
        actions = torch.multinomial(distribution.scores.exp(), 1, generator=draws).squeeze(-1)
        return actions, distribution.log_probabilities(actions)

    monkeypatch.setattr(ActorCritic, "act", act)


def weights_after(config: DppoConfig) -> tuple[Tensor, LocalRanks]:
    board, ranks = board_of(config), LocalRanks(config.roles)
    ranks.run(functions.run_rank, config, board)
    return board.weights[board.counts.version % 2], ranks


def synchronous_weights(config: DppoConfig, updates: int) -> Tensor:
    """Return the weights after updates on one rollout of each collector, one step after another in this thread."""
    board, kind, locks = board_of(config), kind_of(config.environment), own_locks()
    learner = _Learner(board, config, kind, locks, MemoryRecorder())
    collectors = [_Collector(board, config, kind, locks, MemoryRecorder(), place) for place in range(config.collectors)]
    for _ in range(updates):
        rollouts = [board.rollout(place) for place in range(config.collectors)]
        for collector, rollout in zip(collectors, rollouts, strict=True):
            with torch.inference_mode():
                collector._take_policy()
                collector._play_rollout(rollout)
        learner._update(Rollout.together(rollouts))
        board.counts.rollouts += config.collectors
        learner.published.publish(learner.policy.state)
    return learner.policy.state


@pytest.mark.usefixtures("own_draws")
def test_a_lag_of_0_is_the_synchronous_method_bit_for_bit() -> None:
    config = lag_config(max_lag=0, total_steps=4 * 96)
    found, ranks = weights_after(config)
    assert torch.equal(found, synchronous_weights(config, 4))
    assert ranks.recorders["learner"].values("perf/policy_age") == [0.0] * 4
    assert ranks.recorders["learner"].histograms["policy_age"] == {0: 12}


@pytest.mark.usefixtures("own_draws")
def test_a_lag_of_0_with_one_collector_is_a_queue_of_one_batch() -> None:
    settings = {"collectors": 1, "total_steps": 5 * 32}
    queued, _ = weights_after(config_of(**settings, mode="bounded_queue", max_queue_size=1))
    bounded, _ = weights_after(lag_config(**settings, max_lag=0, lag_order="windowed"))
    assert torch.equal(bounded, queued)


@pytest.mark.parametrize("order", ["windowed", "drop_oldest"])
def test_a_run_records_the_lag_of_each_rollout_it_trains_on(order: str, tmp_path: Path) -> None:
    config = lag_config(max_lag=2, lag_order=order, lag_correction="vtrace", sleep_ms=0.1, total_steps=960)
    board, ranks = board_of(config), LocalRanks(config.roles, folder=tmp_path)
    ranks.run(functions.run_rank, config, board)
    record = ranks.recorders["learner"]
    lags = record.histograms["policy_age"]
    assert sum(lags.values()) == board.counts.rollouts and max(lags) <= 2
    dropped = record.values("perf/rollouts_dropped")
    assert (dropped == sorted(dropped) and len(dropped) > 0) if order == "drop_oldest" else not dropped


# ---- Corrections ---------------------------------------------------------------------------------------------------


def steps_of(count: int = 9, width: int = 4) -> dict[str, Tensor]:
    """Return random steps whose episodes terminate and are truncated here and there."""
    torch.manual_seed(5)
    values, ends = torch.randn(count, width), torch.rand(count, width) < 0.25
    after = torch.where(ends, torch.randn(count, width) * (torch.rand(count, width) < 0.5), values.roll(-1, 0))
    return {"rewards": torch.randn(count, width), "values": values, "after": after, "ends": ends}


def test_vtrace_of_the_own_policy_is_generalized_advantage_estimation_bit_for_bit() -> None:
    steps, ones = steps_of(), torch.ones(9, 4)
    for lambda_ in (0.0, 0.95, 1.0):
        expected = advantages_of(**steps, gamma=0.9, lambda_=lambda_)
        advantages, targets = vtrace(**steps, gamma=0.9, lambda_=lambda_, rho=ones, c=ones)
        assert torch.equal(advantages, expected)
        assert torch.equal(targets, steps["values"] + expected)


def test_vtrace_is_the_sum_that_its_paper_defines() -> None:
    """Equation 1 of Espeholt et al. 2018, step by step, and its advantage rho (r + gamma v' - V)."""
    steps, gamma = steps_of(), 0.9
    ratios = torch.rand(9, 4) * 2
    rho, c = ratios.clamp(max=1.2), ratios.clamp(max=0.8)
    advantages, targets = vtrace(**steps, gamma=gamma, lambda_=1.0, rho=rho, c=c)
    rewards, values, after, ends = steps.values()
    for place in range(4):
        for start in range(9):
            total, weight = values[start, place].clone(), torch.tensor(1.0)
            for step in range(start, 9):
                error = rewards[step, place] + gamma * after[step, place] - values[step, place]
                total += gamma ** (step - start) * weight * rho[step, place] * error
                weight *= c[step, place]
                if ends[step, place]:
                    break
            torch.testing.assert_close(targets[start, place], total)
            is_last = start == 8 or bool(ends[start, place])
            following = after[start, place] if is_last else targets[start + 1, place]
            gained = rho[start, place] * (rewards[start, place] + gamma * following - values[start, place])
            torch.testing.assert_close(advantages[start, place], gained)


def played(config: DppoConfig) -> tuple[_Learner, Rollout]:
    """Return a learner and a rollout of its own policy."""
    board, kind, locks = board_of(config), kind_of(config.environment), own_locks()
    learner = _Learner(board, config, kind, locks, MemoryRecorder())
    torch.manual_seed(11)
    collector = _Collector(board, config, kind, locks, MemoryRecorder(), 0)
    rollout = board.rollout(0)
    with torch.inference_mode():
        collector._take_policy()
        collector._play_rollout(rollout)
    return learner, rollout


def test_all_corrections_are_the_same_for_the_own_policy_and_differ_for_another() -> None:
    found: dict[str, list[Tensor]] = {}
    for correction in ("none", "clipped", "decoupled", "vtrace"):
        learner, rollout = played(lag_config(lag_correction=correction, environment="Pendulum-v1", epochs=1))
        learner._update(rollout)
        same = learner.policy.state.clone()
        learner, rollout = played(lag_config(lag_correction=correction, environment="Pendulum-v1", epochs=1))
        rollout.log_probabilities.add_(torch.linspace(-1, 1, 32).view(16, 2))
        learner._update(rollout)
        found[correction] = [same, learner.policy.state]
    for one, other in pairwise(found):
        torch.testing.assert_close(found[one][0], found[other][0], rtol=1e-3, atol=1e-5)
        assert not torch.allclose(found[one][1], found[other][1], rtol=1e-3, atol=1e-4)


def test_decoupled_clips_against_the_policy_before_the_update_and_weighs_by_that_of_the_behaviour() -> None:
    learner, rollout = played(lag_config(lag_correction="decoupled", epochs=1, minibatches=1))
    before = rollout.log_probabilities.clone()
    rollout.log_probabilities.sub_(torch.linspace(-1, 2, 32).view(16, 2))
    given: list[tuple[Tensor, ...]] = []
    learner._step = lambda *parts: given.append(parts) or torch.zeros(4)  # type: ignore[method-assign, func-returns-value]
    learner._update(rollout)
    ((_, _, base, _, _, weights),) = given
    torch.testing.assert_close(base.sort().values, before.flatten().sort().values, rtol=1e-4, atol=1e-5)
    expected = torch.linspace(-1, 2, 32).exp().clamp(max=LARGEST_WEIGHT)
    torch.testing.assert_close(weights.sort().values, expected.sort().values, rtol=1e-4, atol=1e-5)
    assert weights.max() == LARGEST_WEIGHT
