"""The agent and its observers as the published code builds them: a remote reference in every call, a live autograd
graph for every step.

Kept to measure its cost against the engine variant. Fixed: gymnasium's API; each forward pass gets a copy of the
states, since backward needs them unchanged; returns weight the actions of their own observer and sub-episode; every
observer has its own seed.
"""

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.futures import Future

from engine.errors import RunFailed
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.messages import HIDDEN
from engine.rl.actor_critic import returns_of
from engine.rl.environments import Environments
from engine.rl.kinds import Kind, kind_of
from engine.runtime.transport.rpc import (
    PUBLISHED_THREADS,
    answered_later,
    call,
    call_async,
    joined,
    reference_to,
    result_of,
)
from engine.runtime.worker.ranks import Rank
from engine.seeding import ENVIRONMENT

_observer: list["TutorialObserver"] = []
"""The observer of this process, if any."""
ACTION_BYTES = 8
Played = tuple[Tensor, Tensor]
"""An observer's rewards and sub-episode ends in one round, each [T]."""


def run_rank(rank: Rank, config: BatchedReinforceConfig) -> None:
    """Run the agent or an observer for all rounds."""
    kind = kind_of(config.environment)
    if rank.index == 0:
        torch.manual_seed(config.seed)  # as published
        agent = TutorialAgent(config, kind)
        with joined(rank, config.patience_s, threads=PUBLISHED_THREADS):
            rank.ready()
            agent.play(rank)
            rank.barrier("played")
        return
    _observer[:] = [TutorialObserver(rank, config, kind)]
    with joined(rank, config.patience_s, threads=PUBLISHED_THREADS):
        rank.ready()
        with rank.recorder.phase("serve"):
            rank.barrier("played")


class TutorialAgent:
    """The policy, and the log-probabilities of one round with their graphs."""

    def __init__(self, config: BatchedReinforceConfig, kind: Kind) -> None:
        assert kind.choices is not None
        self.config = config
        self.policy = nn.Sequential(
            nn.Linear(kind.observation, HIDDEN),
            nn.Dropout(config.dropout),
            nn.ReLU(),
            nn.Linear(HIDDEN, kind.choices),
            nn.Softmax(dim=1),
        )
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=config.learning_rate)
        self.states = torch.zeros(config.observers, kind.observation)
        self.chosen: list[list[Tensor]] = [[] for _ in range(config.observers)]
        """By observer: the log-probability of each action."""
        self.future: Future[Any] = Future()
        self.pending = config.observers
        self.lock = threading.Lock()

    def play(self, rank: Rank) -> None:
        """Run all rounds and train after each."""
        config, me = self.config, reference_to(self)
        running: float | None = None
        for episode in range(1, config.episodes + 1):
            with rank.recorder.phase("wait"):
                futures = [call_async(role, run_round, me) for role in config.observer_roles]
                played: list[Played] = [
                    result_of(role, future) for role, future in zip(config.observer_roles, futures, strict=True)
                ]
            with rank.recorder.phase("update"):
                loss, first = self._learn(
                    torch.stack([rewards for rewards, _ in played], 1), torch.stack([ends for _, ends in played], 1)
                )
            running = first if running is None else 0.5 * first + 0.5 * running
            values = {"train/loss": loss, "charts/first_length": first, "charts/running_length": running}
            rank.recorder.log(values, step=episode * config.steps, passes=float(episode))
            rank.recorder.summarize("round", episode, config.episodes)

    def _learn(self, rewards: Tensor, ends: Tensor) -> tuple[float, float]:
        returns = returns_of(rewards, ends, self.config.gamma)
        log_probabilities = torch.stack([torch.stack(steps) for steps in self.chosen], 1)
        loss = -(log_probabilities * returns).sum() / self.config.observers
        if not torch.isfinite(loss):
            raise RunFailed(f"agent's loss became {loss.item()}. Lower learning_rate ({self.config.learning_rate}).")
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.chosen = [[] for _ in range(self.config.observers)]
        first = torch.where(ends.any(0), ends.int().argmax(0) + 1, len(ends))
        return loss.item(), float(first.float().mean())

    def act_at_once(self, place: int, state: Tensor) -> int:
        """Answer one observer with its own forward pass."""
        with self.lock:
            choice = Categorical(self.policy(state.unsqueeze(0)))
            action: Tensor = choice.sample()  # type: ignore[no-untyped-call]
            self.chosen[place].append(choice.log_prob(action)[0])  # type: ignore[no-untyped-call]
            return int(action)

    def act_together(self, place: int, state: Tensor) -> Future[Any]:
        """Store the state; the request that completes the step computes the actions of all."""
        answer: Future[Any] = self.future.then(lambda actions: int(actions.wait()[place]))
        with self.lock:
            self.states[place].copy_(state)
            self.pending -= 1
            if self.pending == 0:
                choice = Categorical(self.policy(self.states.clone()))
                actions = choice.sample()  # type: ignore[no-untyped-call]
                for each, log_probability in enumerate(choice.log_prob(actions)):  # type: ignore[no-untyped-call]
                    self.chosen[each].append(log_probability)
                complete, self.future, self.pending = self.future, Future(), self.config.observers
                complete.set_result(actions)
        return answer


def ask_at_once(agent: Any, place: int, state: Tensor) -> int:
    """Send a state to the agent and return its action."""
    action: int = agent.local_value().act_at_once(place, state)
    return action


@answered_later
def ask_together(agent: Any, place: int, state: Tensor) -> Future[Any]:
    """Send a state to the agent; its action arrives when every observer has sent one."""
    future: Future[Any] = agent.local_value().act_together(place, state)
    return future


class TutorialObserver:
    """One environment and its rollout."""

    def __init__(self, rank: Rank, config: BatchedReinforceConfig, kind: Kind) -> None:
        self.rank = rank
        self.config = config
        self.environments = Environments(kind, 1, rank.seed_of(ENVIRONMENT), rank.role)
        self.steps = 0

    def run_round(self, agent: Any) -> Played:
        """Play one round, requesting every action from the agent."""
        ask = ask_together if self.config.mode == "batched" else ask_at_once
        rewards, ends = torch.zeros(self.config.steps), torch.zeros(self.config.steps, dtype=torch.bool)
        self.environments.reset()
        for step in range(self.config.steps):
            state = torch.from_numpy(self.environments.observations[0].copy())
            action = call(agent.owner_name(), ask, agent, self.rank.index - 1, state)
            self.rank.recorder.exchanged(state.nbytes + ACTION_BYTES)
            found = self.environments.step(torch.tensor([action]).numpy())
            rewards[step], ends[step] = float(found.rewards[0]), bool(found.terminated[0] or found.truncated[0])
            self.steps += 1
            for reward, length in self.environments.take_finished():
                self.rank.recorder.log(
                    {"charts/episodic_return": reward, "charts/episodic_length": length}, step=self.steps
                )
        self.rank.recorder.progress(self.steps, self.config.episodes * self.config.steps, "env steps")
        self.rank.recorder.summarize("round", self.steps // self.config.steps, self.config.episodes)
        return rewards, ends


def run_round(agent: Any) -> Played:
    """Run a round on this process's observer."""
    return _observer[0].run_round(agent)
