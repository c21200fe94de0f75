"""The messages of observers and agent, and what the agent keeps of them for a round."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.policy import HIDDEN
from engine.rl.kinds import Kind
from engine.runtime.transport.request_reply import Answer, ClientLink, Request
from engine.runtime.worker.ranks import Rank

REWARD, END = -2, -1
"""Places in a row of a message."""
REPORT_EACH = 25
"""Steps between two reports of progress and phases: a report at each would cost as much as the step."""


@dataclass(frozen=True)
class MessageLayout:
    """A message has a row for each environment of an observer, [observation | reward of the step before | whether it
    ended]; its answer has the actions first.
    """

    environments: int
    observation: int

    @classmethod
    def of(cls, config: BatchedReinforceConfig, kind: Kind) -> "MessageLayout":
        """Return the layout of a run's messages."""
        return cls(config.envs_per_observer, kind.observation)

    @property
    def shape(self) -> tuple[int, int]:
        return self.environments, self.observation + 2

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def columns(self, first: int, end: int) -> slice:
        """Return the environments of observers `first` to `end` - 1 among those of all."""
        return slice(first * self.environments, end * self.environments)


class RoundMemory:
    """One round: what all M environments saw, did and earned in T steps. `ends` marks steps after which a sub-episode
    was over.
    """

    def __init__(self, steps: int, environments: int, observation: int, device: torch.device) -> None:
        self.states = torch.zeros(steps, environments, observation)
        self.masks = torch.zeros(steps, environments, HIDDEN, dtype=torch.bool, device=device)
        self.actions = torch.zeros(steps, environments, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(steps, environments)
        self.ends = torch.zeros(steps, environments, dtype=torch.bool)

    def remember(self, step: int, columns: slice, message: Tensor) -> None:
        """Keep an observer's states of this step, and its rewards and ends of the step before."""
        rows = message.numpy()
        if step > 0:
            self.rewards.numpy()[step - 1, columns] = rows[:, REWARD]
            self.ends.numpy()[step - 1, columns] = rows[:, END] > 0
        if step < len(self.states):
            self.states.numpy()[step, columns] = rows[:, :REWARD]

    def first_lengths(self) -> Tensor:
        """Return the length of each environment's first sub-episode in this round, [M]; the whole round where none
        ended.
        """
        ended = self.ends.int().argmax(0) + 1
        return torch.where(self.ends.any(0), ended, len(self.ends)).float()


class AgentLine:
    """An observer's line to the agent; it records what the observer's time went into."""

    def __init__(self, rank: Rank, config: BatchedReinforceConfig, line: ClientLink, layout: MessageLayout) -> None:
        self._rank = rank
        self._config = config
        self._line = line
        self.message = line.outgoing.view(layout.shape).numpy()
        """What `ask` sends."""
        self.actions = line.incoming[: layout.environments].numpy()
        """What `ask` returned last."""
        self._steps = 0
        """Env steps of this observer, over all its environments."""
        self._asked_s = self._held_s = self._played_s = 0.0

    def ask(self, step: int) -> Answer:
        """Send the message and wait for the answer."""
        began = time.perf_counter()
        answer = self._line.ask(Request(self._rank.index, 0, step))
        self._asked_s += time.perf_counter() - began
        self._held_s += answer.held_ns / 1e9
        return answer

    def count_step(self, step: int, played_s: float) -> None:
        """Count a step of all environments that took so long; report now and then."""
        self._steps += self._config.envs_per_observer
        self._played_s += played_s
        if step % REPORT_EACH == 0:
            self.report()

    def log_episodes(self, finished: list[tuple[float, int]]) -> None:
        """Record the (return, length) of finished episodes."""
        for reward, length in finished:
            values = {"charts/episodic_return": reward, "charts/episodic_length": length}
            self._rank.recorder.log(values, step=self._steps)

    def report(self) -> None:
        """Record phases since the last report, and progress."""
        record, config = self._rank.recorder, self._config
        record.spend("wait", self._held_s)
        record.spend("communicate", self._asked_s - self._held_s)
        record.spend("compute", self._played_s)
        self._asked_s = self._held_s = self._played_s = 0.0
        record.progress(self._steps, config.episodes * config.steps * config.envs_per_observer, "env steps")
