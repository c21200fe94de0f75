"""Distributed PPO (Schulman et al. 2017; Heess et al. 2017): rollout, advantage, update, publish.

Roles: `collector1…N` play rollouts, each with its latest copy of the policy; the `learner` updates the policy with one
rollout after another and publishes it. The mode decides which side waits (modes.py).
"""

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.modes import MODES
from engine.experiments.dppo.policy import ActorCriticAdam, FlatPolicy, PublishedPolicy, first_policy, mean_losses
from engine.experiments.dppo.shared_state import Locks, Rollout, SharedState
from engine.recorder import Details, Recorder
from engine.rl.actor_critic import advantages_of
from engine.rl.environments import Environments
from engine.rl.kinds import Kind
from engine.seeding import ENVIRONMENT, ORDER, seed_of
from engine.trace.layout import EVERYBODY, NO_VERSION, NOBODY
from engine.training.settings import rate_factor


class Collector:
    """One collector, in its own process or thread; `place` counts from 0."""

    def __init__(
        self, shared: SharedState, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder, place: int
    ) -> None:
        self.shared, self.config, self.record, self.place = shared, config, record, place
        self.mode = MODES[config.mode](shared, config, locks, record, place)
        self.published = PublishedPolicy(shared, locks)
        self.policy = FlatPolicy(config, kind, shared.weights[0] if shared.live else None)
        seed, role = seed_of(config.seed, ENVIRONMENT, place + 1), config.collector_roles[place]
        self.environments = Environments(kind, config.envs_per_collector, seed, role)
        self.stepping = shared.stepping.numpy()
        self.env_steps = self.rollouts = 0

    @torch.inference_mode()
    def play(self) -> None:
        """Play rollouts until the run is over: copy the newest policy, fill a slot, queue it."""
        try:
            self._play()
        finally:
            self.shared.ended.release()

    def _play(self) -> None:
        while self.mode.begin():
            slot = self.mode.queue.take_free()
            header = self.shared.header(slot)
            header.collector, header.first_version = self.place, self._take_policy()
            with self.record.phase("compute", "rollout", number=slot) as played:
                header.steps = self._play_rollout(self.shared.rollout(slot))
                played.version = header.first_version
            header.last_version = self.published.version if self.shared.live else header.first_version
            self.mode.finish(slot, header.steps)
            self.rollouts += 1
            self.record.summarize("rollout", self.rollouts)
        self.environments.close()

    def _take_policy(self) -> int:
        if self.shared.live:
            return self.published.version
        self.record.exchanged(self.policy.state.nbytes)
        return self.published.take(self.policy.state)

    def _play_rollout(self, rollout: Rollout) -> int:
        """Play into the rollout's tensors; return the number of steps per environment."""
        config, policy, environments = self.config, self.policy, self.environments
        states, raw, actions, log_probabilities, values, after, rewards, ends = rollout.arrays()
        t, going = 0, True
        value = policy.values(environments.observations)
        while going and t < config.batch_steps and not self.shared.over:
            self.mode.before()
            raw[t] = environments.observations
            state = policy.normalized(torch.from_numpy(environments.observations))
            action, log_probability = policy.net.act(state)
            states[t], actions[t] = state.numpy(), action.numpy()
            log_probabilities[t], values[t] = log_probability.numpy(), value
            self.stepping[self.place] = time.monotonic_ns()
            step = environments.step(actions[t])
            self.stepping[self.place] = 0
            rewards[t] = (step.rewards + config.reward_shift) * config.reward_scale
            ends[t] = step.terminated | step.truncated
            value = after[t] = policy.values(environments.observations)
            for place, last in step.last.items():
                after[t, place] = 0.0 if step.terminated[place] else float(policy.values(last[None])[0])
            t += 1
            going = self.mode.after(config.envs_per_collector)
            self.env_steps += config.envs_per_collector
            for reward, length in environments.take_finished():
                self.record.log(
                    {"charts/episodic_return": reward, "charts/episodic_length": length}, step=self.env_steps
                )
        return t


class PpoLearner:
    """The trained policy and its optimizer."""

    def __init__(self, shared: SharedState, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder) -> None:
        self.shared, self.config, self.record = shared, config, record
        self.mode = MODES[config.mode](shared, config, locks, record)
        self.published = PublishedPolicy(shared, locks)
        self.policy = first_policy(shared, config, kind)
        self.optimizer = ActorCriticAdam(self.policy, config)
        self._order = torch.Generator().manual_seed(seed_of(config.seed, ORDER))

    def learn(self) -> None:
        """Update with every rollout that the mode yields, and publish, until the run is over; then record what part of
        all steps was used.
        """
        counts, collected = self.shared.counts, 0
        for slot in self.mode.updates():
            header = self.shared.header(slot)
            rollout = self.shared.rollout(slot, header.steps)
            age = counts.version - header.first_version
            counts.mixed_rollouts += header.last_version != header.first_version
            with self.record.phase("update", "batch", number=slot) as update:
                values = self._update(rollout)
                update.version, update.value = counts.version, age
            counts.steps_used += rollout.rewards.numel()
            counts.rollouts += 1
            self.published.publish(self.policy.state)
            collected = counts.steps_collected
            values |= counts.metrics(self.shared.live) | {"perf/policy_age": float(age)}
            self.record.log(values, step=counts.rollouts)
            self.record.summarize("update", counts.rollouts)
        with self.record.phase("wait", "collectors", peer=EVERYBODY):
            self.shared.wait_for_collectors()
        if counts.steps_collected > collected:  # the run ended early
            self.record.log(counts.metrics(self.shared.live), step=counts.rollouts)

    def _update(self, rollout: Rollout) -> dict[str, float]:
        """Estimate advantages and iterate over the rollout in mini-batches; return the metrics of the update."""
        config = self.config
        self.optimizer.scale_rates(rate_factor(config.schedule, self.mode.progress(), 1))
        values, dones = rollout.values, rollout.ends
        advantages = advantages_of(rollout.rewards, values, rollout.after, dones, config.gamma, config.gae_lambda)
        returns = (advantages + values).flatten()
        advantages, behaviour = advantages.flatten(), rollout.log_probabilities.flatten()
        states, actions = rollout.states.flatten(0, 1), rollout.actions.flatten(0, 1)
        if config.normalize_observations:
            self.policy.normalizer.add(rollout.raw.flatten(0, 1))
        ratio = self.policy.net.evaluate_actions(states, actions)[0].log_probabilities - behaviour
        kl = float((ratio.exp() - 1 - ratio).mean())  # Schulman's estimator: never negative
        size = -(-len(advantages) // config.minibatches)
        losses = [
            self._step(states[part], actions[part], behaviour[part], advantages[part], returns[part])
            for _ in range(config.epochs)
            for part in torch.split(torch.randperm(len(advantages), generator=self._order), size)
        ]
        return mean_losses(losses, self.shared.counts.rollouts + 1, config) | {"train/kl": kl}

    def _step(self, states: Tensor, actions: Tensor, behaviour: Tensor, advantages: Tensor, returns: Tensor) -> Tensor:
        """Make one step of Adam on policy loss + value loss - entropy * mean entropy; return policy loss, value loss,
        entropy and the percentage of clipped ratios.
        """
        config, count = self.config, len(states)
        judged, trace = self.policy.net.evaluate_actions(states, actions)
        if config.normalize_advantages and count > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratios = (judged.log_probabilities - behaviour).exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        unclipped_gains = ratios * advantages
        gains = torch.minimum(unclipped_gains, clipped * advantages)
        errors = judged.values - returns
        # A sample whose clipped gain is the smaller one has no influence: it is constant there.
        by_log_probabilities = torch.where(gains == unclipped_gains, unclipped_gains, 0.0) / -count
        self.policy.net.backward(trace, actions, by_log_probabilities, -config.entropy / count, errors / count)
        self.optimizer.step()
        is_clipped = 100.0 * (ratios != clipped)
        return torch.stack([-gains, 0.5 * errors.square(), judged.entropies, is_clipped]).mean(1)


# ---- Collectors as threads of the learner's process, to show the cost of Python's global interpreter lock ----------


class CollectorThread(threading.Thread):
    """A collector as a thread of the learner's process; it keeps its failure and ends the run with it."""

    def __init__(self, shared: SharedState, collector: Collector) -> None:
        super().__init__(name=f"collector{collector.place + 1}", daemon=True)
        self._shared = shared
        self._collector = collector
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._collector.play()
        except BaseException as failure:
            self._failure = failure
            self._shared.stop()

    def check(self) -> None:
        """Raise the thread's failure, if any."""
        if self._failure is not None:
            raise self._failure


class ThreadRecorder:
    """A recorder for threads other than their rank's main one: it passes points and operations on, and phases
    count in no sum.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        self._recorder.log(values, step=step, passes=passes)

    def phase(
        self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        return self._recorder.operation(name, what, peer=peer, number=number, picked=picked)

    def spend(self, name: str, seconds: float) -> None:
        pass

    def operation(
        self, kind: str, name: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        return self._recorder.operation(kind, name, peer=peer, number=number, picked=picked)

    def note(
        self, kind: str, name: str, *, peer: int = NOBODY, number: int = 0, version: int = NO_VERSION, value: int = 0
    ) -> None:
        self._recorder.note(kind, name, peer=peer, number=number, version=version, value=value)

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        self._recorder.histogram(name, bucket, count)

    def exchanged(self, size: int) -> None:
        pass

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        pass

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        pass

    def flush(self) -> None:
        self._recorder.flush()
