"""Batched-RPC REINFORCE: one gradient whatever the mode, on every transport, in real processes; and what is said when
an observer falls out.
"""

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import RankFailed, RunFailed
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.messages import MessageLayout
from engine.experiments.batched_reinforce.method import _Agent, _AgentService
from engine.registry import method
from engine.rl.kinds import kind_of
from engine.runtime.transport.request_reply import Answer, Exchange, Request
from engine.runtime.worker.ranks import Rank
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments.batched_reinforce import reinforce_functions as functions
from tests.experiments.grids import grid
from tests.rank_functions import in_each_case
from tests.rank_logs import rounds_of

LONG = partial(pytest.param, marks=pytest.mark.long)
"""A pair of which each half is in another test that is not long."""
TRANSPORTS = ("rpc", "shared_memory")
MODES = ("batched", "per_call")
SMALL: dict[str, Any] = {
    "observers": 3,
    "episodes": 2,
    "steps": 40,
    "envs_per_observer": 2,
    "threads_per_rank": 1,
    "seed": 5,
    "device": "cpu",
}


def config_of(**changes: Any) -> BatchedReinforceConfig:
    return BatchedReinforceConfig.check(SMALL | changes)


def run_of(config: BatchedReinforceConfig, folder: Path) -> MemorySink:
    sink = MemorySink()
    ranks = process_ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, folder, sink)
    method("batched_reinforce")(config, ranks)
    return sink


def agent_of(config: BatchedReinforceConfig) -> _Agent:
    torch.manual_seed(config.seed)
    return _Agent(LocalRanks(config.roles)._rank(0, "agent"), config, kind_of(config.environment))


def played(config: BatchedReinforceConfig, order: list[int]) -> tuple[_Agent, dict[tuple[int, int], Tensor]]:
    """Let an agent answer made-up observers, who ask in `order` in each step, up to the end of a round; return it
    unlearned, and its answers.
    """
    agent = agent_of(config)
    agent.learn = lambda: None  # type: ignore[method-assign]
    service = _AgentService(LocalRanks(config.roles)._rank(0, "agent"), agent)
    answers: dict[tuple[int, int], Tensor] = {}
    random = torch.Generator().manual_seed(9)
    told = torch.randn(config.steps + 1, config.observers, *agent.layout.shape, generator=random)
    told[:, :, :, -1] = (torch.rand(told.shape[:3], generator=random) < 0.1).float()
    for step in range(config.steps + 1):
        for place in order:

            def respond(answer: Answer, vector: Tensor | None, step: int = step, place: int = place) -> None:
                assert vector is not None
                answers[step, place] = vector.clone()

            service(Request(place + 1, 0, step), told[step, place].flatten(), respond)
    return agent, answers


# ---- the gradient --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_everyone_is_answered_and_all_that_was_told_is_remembered(mode: str) -> None:
    config = config_of(mode=mode)
    agent, answers = played(config, [2, 0, 1])
    assert set(answers) == {(step, place) for step in range(config.steps + 1) for place in range(3)}
    for step in range(config.steps):
        given = torch.cat([answers[step, place][: config.envs_per_observer] for place in range(3)])
        assert torch.equal(given.long(), agent.memory.actions[step])
    assert set(agent.memory.actions.unique().tolist()) == {0, 1}


def test_both_modes_give_the_same_gradient_for_the_same_round() -> None:
    batched, _ = played(config_of(mode="batched"), [0, 1, 2])
    per_call = agent_of(config_of(mode="per_call"))
    per_call.memory = batched.memory
    for agent in (batched, per_call):
        agent.loss().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(batched.gradient, per_call.gradient)
    assert batched.gradient.abs().sum() > 0


def test_the_recomputed_gradient_is_that_of_graphs_kept_while_acting() -> None:
    agent, _ = played(config_of(), [0, 1, 2])
    memory, policy = agent.memory, agent.policy
    agent.loss().backward()  # type: ignore[no-untyped-call]
    found = agent.gradient.clone()
    agent.gradient.zero_()
    total = torch.zeros(())
    for column in range(memory.rewards.shape[1]):
        kept: list[Tensor] = []
        for step in range(len(memory.rewards)):
            scores = policy.log_probabilities(memory.states[step, column], memory.masks[step, column])
            kept.append(scores[memory.actions[step, column]])
            if memory.ends[step, column] or step == len(memory.rewards) - 1:
                rewards = memory.rewards[step + 1 - len(kept) : step + 1, column]
                total = total - sum(chosen * rewards[place:].sum() for place, chosen in enumerate(kept))
                kept = []
    (total / memory.rewards.shape[1]).backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(agent.gradient, found, rtol=1e-4, atol=1e-4)


def test_one_observer_batched_is_one_observer_per_call() -> None:
    (one, answers), (other, also) = (played(config_of(observers=1, mode=mode), [0]) for mode in MODES)
    assert all(torch.equal(answers[key], also[key]) for key in answers)
    assert torch.equal(one.loss(), other.loss())


def test_actions_are_drawn_with_the_policys_probabilities() -> None:
    torch.manual_seed(0)
    policy = agent_of(config_of()).policy
    state, mask = torch.randn(1, 4), torch.ones(1, 128, dtype=torch.bool)
    drawn = policy.act(state.expand(20_000, 4), mask.expand(20_000, 128)).float().mean()
    assert abs(float(drawn) - float(policy.log_probabilities(state, mask).exp().detach()[0, 1])) < 0.015


def test_the_length_of_first_sub_episodes() -> None:
    memory = agent_of(config_of(observers=1, envs_per_observer=3)).memory
    memory.ends[:] = False
    memory.ends[4, 0] = memory.ends[9, 0] = memory.ends[0, 1] = True
    assert memory.first_lengths().tolist() == [5.0, 1.0, 40.0]


# ---- whole runs ----------------------------------------------------------------------------------------------------


@pytest.mark.processes
@grid(mode=MODES, transport=TRANSPORTS)
def test_a_run_plays_all_its_steps_and_records_every_finished_episode(
    tmp_path: Path, mode: str, transport: str
) -> None:
    config = config_of(mode=mode, transport=transport)
    sink = run_of(config, tmp_path)
    assert sink.progress == (480, 480, "env steps")
    assert "perf/env_steps_per_second" in {point.name for point in sink.run_points}
    assert len(sink.values("charts/first_length", 0)) == len(sink.values("charts/running_length", 0)) == 2
    whole = 2 * (config.steps + 1) * 2 * MessageLayout.of(config, kind_of(config.environment)).size * 4 / 1e6
    for observer in (1, 2, 3):
        assert sink.values("perf/exchanged", observer)[-1] == pytest.approx(whole)
        rewards = sink.values("charts/episodic_return", observer)
        assert rewards == sink.values("charts/episodic_length", observer)
        assert rewards and 40 >= max(rewards) >= min(rewards) >= 8
    assert list(rounds_of(tmp_path).values()) == [["round 1 of 2", "round 2 of 2"]] * 4


@pytest.mark.processes
def test_the_transport_does_not_change_what_one_observer_learns(tmp_path: Path) -> None:
    configs = [config_of(observers=1, mode=mode, transport=transport) for mode in MODES for transport in TRANSPORTS]
    cases = [(config, exchange_of(config)) for config in configs]
    sink = MemorySink()
    process_ranks(("agent", "observer1"), ("cpu",) * 2, 1, 5, tmp_path, sink).run(
        in_each_case, functions.run_seeded, cases
    )
    losses, returns = sink.values("train/loss", 0), sink.values("charts/episodic_return", 1)
    assert len(losses) == 4 * 2 and losses == losses[:2] * 4 and returns == returns[: len(returns) // 4] * 4
    assert returns


@pytest.mark.processes
@pytest.mark.parametrize("mode", MODES)
def test_the_tutorial_variant_plays_and_learns_too(tmp_path: Path, mode: str) -> None:
    config = config_of(mode=mode, variant="tutorial", start_method="spawn", envs_per_observer=1)
    sink = MemorySink()
    ranks = process_ranks(config.roles, ("cpu",) * 4, 1, config.seed, tmp_path, sink, start_method="forkserver")
    method("batched_reinforce")(config, ranks)
    assert sink.progress[:2] == (3 * 2 * 40,) * 2
    assert len(sink.values("charts/first_length", 0)) == 2
    assert any(sink.values("charts/episodic_return", observer) for observer in (1, 2, 3)), (
        "that of one alone may end no episode in 2 x 40 steps"
    )
    assert list(rounds_of(tmp_path).values()) == [["round 1 of 2", "round 2 of 2"]] * 4


@pytest.mark.processes
@pytest.mark.parametrize("transport", ["rpc", LONG("shared_memory")])
def test_a_killed_observer_ends_the_run_with_its_name(tmp_path: Path, transport: str) -> None:
    with pytest.raises(RankFailed, match=r"observer2 \(rank 2, pid \d+\) was killed by signal 9"):
        fall(config_of(transport=transport), tmp_path, "die")


@pytest.mark.processes
def test_a_stopped_observer_ends_the_run_with_its_name_in_time(tmp_path: Path) -> None:
    with pytest.raises(
        RankFailed,
        match=r"observer2 sent no request for 8 s \(timeout_s\) in round 1, and observer1 and observer3 wait for it",
    ):
        fall(config_of(transport="shared_memory", timeout_s=8), tmp_path, "stop")


@pytest.mark.ranks
def test_nobody_is_said_to_wait_for_a_silent_observer_while_the_others_play() -> None:
    config, said = config_of(mode="per_call", timeout_s=8), list[str]()

    def answer(rank: Rank) -> None:
        service = _AgentService(rank, _Agent(rank, config, kind_of(config.environment)))
        for waiting in ([], [0], [0, 2]):
            service.heard_at[1] = time.monotonic() - 9
            service.waiting = dict.fromkeys(waiting, lambda answer, vector: None)
            with pytest.raises(RunFailed) as failure:
                service._check_observers()
            said.append(str(failure.value).partition(". ")[0])

    LocalRanks(config.roles[:1]).run(answer)
    silent = "observer2 sent no request for 8 s (timeout_s) in round 1"
    assert said == [
        silent,
        f"{silent}, and observer1 waits for it",
        f"{silent}, and observer1 and observer3 wait for it",
    ]


@pytest.mark.processes
def test_an_environment_that_raises_ends_the_run_with_its_name_and_step(tmp_path: Path) -> None:
    with pytest.raises(
        RankFailed, match=r"observer2's environment CartPole-v1 raised ValueError in step 11: the pole broke"
    ):
        fall(config_of(transport="shared_memory"), tmp_path, "raise")


def exchange_of(config: BatchedReinforceConfig) -> Exchange:
    size, clients = MessageLayout.of(config, kind_of(config.environment)).size, tuple(range(1, config.observers + 1))
    return Exchange.create(
        config.transport, size, server=0, server_role="agent", clients=clients, patience_s=config.patience_s
    )


def fall(config: BatchedReinforceConfig, folder: Path, how: str) -> None:
    """Run with an observer whose environment breaks in its eleventh step."""
    ranks = process_ranks(config.roles, ("cpu",) * len(config.roles), 1, config.seed, folder, MemorySink())
    ranks.run(functions.run_and_break, config, exchange_of(config), how)


@pytest.mark.long
def test_the_policy_learns_in_four_of_five_seeds(tmp_path: Path) -> None:
    better = 0
    for seed in range(5):
        (folder := tmp_path / str(seed)).mkdir()
        config = BatchedReinforceConfig.check(
            {"observers": 5, "episodes": 50, "transport": "shared_memory", "seed": seed, "device": "cpu"}
        )
        lengths = run_of(config, folder).values("charts/first_length", 0)
        better += sum(lengths[40:]) >= 2 * sum(lengths[:10])
    assert better >= 4


@pytest.mark.long
def test_batched_takes_less_time_with_many_observers_and_grows_more_slowly(tmp_path: Path) -> None:
    """The shape of the tutorial's figure: execution time against the number of observers."""
    seconds = {
        (mode, count): statistics.median(seconds_of(mode, count, seed, tmp_path) for seed in (1, 2, 3))
        for mode in MODES
        for count in (4, 8, 16)
    }
    assert all(seconds["batched", count] < seconds["per_call", count] for count in (4, 8, 16))
    assert seconds["batched", 16] - seconds["batched", 4] < seconds["per_call", 16] - seconds["per_call", 4]


def seconds_of(mode: str, observers: int, seed: int, folder: Path) -> float:
    """Return the seconds between the ends of the first and the fourth of short rounds."""
    (own := folder / f"{mode}-{observers}-{seed}").mkdir()
    sink = run_of(config_of(mode=mode, observers=observers, seed=seed, episodes=4, steps=100, envs_per_observer=1), own)
    times = [point.time_s for batch in sink.batches for point in batch.points if point.name == "train/loss"]
    return times[-1] - times[0]
