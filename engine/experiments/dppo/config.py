"""DPPO's settings, presets and card. Torch-free."""

from math import ceil
from typing import Literal

from engine.config import Config, Rule, Rules, interval, setting
from engine.experiment import Clock, Experiment, Flow, Preset, Work
from engine.metrics import Result
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve
from engine.training.settings import SCHEDULE, Schedule


class DppoConfig(Config):
    """Settings of collectors, a learner, and four ways for them to share the policy."""

    work_fields = ("total_steps",)
    server_roles = ("main",)

    collectors: int = setting(2, "Number of collectors; each has its own environments.", low=1, high=16)
    mode: Literal["bounded_queue", "update_locked", "reader_writer", "unlocked"] = setting("bounded_queue")
    """bounded_queue: fill the queue, then train until it is empty; update_locked: only updates stop the collectors;
    reader_writer: one batch at a time, other collectors' steps are discarded; unlocked: weights change while collectors
    act."""
    collectors_as: Literal["processes", "threads"] = setting("processes")
    """processes run in parallel; threads share the learner's process and Python's global interpreter lock (GIL)."""
    environment: EnvironmentName = setting("CartPole-v1")
    """Gymnasium id of an environment with discrete or bounded continuous actions."""
    envs_per_collector: int = setting(8, "Environments per collector.", low=1, high=256, unit="environments")
    batch_steps: int = setting(64, "Steps of each environment in one batch.", low=2, high=10_000, unit="steps")
    max_queue_size: int | None = setting(None, low=1, high=1000, unit="batches", empty="2 × collectors")
    """Maximum number of batches in the queue. Empty: twice the collectors."""
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
        return self.max_queue_size or 2 * self.collectors

    def rules(self) -> Rules:
        kind_of(self.environment)
        steps = self.batch_steps * self.envs_per_collector
        allowed = f"at most the {steps} steps of a batch (batch_steps x envs_per_collector)"
        yield Rule("minibatches", allowed, broken=self.minibatches > steps)
        why = "the networks are too small to benefit from a GPU"
        yield Rule("device", "auto or cpu here", why, broken=self.device in ("cuda", "mps"))


_CARTPOLE = {"environment": "CartPole-v1", "collectors": 2, "envs_per_collector": 8, "batch_steps": 64} | {
    "threads_per_rank": 1
}
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
        "threads": Preset(
            "CartPole with collectors as threads: shows the effect of the GIL.",
            _CARTPOLE | {"collectors_as": "threads"},
        ),
    },
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
        updates=ceil(config.total_steps / (config.batch_steps * config.envs_per_collector)),
    ),
    result=Result("test/episodic_return", task=("environment",)),
    update_clock=Clock("train/value_loss"),
    axis="collectors",
    counts={"collectors": "collector"},
)
