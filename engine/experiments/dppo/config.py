"""DPPO's settings, presets and card. Torch-free."""

from math import ceil
from typing import Literal

from engine.config import Config, Rule, Rules, interval, setting
from engine.experiment import Clock, Experiment, Flow, Preset, ReadySweep, TradeOff, Work
from engine.metrics import Result
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve
from engine.training.settings import SCHEDULE, Schedule

_LAG = {"mode": "bounded_lag"}


class DppoConfig(Config):
    """Settings of collectors, a learner, and five ways for them to share the policy."""

    work_fields = ("total_steps",)
    server_roles = ("main",)

    collectors: int = setting(2, "Number of collectors; each has its own environments.", low=1, high=16)
    mode: Literal["bounded_queue", "bounded_lag", "update_locked", "reader_writer", "unlocked"] = setting(
        "bounded_queue"
    )
    """bounded_queue: fill the queue, then train until it is empty; bounded_lag: collect while training, with a policy
    at most max_lag updates old; update_locked: only updates stop the collectors; reader_writer: one batch at a time,
    other collectors' steps are discarded; unlocked: weights change while collectors act."""
    max_lag: int | None = setting(1, low=0, high=64, unit="updates", empty="unbounded", only=_LAG)
    """Maximum number of updates between the policy that played a batch and the one it updates. 0: synchronous. Empty:
    only max_queue_size limits it."""
    lag_order: Literal["strict_fifo", "windowed", "drop_oldest"] = setting("strict_fifo", only=_LAG)
    """strict_fifo: by sequence number, batch k of every collector in update k; windowed: as completed, while no older
    batch becomes too old; drop_oldest: collectors never wait, and batches that are too old or too many are dropped."""
    lag_correction: Literal["none", "clipped", "decoupled", "vtrace"] = setting("clipped")
    """none: batches count as played by the current policy; clipped: PPO's ratio to the policy that played them,
    truncated by clip; decoupled: the ratio to the current policy, and importance weights for the age; vtrace: V-trace
    targets with truncated importance weights."""
    rho_bar: float = setting(1.0, above=0, high=100, advanced=True, only={"lag_correction": "vtrace"})
    """Maximum importance weight of a step's error in V-trace; decides which policy the value function belongs to."""
    c_bar: float = setting(1.0, above=0, high=100, advanced=True, only={"lag_correction": "vtrace"})
    """Maximum importance weight that V-trace passes to earlier steps; affects variance only. At most rho_bar."""
    collectors_as: Literal["processes", "threads"] = setting("processes")
    """processes run in parallel; threads share the learner's process and Python's global interpreter lock (GIL)."""
    environment: EnvironmentName = setting("CartPole-v1")
    """Gymnasium id of an environment with discrete or bounded continuous actions."""
    envs_per_collector: int = setting(8, "Environments per collector.", low=1, high=256, unit="environments")
    batch_steps: int = setting(64, "Steps of each environment in one batch.", low=2, high=10_000, unit="steps")
    max_queue_size: int | None = setting(None, low=1, high=1000, unit="batches")
    """Maximum number of batches in the queue. Empty: twice the collectors; with bounded_lag what max_lag permits, 16
    times the collectors if unbounded."""
    total_steps: int = setting(300_000, low=1, high=10**9, unit="env steps")
    """Total env steps to collect; the run ends after them."""
    stop_when_solved: bool = setting(True)
    """Stop early when 100 greedy episodes reach the mean at which gymnasium's registry considers the environment
    solved."""
    learning_rate: float = setting(0.0025, "Learning rate of the actor's Adam.", above=0, high=10)
    critic_learning_rate: float | None = setting(None, above=0, high=10, empty="learning_rate", advanced=True)
    """Learning rate of the critic's Adam. Empty: same as the actor's."""
    schedule: Schedule = setting("linear", SCHEDULE)
    gamma: float = setting(0.99, "Discount factor per step for future rewards.", above=0, high=1)
    gae_lambda: float = setting(0.95, low=0, high=1, advanced=True)
    """Lambda of generalized advantage estimation: 0 relies on the critic, 1 on observed rewards."""
    clip: float = setting(0.2, "Clip range of PPO's probability ratio.", above=0, high=1, advanced=True)
    epochs: int = setting(10, "Passes over each batch per update.", low=1, high=100, advanced=True)
    minibatches: int = setting(4, "Mini-batches per pass.", low=1, high=1024, advanced=True)
    entropy: float = setting(0.0, "Coefficient of the entropy bonus.", low=0, high=1, advanced=True)
    normalize_advantages: bool = setting(True, advanced=True)
    """Normalize each mini-batch's advantages to mean 0 and deviation 1."""
    normalize_observations: bool = setting(False)
    """Normalize observations by their running mean and deviation; required for Pendulum."""
    reward_shift: float = setting(0.0, "Added to each reward before training.", low=-1e6, high=1e6, advanced=True)
    reward_scale: float = setting(1.0, "Multiplies each reward, after reward_shift.", above=0, high=1e6, advanced=True)
    network: Literal["two_layers", "published"] = setting("two_layers", advanced=True)
    """two_layers: 64 and 64 tanh. published: actor 200 ReLU, critic 100 ReLU."""
    evaluate_every_s: float = interval(5.0, "s", "it is evaluated only at the end", high=86_400, advanced=True)
    """Interval between evaluations during training. 0 evaluates only at the end."""
    evaluation_episodes: int = setting(20, "Greedy episodes per evaluation.", low=1, high=1000, advanced=True)
    render_every_s: float = interval(20.0, "s", "no episode is recorded during training", high=86_400, advanced=True)
    """Interval between recordings of an episode. 0 disables them."""
    sleep_ms: float = setting(0.0, low=0, high=60_000, unit="ms", advanced=True)
    """Sleep per step of every collector's environments; simulates a slower environment without using a core."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum duration of one environment step before the run fails and names it."""

    @property
    def collector_roles(self) -> tuple[str, ...]:
        return tuple(f"collector{number}" for number in range(1, self.collectors + 1))

    @property
    def roles(self) -> tuple[str, ...]:
        return ("main", "learner", *(self.collector_roles if self.collectors_as == "processes" else ()))

    @property
    def max_gpus(self) -> int:
        """None: the networks are small, and env steps dominate the run time."""
        return 0

    @property
    def bound(self) -> int:
        """Maximum number of batches in the queue."""
        if self.mode != "bounded_lag":
            return self.max_queue_size or 2 * self.collectors
        return self.max_queue_size or self.collectors * (16 if self.max_lag is None else self.max_lag + 1)

    @property
    def batches_per_update(self) -> int:
        """Number of batches that one update trains on."""
        return self.collectors if self.mode == "bounded_lag" else 1

    @property
    def slots(self) -> int:
        """Number of batches that are played, queued or trained on at a time."""
        if self.mode == "bounded_lag" and self.lag_order == "drop_oldest":
            return self.bound + 2 * self.collectors
        return self.bound if self.mode.startswith("bounded") else max(self.bound, self.collectors)

    def rules(self) -> Rules:
        kind_of(self.environment)
        steps = self.batch_steps * self.envs_per_collector
        allowed = f"at most the {steps} steps of a batch (batch_steps x envs_per_collector)"
        yield Rule("minibatches", allowed, broken=self.minibatches > steps)
        yield self.at_most("c_bar", "rho_bar")
        least = f"at least the collectors ({self.collectors}) for mode bounded_lag"
        why, cure = "each update trains on that many batches", "Raise it or leave it empty."
        yield Rule("max_queue_size", least, why, cure, broken=self.bound < self.batches_per_update)
        why = "the networks are too small to benefit from a GPU"
        yield Rule("device", "auto or cpu here", why, broken=self.device in ("cuda", "mps"))


_CARTPOLE = {"environment": "CartPole-v1", "collectors": 2, "envs_per_collector": 8, "batch_steps": 64} | {
    "threads_per_rank": 1
}
_LAGGED = _CARTPOLE | _LAG | {"sleep_ms": 2, "epochs": 15, "minibatches": 8, "evaluate_every_s": 2}
_PUBLISHED = (
    {"environment": "Pendulum-v1", "collectors": 4, "envs_per_collector": 1, "batch_steps": 64}
    | {"total_steps": 200_000, "learning_rate": 0.0001, "critic_learning_rate": 0.0002, "schedule": "constant"}
    | {"gamma": 0.9, "gae_lambda": 1.0, "epochs": 10, "minibatches": 1, "normalize_advantages": False}
    | {"reward_shift": 8.0, "reward_scale": 0.125, "network": "published", "threads_per_rank": 1}
)

EXPERIMENT = Experiment(
    name="dppo",
    title="DPPO with a bounded queue",
    tagline="Collectors fill a queue, a learner updates",
    sentence="Collectors play and a learner updates; the modes differ in how they synchronize.",
    config=DppoConfig,
    presets={
        "published": Preset(
            "Pendulum as in the reader-writer code: 4 collectors, a batch of 64 steps, everyone waits for an update.",
            _PUBLISHED | {"mode": "reader_writer"},
        ),
        "published_queue": Preset("The same with the bounded queue.", _PUBLISHED),
        "tuned": Preset(
            "Pendulum with 2 collectors of 32 environments, normalized observations, scaled rewards and a small "
            "entropy bonus.",
            _CARTPOLE
            | {"environment": "Pendulum-v1", "envs_per_collector": 32, "total_steps": 1_000_000, "gamma": 0.95}
            | {"learning_rate": 0.001, "epochs": 6, "minibatches": 16, "entropy": 0.01, "normalize_observations": True}
            | {"reward_scale": 0.1},
        ),
        "quick": Preset(
            "CartPole with 2 collectors of 8 environments, until it is solved.",
            _CARTPOLE,
            expects={"test/episodic_return": 475.0},
            takes="Takes about 10 s on two cores.",
        ),
        "lag": Preset(
            "CartPole with collectors that are as slow as the learner, and a policy at most 1 update old.",
            _LAGGED,
        ),
        "threads": Preset(
            "CartPole with collectors as threads: shows the effect of the GIL.",
            _CARTPOLE | {"collectors_as": "threads"},
        ),
    },
    ready_sweeps=(
        ReadySweep(
            "How stale may rollouts be?",
            "lag",
            {"max_lag": "0, 1, 2, 4, none"},
            TradeOff(
                "perf/execution_time_s.last",
                "test/episodic_return.last",
                5,
                is_relative=True,
                baseline={"max_lag": 0},
            ),
            run_s=10,
        ),
    ),
    goals=lambda config: rewards_that_solve(config.environment),
    pattern="queue",
    flows=(
        Flow("each collector", "queue", "a batch of steps, with the version of the policy that played them"),
        Flow("queue", "learner", "batches, when the queue is full"),
        Flow("learner", "weights", "a new version after each update"),
        Flow("weights", "each collector", "the newest version, before each batch"),
    ),
    source="Heess et al.: Emergence of Locomotion Behaviours in Rich Environments, 2017; Schulman et al.: Proximal "
    "Policy Optimization Algorithms, 2017",
    work=lambda config: Work(
        "total_steps",
        config.total_steps,
        "env steps",
        updates=ceil(config.total_steps / (config.batches_per_update * config.batch_steps * config.envs_per_collector)),
    ),
    result=Result("test/episodic_return", task=("environment",)),
    update_clock=Clock("train/value_loss"),
    axis="collectors",
    counts={"collectors": "collector"},
)
