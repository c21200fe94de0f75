"""DPPO: whole weights, a queue that keeps its bound and loses nothing, and runs in every mode that end whenever they
are told to.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.data.nets import FlatAdam
from engine.errors import RankFailed
from engine.experiments.dppo.method import _Learner
from engine.experiments.dppo.modes import Mode
from engine.experiments.dppo.policy import PublishedPolicy
from engine.experiments.dppo.shared_state import Rollout, RolloutQueue, SharedState
from engine.recorder import MemoryRecorder
from engine.registry import method
from engine.rl.kinds import kind_of
from engine.runtime.rank.rank import FileLock
from engine.runtime.worker.ranks import StopRequested
from engine.system.processes import identity
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments.dppo import dppo_functions as functions
from tests.experiments.dppo.dppo_runs import board_of, config_of, ranks_of
from tests.experiments.grids import grid
from tests.rank_logs import rounds_of
from tests.waiting import wait_until

pytestmark = pytest.mark.processes
MODES = ("bounded_queue", "update_locked", "reader_writer", "unlocked", "bounded_lag")


# ---- what is shared ------------------------------------------------------------------------------------------------


def test_weights_are_taken_whole_while_another_process_publishes(tmp_path: Path) -> None:
    config = config_of()
    board, torn = board_of(config), torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
    ranks = process_ranks(("writer", "reader"), ("cpu", "cpu"), 1, 0, tmp_path, MemorySink())
    ranks.run(functions.publish_and_take, board, torn, 3000)
    taken, halves = torn.tolist()
    assert taken > 0 and halves == 0


def test_the_queue_is_first_in_first_out_and_counts_what_it_holds(tmp_path: Path) -> None:
    board = board_of(config_of(max_queue_size=3))
    queue = RolloutQueue(board, lambda name: FileLock(tmp_path, name, MemoryRecorder()))
    slots = [queue.take_free(0) for _ in range(3)]
    assert sorted(slots) == [0, 1, 2]
    with pytest.raises(IndexError, match="no slot is free"):
        queue.take_free(0)
    assert [queue.put(slot, 32) for slot in slots] == [1, 2, 3]
    assert board.counts.steps_collected == 96
    assert [queue.get(), queue.get()] == slots[:2] and queue.depth == 1
    queue.free(slots[0])
    assert queue.put(queue.take_free(0), 32) == 2
    assert [queue.get(), queue.get(), queue.get()] == [slots[2], slots[0], None]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_and_adamw_on_flat_weights_are_torchs(decay: float) -> None:
    weights, theirs = torch.linspace(-1, 1, 50), torch.linspace(-1, 1, 50).requires_grad_()
    gradient = torch.zeros(50)
    ours = FlatAdam(weights, gradient, 0.01, weight_decay=decay)
    plain = torch.optim.AdamW([theirs], lr=0.01, weight_decay=decay)
    for step in range(20):
        gradient.copy_(torch.randn(50, generator=torch.Generator().manual_seed(step)))
        theirs.grad = gradient.clone()
        ours.step()
        plain.step()
    assert torch.allclose(weights, theirs.detach(), rtol=1e-5, atol=1e-6)


# ---- whole runs ----------------------------------------------------------------------------------------------------


@grid(mode=MODES, collectors_as=("processes", "threads"))
def test_a_run_collects_its_steps_learns_and_ends(tmp_path: Path, mode: str, collectors_as: str) -> None:
    config = config_of(mode=mode, collectors_as=collectors_as)
    ranks, sink = ranks_of(config, tmp_path)
    board = board_of(config)
    ranks.run(functions.run_rank, config, board)
    counts, rounds = board.counts, rounds_of(tmp_path)
    assert rounds["learner"] == [f"update {number}" for number in range(1, counts.version + 1)]
    assert all("rollout 1" in lines for role, lines in rounds.items() if role.startswith("collector"))
    assert counts.steps_collected >= 2000
    assert 0 < counts.steps_used <= counts.steps_collected
    assert max(sink.values("perf/queue_depth", 0)) <= config.bound
    assert len(sink.values("test/episodic_return", 0)) == 1
    for name in ("train/policy_loss", "train/value_loss", "train/entropy", "train/kl", "perf/policy_age"):
        values = sink.values(name, 1)
        assert len(values) == counts.version and np.isfinite(values).all()
    players = [1] if collectors_as == "threads" else [2, 3, 4]
    rewards = [reward for rank in players for reward in sink.values("charts/episodic_return", rank)]
    assert all(8 <= reward <= 500 for reward in rewards)
    assert sum(rewards) > counts.steps_collected / 2, (
        "a reward a step: most steps are of episodes that ended; how many were whose is for the machine to say"
    )
    if mode != "unlocked":
        assert counts.mixed_rollouts == 0
        assert counts.synchronizations > 0


def test_a_bounded_queue_uses_every_step_and_synchronizes_once_in_a_queueful(tmp_path: Path) -> None:
    config = config_of(max_queue_size=5, total_steps=5 * 32 * 6)
    ranks, sink = ranks_of(config, tmp_path)
    board = board_of(config)
    ranks.run(functions.run_rank, config, board)
    counts = board.counts
    assert counts.steps_collected == counts.steps_used == counts.rollouts * 32 == config.total_steps
    assert sink.values("perf/steps_used", 1) == [100 * used / (5 * -(-used // 5)) for used in range(1, 31)], (
        "of all batches collected so far, those in the queue too"
    )
    assert counts.synchronizations == counts.rollouts // 5
    batches = 30 * board.bytes_of(0, 32)
    taken = (
        sum(1e6 * max([0.0, *sink.values("perf/exchanged", rank)]) for rank in (2, 3, 4)) - batches
    ) / board.weights[0].nbytes
    assert taken == pytest.approx(round(taken)) and taken >= 30, (
        "each batch was played with a policy that was taken whole"
    )


def train_after(monkeypatch: pytest.MonkeyPatch, board: SharedState, holds: Callable[[], bool]) -> None:
    """Let the learner take no batch before `holds`."""
    get = Mode._get

    def late(mode: Mode, *may: Any) -> int | None:
        try:
            wait_until(holds, "the learner may take a batch")
        except BaseException:
            board.stop()  # else the other ranks would wait for the learner
            raise
        return get(mode, *may)

    monkeypatch.setattr(Mode, "_get", late)


@pytest.mark.ranks
@pytest.mark.parametrize("mode", ["bounded_queue", "update_locked", "unlocked"])
def test_all_that_is_collected_is_used_however_fast_the_collectors_are(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(mode=mode, total_steps=6 * 32)  # as many batches as fit into the queue
    board = board_of(config)
    train_after(monkeypatch, board, lambda: board.counts.steps_collected >= config.total_steps)
    ranks = LocalRanks(config.roles)
    ranks.run(functions.run_rank, config, board)
    assert board.counts.steps_collected == board.counts.steps_used == config.total_steps
    assert board.counts.queue_depth == 0
    assert ranks.recorders["learner"].values("perf/steps_used")[-1] == 100.0


@pytest.mark.ranks
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_ends_early_counts_what_it_does_not_use(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(mode=mode, total_steps=10**8)
    board, update = board_of(config), _Learner._update

    def last(learner: _Learner, rollout: Rollout) -> dict[str, float]:
        board.stop()
        return update(learner, rollout)

    monkeypatch.setattr(_Learner, "_update", last)
    if mode in ("update_locked", "unlocked"):
        train_after(monkeypatch, board, lambda: board.counts.queue_depth > 1)
    ranks = LocalRanks(config.roles)
    ranks.run(functions.run_rank, config, board)
    counts, shares = board.counts, ranks.recorders["learner"].values("perf/steps_used")
    assert shares[-1] == 100 * counts.steps_used / counts.steps_collected
    assert (shares[-1] == 100.0) == (mode == "bounded_queue"), "which trains on its whole queue in any case"


@pytest.mark.parametrize("mode", ["bounded_queue", pytest.param("reader_writer", marks=pytest.mark.long)])
def test_a_seed_reproduces_a_run_of_one_collector(tmp_path: Path, mode: str) -> None:
    found = []
    for name in ("first", "second"):
        (folder := tmp_path / name).mkdir()
        config = config_of(mode=mode, collectors=1)
        ranks, sink = ranks_of(config, folder)
        method("dppo")(config, ranks)
        found.append(
            (
                sink.values("train/policy_loss", 1),
                sink.values("charts/episodic_return", 2),
                sink.values("test/episodic_return", 0),
            )
        )
    assert len(found[0][0]) > 10
    assert found[0] == found[1]


@pytest.mark.long
def test_reader_writer_uses_about_one_collectors_share(tmp_path: Path) -> None:
    config = config_of(mode="reader_writer", collectors=4, envs_per_collector=1, batch_steps=64, total_steps=6400)
    ranks, _ = ranks_of(config, tmp_path)
    board = board_of(config)
    ranks.run(functions.run_rank, config, board)
    share = board.counts.steps_used / board.counts.steps_collected
    assert 0.1 < share < 0.7


def test_every_batch_has_one_policy_version_and_its_own_log_probabilities(tmp_path: Path) -> None:
    config = config_of(collectors=2, max_queue_size=4, total_steps=1500)
    ranks, _ = ranks_of(config, tmp_path)
    checked = torch.zeros(2).share_memory_()  # type: ignore[no-untyped-call]
    ranks.run(functions.check_batches, config, board_of(config), checked)
    batches, worst = checked.tolist()
    assert batches >= 8
    assert worst < 1e-5


@grid(environment=("Pendulum-v1", "FrozenLake-v1"), collectors_as=("processes", "threads"))
def test_vectors_and_one_hot_observations_are_played_too(tmp_path: Path, environment: str, collectors_as: str) -> None:
    config = config_of(
        environment=environment, collectors_as=collectors_as, normalize_observations=True, network="published"
    )
    ranks, sink = ranks_of(config, tmp_path)
    method("dppo")(config, ranks)
    assert np.isfinite(sink.values("train/value_loss", 1)).all()


@grid(mode=MODES, role=("learner", "collector2"))
def test_a_killed_rank_ends_the_run_with_its_name(tmp_path: Path, mode: str, role: str) -> None:
    config = config_of(mode=mode, total_steps=10**8)
    ranks, sink = ranks_of(config, tmp_path)
    killed: list[int] = []

    def kill_when_playing() -> bool:
        if not killed and any(batch.rank == 2 for batch in sink.batches):
            killed.append(next(member.pid for member in ranks.members if member.plan.role == role))
            os.kill(killed[0], signal.SIGKILL)  # once: a moment later the process is gone
        return False

    ranks.stop_requested = kill_when_playing
    with pytest.raises(RankFailed, match=rf"{role} \(rank \d, pid \d+\) was killed by signal 9"):
        method("dppo")(config, ranks)


PHASES: dict[str, tuple[dict[str, Any], Any]] = {
    "filling": ({"batch_steps": 5000}, lambda counts: counts.queue_depth == 0),
    "full": (
        {"batch_steps": 400, "epochs": 100, "minibatches": 400},
        lambda counts: counts.queue_depth == counts.rollouts + 5,
    ),
    "draining": ({"epochs": 20}, lambda counts: 0 < counts.queue_depth < 3 and counts.rollouts > 6),
    "evaluating": ({"evaluate_every_s": 0.01, "evaluation_episodes": 1000}, lambda counts: counts.rollouts > 20),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded(tmp_path: Path, phase: str) -> None:
    changes, holds = PHASES[phase]
    config = config_of(total_steps=10**8, **changes)
    ranks, sink = ranks_of(config, tmp_path)
    board = board_of(config)

    def pressed() -> bool:
        return bool(sink.values("perf/queue_depth", 0)) and holds(board.counts)

    ranks.stop_requested = pressed
    with pytest.raises(StopRequested):
        ranks.run(functions.run_rank, config, board)
    assert not [member.pid for member in ranks.members if identity(member.pid)]
    assert min(sink.values("perf/queue_depth", 0)) >= 0


def test_an_environment_that_hangs_is_named(tmp_path: Path) -> None:
    config = config_of(timeout_s=8, total_steps=10**8)
    ranks, _ = ranks_of(config, tmp_path)
    with pytest.raises(
        RankFailed,
        match=r"collector2's environments have been in one step for 8 s \(timeout_s\): CartPole-v1 hangs",
    ):
        ranks.run(functions.take_part_and_break, config, board_of(config), "hang")


def test_an_environment_that_raises_is_named_with_its_step(tmp_path: Path) -> None:
    config = config_of(total_steps=10**8)
    ranks, _ = ranks_of(config, tmp_path)
    with pytest.raises(
        RankFailed, match=r"collector2's environment CartPole-v1 raised ValueError in step 11: the pole broke"
    ):
        ranks.run(functions.take_part_and_break, config, board_of(config), "raise")


def test_losses_that_are_not_finite_end_the_run_with_the_update() -> None:
    config = config_of(collectors=1)
    board, kind = board_of(config), kind_of("CartPole-v1")
    learner = _Learner(board, config, kind, lambda name: threading.Lock(), MemoryRecorder())
    batch = board.rollout(0)
    batch.rewards[0, 0] = torch.nan
    with pytest.raises(
        Exception, match=r"learner's losses became .*nan.* in update 1\. Lower learning_rate \(0\.0025\)"
    ):
        learner._update(batch)
    assert board.counts.stopped == 0 and board.counts.queue_depth == 0
    assert PublishedPolicy(board, lambda name: threading.Lock()).version == 0
