"""Distributed proximal policy optimization (Schulman et al. 2017; Heess et al. 2017): collectors play with a copy of
the policy, a learner updates it, and a queue connects them.

Roles: `main` monitors, evaluates and records (evaluation.py); `learner` owns policy and value function; `collector1…N`
play (optionally as threads of the learner). A batch of T steps carries the log-probabilities and values of the policy
that played it, so the update may come later:

    r = pi(a|s) / pi_behaviour(a|s);  maximize the mean of min(r * A, clip(r, 1 - c, 1 + c) * A)

with A the generalized advantage estimate. The mode decides which side waits (modes.py). With lag_correction none, the
ratio is to the policy before the update; with vtrace (Espeholt et al. 2018) as well, but A and the value function's
targets are those of V-trace, whose weights pi / pi_behaviour are truncated at rho_bar and c_bar. With decoupled (Hilton
et al. 2021; AReaL, Fu et al. 2025) the ratio is to the policy before the update, and each step's term is weighted by
pi_before / pi_behaviour, so that old data does not use up the clip range.
"""

import time
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.evaluation import watch
from engine.experiments.dppo.gradient_by_hand import Evaluation
from engine.experiments.dppo.modes import mode_of
from engine.experiments.dppo.policy import ActorCriticAdam, FlatPolicy, PublishedPolicy, first_policy, mean_losses
from engine.experiments.dppo.shared_state import Locks, Rollout, RunThread, SharedState
from engine.recorder import Details, Recorder
from engine.rl.actor_critic import advantages_of, vtrace
from engine.rl.environments import Environments
from engine.rl.kinds import Kind, kind_of
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import ENVIRONMENT, ORDER, seed_of
from engine.trace.layout import EVERYBODY, NOBODY
from engine.training.settings import rate_factor

LARGEST_WEIGHT = 5.0
"""Maximum weight of a step with lag_correction decoupled, as in AReaL."""


def run(config: DppoConfig, ranks: Ranks) -> None:
    """Start all ranks; return when all have finished."""
    ranks.run(_run_rank, config, SharedState.create(config, kind_of(config.environment)))


def _run_rank(rank: Rank, config: DppoConfig, shared: SharedState) -> None:
    kind = kind_of(config.environment)
    if rank.role == "main":
        rank.barrier("policy made")
        watch(rank, shared, config, kind)
    elif rank.role == "learner":
        learner = _Learner(shared, config, kind, rank.lock, rank.recorder)
        rank.barrier("policy made")
        threads = _collector_threads(rank, config, shared, kind) if config.collectors_as == "threads" else []
        rank.ready()
        for thread in threads:
            thread.start()
        learner.learn()
        for thread in threads:
            thread.join()
            thread.check()
    else:
        rank.barrier("policy made")
        collector = _Collector(shared, config, kind, rank.lock, rank.recorder, rank.index - 2)
        rank.ready()
        collector.play()


class _Collector:
    """One collector, in its own process or thread; `place` counts from 0."""

    def __init__(
        self, shared: SharedState, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder, place: int
    ) -> None:
        self.shared, self.config, self.record, self.place = shared, config, record, place
        self.mode = mode_of(config)(shared, config, locks, record, place)
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
        while (slot := self.mode.begin()) is not None:
            header = self.shared.header(slot)
            header.first_version = self._take_policy()
            with self.record.phase("compute", "rollout", number=header.number) as played:
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
            with self.mode.stepping():
                raw[t] = environments.observations
                state = policy.normalized(torch.from_numpy(environments.observations))
                action, log_probability = policy.net.act(state)
                states[t], actions[t] = state.numpy(), action.numpy()
                log_probabilities[t], values[t] = log_probability.numpy(), value
                self.stepping[self.place] = time.monotonic_ns()
                step = environments.step(actions[t])
                time.sleep(config.sleep_ms / 1000)
                self.stepping[self.place] = 0
                rewards[t] = (step.rewards + config.reward_shift) * config.reward_scale
                ends[t] = step.terminated | step.truncated
                value = after[t] = policy.values(environments.observations)
                for place, last in step.last.items():
                    after[t, place] = 0.0 if step.terminated[place] else float(policy.values(last[None])[0])
            t += 1
            going = self.mode.count(config.envs_per_collector)
            self.env_steps += config.envs_per_collector
            for reward, length in environments.take_finished():
                self.record.log(
                    {"charts/episodic_return": reward, "charts/episodic_length": length}, step=self.env_steps
                )
        return t


class _Learner:
    """The trained policy and its optimizer."""

    def __init__(self, shared: SharedState, config: DppoConfig, kind: Kind, locks: Locks, record: Recorder) -> None:
        self.shared, self.config, self.record = shared, config, record
        self.mode = mode_of(config)(shared, config, locks, record)
        self.published = PublishedPolicy(shared, locks)
        self.policy = first_policy(shared, config, kind)
        self.optimizer = ActorCriticAdam(self.policy, config)
        self._order = torch.Generator().manual_seed(seed_of(config.seed, ORDER))

    def learn(self) -> None:
        """Update with the rollouts that the mode yields, and publish, until the run is over; then record what part of
        all steps was used.
        """
        counts, collected = self.shared.counts, 0
        for slots in self.mode.updates():
            headers = [self.shared.header(slot) for slot in slots]
            rollout = Rollout.together(map(self.shared.rollout, slots, (header.steps for header in headers)))
            ages = [counts.version - header.first_version for header in headers]
            counts.mixed_rollouts += sum(header.last_version != header.first_version for header in headers)
            with self.record.phase("update", "batch", number=headers[0].number) as update:
                values = self._update(rollout)
                update.version, update.value = counts.version, max(ages)
            counts.steps_used += rollout.rewards.numel()
            counts.rollouts += len(slots)
            step = self.published.publish(self.policy.state)
            collected = counts.steps_collected
            for age in ages:
                self.record.histogram("policy_age", age)
            values |= counts.metrics(self.config) | {"perf/policy_age": sum(ages) / len(ages)}
            self.record.log(values, step=step)
            self.record.summarize("update", step)
        with self.record.phase("wait", "collectors", peer=EVERYBODY):
            self.shared.wait_for_collectors()
        if counts.steps_collected > collected:  # the run ended early
            self.record.log(counts.metrics(self.config), step=counts.version)

    def _update(self, rollout: Rollout) -> dict[str, float]:
        """Estimate advantages and iterate over the rollout in mini-batches; return the metrics of the update."""
        config = self.config
        self.optimizer.scale_rates(rate_factor(config.schedule, self.mode.progress(), 1))
        states, actions = rollout.states.flatten(0, 1), rollout.actions.flatten(0, 1)
        if config.normalize_observations:
            self.policy.normalizer.add(rollout.raw.flatten(0, 1))
        now = Evaluation(self.policy.net, states, actions)
        ratio = now.log_probabilities - rollout.log_probabilities.flatten()
        kl = float((ratio.exp() - 1 - ratio).mean())  # Schulman's estimator: never negative
        advantages, returns = (each.flatten() for each in self._estimates(rollout, now))
        clipped, decoupled = (config.lag_correction == each for each in ("clipped", "decoupled"))
        base = rollout.log_probabilities.flatten() if clipped else now.log_probabilities
        weights = ratio.exp().clamp(max=LARGEST_WEIGHT) if decoupled else torch.ones_like(ratio)
        size = -(-len(advantages) // config.minibatches)
        losses = [
            self._step(states[part], actions[part], base[part], advantages[part], returns[part], weights[part])
            for _ in range(config.epochs)
            for part in torch.split(torch.randperm(len(advantages), generator=self._order), size)
        ]
        return mean_losses(losses, self.shared.counts.version + 1, config) | {"train/kl": kl}

    def _estimates(self, rollout: Rollout, now: Evaluation) -> tuple[Tensor, Tensor]:
        """Return the advantages and the targets of the value function, [T, M] each."""
        config, values, ends = self.config, rollout.values, rollout.ends
        if config.lag_correction != "vtrace":
            found = advantages_of(rollout.rewards, values, rollout.after, ends, config.gamma, config.gae_lambda)
            return found, found + values
        values = now.values.view_as(values)
        after = torch.cat([torch.where(ends, rollout.after, values.roll(-1, 0))[:-1], rollout.after[-1:]])
        ratios = (now.log_probabilities.view_as(values) - rollout.log_probabilities).exp()
        rho, c = ratios.clamp(max=config.rho_bar), ratios.clamp(max=config.c_bar)
        return vtrace(rollout.rewards, values, after, ends, config.gamma, config.gae_lambda, rho, c)

    def _step(
        self, states: Tensor, actions: Tensor, base: Tensor, advantages: Tensor, returns: Tensor, weights: Tensor
    ) -> Tensor:
        """Make one step of Adam on a mini-batch; return the means of its losses, in the order of `LOSSES`."""
        config, count = self.config, len(states)
        if config.normalize_advantages and count > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        now = Evaluation(self.policy.net, states, actions)
        ratios = (now.log_probabilities - base).exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        advantages = weights * advantages
        gains, clipped_gains = ratios * advantages, clipped * advantages
        policy_loss = -torch.minimum(gains, clipped_gains)
        value_loss = 0.5 * (now.values - returns).square()
        # The derivatives of mean(policy_loss + value_loss - entropy * now.entropies): a clipped gain is constant.
        now.backward(
            by_log_probabilities=torch.where(gains <= clipped_gains, gains, 0.0) / -count,
            by_entropies=-config.entropy / count,
            by_values=(now.values - returns) / count,
        )
        self.optimizer.step()
        return torch.stack([policy_loss, value_loss, now.entropies, 100.0 * (ratios != clipped)]).mean(1)


# ---- Collectors as threads of the learner's process, to show the cost of Python's global interpreter lock ----------


def _collector_threads(rank: Rank, config: DppoConfig, shared: SharedState, kind: Kind) -> list[RunThread]:
    record = _ThreadRecorder(rank.recorder)
    collectors = [_Collector(shared, config, kind, rank.lock, record, place) for place in range(config.collectors)]
    return [RunThread(shared, config.collector_roles[each.place], each.play) for each in collectors]


class _ThreadRecorder:
    """A recorder for threads other than their rank's main one: it passes points and operations on, and phases count in
    no sum.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.log, self.note = recorder.log, recorder.note
        self.histogram, self.flush = recorder.histogram, recorder.flush
        self.operation = recorder.operation

    def phase(
        self, name: str, what: str = "", *, peer: int = NOBODY, number: int = 0, picked: bool = False
    ) -> AbstractContextManager[Details]:
        """Trace the block."""
        return self.operation(name, what, peer=peer, number=number, picked=picked)

    def spend(self, name: str, seconds: float) -> None:
        """Count nothing."""

    def exchanged(self, size: int) -> None:
        """Count nothing: the threads share their memory."""

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        """Report nothing: main reports the progress."""

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        """Write nothing: the log is the learner's."""
