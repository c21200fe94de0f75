"""A collector: takes the newest policy, plays a batch of steps with it, hands the batch over."""

import time

import torch
from torch import Tensor

from engine.data.weights import bind, flat_weights
from engine.experiments.dppo.board import BORN, COLLECTOR, GROWN, LENGTH, Board, Weights
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.modes import MODES, Locks
from engine.recorder import Recorder
from engine.rl.actor_critic import ActorCritic, Normalizer
from engine.rl.environments import Environments, Floats
from engine.rl.kinds import Kind
from engine.seeding import ENVIRONMENT, seed_of


class Player:
    """A policy over a state vector [P + N] of its own: what acts and what is evaluated."""

    def __init__(self, config: DppoConfig, kind: Kind, state: Tensor | None = None) -> None:
        self.policy = ActorCritic(kind, config.network)
        first = flat_weights(self.policy)
        numbers = torch.zeros(Normalizer.size(kind.observation))
        Normalizer(numbers).reset()
        self.state = torch.cat([first, numbers]) if state is None else state
        self.weights, self._numbers = self.state[: len(first)], self.state[len(first) :]
        self.gradient = bind(self.policy, self.weights)
        self.normalizer = Normalizer(self._numbers)
        self._normalizes = config.normalize_observations

    def seen(self, observations: Tensor) -> Tensor:
        """Return observations as the policy is to see them."""
        return self.normalizer(observations) if self._normalizes else observations


class Collector:
    """One collector, in a process or a thread of its own; `place` counts from 0."""

    def __init__(
        self, board: Board, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder, place: int
    ) -> None:
        self.board = board
        self.config = config
        self.record = record
        self.place = place
        self.mode = MODES[config.mode](board, config, locks, record, place)
        self.weights = Weights(board, locks)
        self.player = Player(config, kind, board.weights[0] if board.live else None)
        self.environments = Environments(
            kind, config.envs_per_collector, seed_of(config.seed, ENVIRONMENT, place + 1), config.collector_roles[place]
        )
        self.stepping = board.stepping.numpy()
        self.steps = 0
        """Env steps of this collector."""

    @torch.inference_mode()
    def play(self) -> None:
        """Play batch after batch until the run is over."""
        while self.mode.begin():
            slot = self.mode.queue.take_free()
            born = self._policy()
            length = self._fill(slot)
            about = self.board.about[slot]
            about[COLLECTOR], about[BORN], about[LENGTH] = self.place, born, length
            about[GROWN] = self.weights.version if self.board.live else born
            self.mode.finish(slot, length)
        self.environments.close()

    def _policy(self) -> int:
        """Take the newest policy, where weights are not live; return its version."""
        if self.board.live:
            return self.weights.version
        self.record.exchanged(self.player.state.nbytes)
        return self.weights.take(self.player.state)

    def _fill(self, slot: int) -> int:
        """Play into a slot; return how many steps every environment took."""
        batch, environments, count = self.board.batch(slot), self.environments, self.config.envs_per_collector
        states, raw, actions = batch.states.numpy(), batch.raw.numpy(), batch.actions.numpy()
        log_probabilities, values, after = batch.log_probabilities.numpy(), batch.values.numpy(), batch.after.numpy()
        rewards, ends = batch.rewards.numpy(), batch.ends.numpy()
        length, going = 0, True
        value = self._values(environments.observations)
        while going and length < self.config.batch_steps and not self.board.over:
            self.mode.before()
            raw[length] = environments.observations
            seen = self.player.seen(torch.from_numpy(environments.observations))
            states[length] = seen.numpy()
            chosen, log_probability = self.player.policy.act(seen)
            actions[length], log_probabilities[length], values[length] = chosen.numpy(), log_probability.numpy(), value
            self.stepping[self.place] = time.monotonic_ns()
            found = environments.step(actions[length])
            self.stepping[self.place] = 0
            rewards[length] = (found.rewards + self.config.reward_shift) * self.config.reward_scale
            ends[length] = found.terminated | found.truncated
            value = self._values(environments.observations)
            after[length] = value
            for place, last in found.last.items():
                after[length, place] = 0.0 if found.terminated[place] else float(self._values(last[None])[0])
            length += 1
            going = self.mode.after(count)
            self.steps += count
            if environments.finished:
                self._log()
        return length

    def _values(self, observations: Floats) -> Floats:
        """Return what the value function says of observations, [M]."""
        found: Floats = self.player.policy.values(self.player.seen(torch.from_numpy(observations))).numpy()
        return found

    def _log(self) -> None:
        for reward, length in self.environments.take_finished():
            self.record.log({"charts/episodic_return": reward, "charts/episodic_length": length}, step=self.steps)
