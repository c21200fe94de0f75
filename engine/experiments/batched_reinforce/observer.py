"""An observer: plays its environments and asks the agent for every action."""

import time

from engine.experiments.batched_reinforce.agent import END, REWARD, layout
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.rl.environments import Environments
from engine.rl.kinds import Kind
from engine.runtime.transport.request_reply import Answer, ClientLink, Exchange, Request
from engine.runtime.worker.ranks import Rank
from engine.seeding import ENVIRONMENT

REPORT_EACH = 25
"""Steps between two reports of progress and phases: a report at each would cost as much as the step."""


def observe(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange, kind: Kind) -> None:
    """Play round after round, as long as the agent says so."""
    environments = Environments(kind, config.envs_per_observer, rank.seed_of(ENVIRONMENT), rank.role)
    with exchange.connect(rank) as line:
        observer = Observer(rank, config, line, environments)
        rank.ready()
        while observer.play():
            pass
    environments.close()


class Observer:
    """One observer's place between its environments and the agent."""

    def __init__(
        self, rank: Rank, config: BatchedReinforceConfig, line: ClientLink, environments: Environments
    ) -> None:
        self.rank = rank
        self.config = config
        self.line = line
        self.environments = environments
        self.message = line.outgoing.view(layout(config, environments.kind).shape).numpy()
        self.actions = line.incoming[: config.envs_per_observer].numpy()
        self.steps = 0
        """Env steps of this observer, over all its environments."""
        self.asked_s = self.held_s = self.played_s = 0.0

    def play(self) -> bool:
        """Play one round; return whether there is another."""
        count, environments, message = self.config.envs_per_observer, self.environments, self.message
        environments.reset()
        for step in range(self.config.steps):
            message[:, :REWARD] = environments.observations
            self._ask(step)
            began = time.perf_counter()
            found = environments.step(self.actions.astype("int64"))
            message[:, REWARD] = found.rewards
            message[:, END] = found.terminated | found.truncated
            self.steps += count
            self.played_s += time.perf_counter() - began
            if environments.finished:
                self._log()
            if step % REPORT_EACH == 0:
                self._report()
        answer = self._ask(self.config.steps)
        self._report()
        return bool(answer.note)

    def _ask(self, step: int) -> Answer:
        began = time.perf_counter()
        answer = self.line.ask(Request(self.rank.index, 0, step))
        self.asked_s += time.perf_counter() - began
        self.held_s += answer.held_ns / 1e9
        return answer

    def _log(self) -> None:
        for reward, length in self.environments.take_finished():
            self.rank.recorder.log(
                {"charts/episodic_return": reward, "charts/episodic_length": length}, step=self.steps
            )

    def _report(self) -> None:
        record, total = self.rank.recorder, self.config.episodes * self.config.steps * self.config.envs_per_observer
        record.spend("wait", self.held_s)
        record.spend("communicate", self.asked_s - self.held_s)
        record.spend("compute", self.played_s)
        self.asked_s = self.held_s = self.played_s = 0.0
        record.progress(self.steps, total, "env steps")
