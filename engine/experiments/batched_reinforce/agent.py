"""The agent: answers observers with actions, remembers what they saw and did, and learns from it after each round."""

import threading
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.data.weights import FlatAdam, bind, drawn_from, flat_weights
from engine.errors import RunFailed
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.policy import HIDDEN, Policy
from engine.rl.kinds import Kind
from engine.rl.returns import returns_of
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.seeding import WEIGHTS, seed_of

LOOK_S = 0.05
OBSERVATION, REWARD, END = 0, -2, -1


@dataclass(frozen=True)
class Layout:
    """What one message holds: a row for each environment of an observer, [observation | reward of the step before |
    whether it ended].
    """

    environments: int
    observation: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.environments, self.observation + 2

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


def layout(config: BatchedReinforceConfig, kind: Kind) -> Layout:
    """Return the layout of a run's messages."""
    return Layout(config.envs_per_observer, kind.observation)


class Memory:
    """One round: what all M environments saw, did and earned in T steps. `ends` marks steps after which a sub-episode
    was over.
    """

    def __init__(self, steps: int, environments: int, observation: int, device: torch.device) -> None:
        self.states = torch.zeros(steps, environments, observation)
        self.masks = torch.zeros(steps, environments, HIDDEN, dtype=torch.bool, device=device)
        self.actions = torch.zeros(steps, environments, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(steps, environments)
        self.ends = torch.zeros(steps, environments, dtype=torch.bool)

    def first_lengths(self) -> Tensor:
        """Return the length of each environment's first sub-episode in this round, [M]; the whole round where none
        ended.
        """
        ended = self.ends.int().argmax(0) + 1
        return torch.where(self.ends.any(0), ended, len(self.ends)).float()


class Agent:
    """The policy and its memory; the handler of an exchange."""

    def __init__(self, rank: Rank, config: BatchedReinforceConfig, kind: Kind) -> None:
        assert kind.choices is not None
        self.rank = rank
        self.config = config
        self.layout = layout(config, kind)
        with drawn_from(seed_of(config.seed, WEIGHTS)):
            self.policy = Policy(kind.observation, kind.choices, config.dropout).to(rank.device)
        weights = flat_weights(self.policy).to(rank.device)
        self.gradient = bind(self.policy, weights)
        self.optimizer = FlatAdam(weights, self.gradient, config.learning_rate)
        self.memory = Memory(config.steps, config.observers * config.envs_per_observer, kind.observation, rank.device)
        self.answers = torch.zeros(config.observers, self.layout.size)
        self.episode = 0
        self.forwards = 0
        self.running: float | None = None
        """Half the last round's mean first length, half what it was before."""
        self.waiting: dict[int, Respond] = {}
        """Who has asked and not been answered yet, by place."""
        self.heard_at = [time.monotonic()] * config.observers
        self.serve_s = 0.0
        self.lock = threading.Lock()
        self.done = threading.Event()

    def until_all_played(self, exchange: Exchange) -> None:
        """Serve until the last round is learned from."""
        with exchange.serve(self.rank, self) as service:
            self.rank.ready()
            self.heard_at = [time.monotonic()] * self.config.observers
            while not self.done.is_set():
                with self.rank.recorder.phase("wait"):
                    self.done.wait(LOOK_S)
                service.check()
                self._look_after_observers()
                self._report()
            service.check()
        self._report()

    # ---- the exchange's side

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        """Take an observer's states and answer with actions, now or when all have asked; after the last step, when all
        is learned.
        """
        assert vector is not None
        with self.lock:
            began = time.thread_time()
            place = request.client - 1
            self._remember(request.step, place, vector.view(self.layout.shape))
            self.waiting[place] = respond
            everyone = len(self.waiting) == self.config.observers
            if request.step == self.config.steps:
                if everyone:
                    self._learn()
                    self._answer(range(self.config.observers))
            elif self.config.mode == "per_call":
                self._act(request.step, slice(place, place + 1))
                self._answer([place])
            elif everyone:
                self._act(request.step, slice(0, self.config.observers))
                self._answer(range(self.config.observers))
            self.serve_s += time.thread_time() - began

    def _columns(self, places: slice) -> slice:
        return slice(places.start * self.layout.environments, places.stop * self.layout.environments)

    def _remember(self, step: int, place: int, message: Tensor) -> None:
        columns, memory, rows = self._columns(slice(place, place + 1)), self.memory, message.numpy()
        if step > 0:
            memory.rewards.numpy()[step - 1, columns] = rows[:, REWARD]
            memory.ends.numpy()[step - 1, columns] = rows[:, END] > 0
        if step < self.config.steps:
            memory.states.numpy()[step, columns] = rows[:, : self.layout.observation]

    def _act(self, step: int, places: slice) -> None:
        columns, memory = self._columns(places), self.memory
        masks = self.policy.draw_masks(columns.stop - columns.start)
        actions = self.policy.act(memory.states[step, columns].to(masks.device), masks)
        memory.masks[step, columns], memory.actions[step, columns] = masks, actions
        self.answers[places, : self.layout.environments] = actions.view(-1, self.layout.environments).float().cpu()

    def _answer(self, places: range | list[int]) -> None:
        self.forwards += 1
        going_on = int(self.episode < self.config.episodes)
        for place in places:
            self.heard_at[place] = time.monotonic()
            self.waiting.pop(place)(Answer(self.forwards, note=going_on), self.answers[place])

    # ---- learning

    def loss(self) -> Tensor:
        """Return the loss of the round in memory: log-probabilities of what was done, weighed with what followed."""
        memory = self.memory
        returns = returns_of(memory.rewards, memory.ends, self.config.gamma)
        if self.config.normalize_returns:
            returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        chosen = (
            self.policy.log_probabilities(memory.states.to(memory.masks.device), memory.masks)
            .gather(2, memory.actions.unsqueeze(2))
            .squeeze(2)
        )
        return -(chosen * returns.to(chosen.device)).sum() / returns.shape[1]

    def _learn(self) -> None:
        loss = self.loss()
        self.episode += 1
        first = float(self.memory.first_lengths().mean())
        self.running = first if self.running is None else 0.5 * first + 0.5 * self.running
        step = self.episode * self.config.steps
        values = {"train/loss": float(loss), "charts/first_length": first, "charts/running_length": self.running}
        self.rank.recorder.log(values, step=step, passes=float(self.episode))
        if not torch.isfinite(loss):
            raise RunFailed(
                f"agent's loss became {float(loss)} in round {self.episode}. Lower learning_rate "
                f"({self.config.learning_rate})."
            )
        self.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.episode == self.config.episodes:
            self.done.set()

    # ---- the driving thread's side

    def _look_after_observers(self) -> None:
        with self.lock:
            for place, heard_at in enumerate(self.heard_at):
                if (
                    place not in self.waiting
                    and time.monotonic() - heard_at > self.config.timeout_s
                    and not self.done.is_set()
                ):
                    role = self.config.observer_roles[place]
                    raise RunFailed(
                        f"{role} asked nothing for {self.config.timeout_s:g} s (timeout_s) in round "
                        f"{self.episode + 1}, and no one goes on without it. "
                        "Its environment may hang: look at its log, or raise timeout_s where a step of "
                        f"{self.config.environment} takes that long."
                    )

    def _report(self) -> None:
        with self.lock:
            serve_s, self.serve_s = self.serve_s, 0.0
        self.rank.recorder.spend("serve", serve_s)
