"""DPPO's settings, presets and card. Torch-free."""

from math import ceil
from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken, interval
from engine.experiment.definition import Experiment, Flow, Preset, UpdateClock, Work
from engine.experiment.result import Result
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve
from engine.training.settings import SCHEDULE, Schedule


class DppoConfig(Config):
    """Settings of collectors, a learner, and four ways for them to share the policy."""

    work_fields = ("total_steps",)
    server_roles = ("main",)

    collectors: int = Field(2, ge=1, le=16, description="Number of collectors; each has its own environments.")
    mode: Literal["bounded_queue", "update_locked", "reader_writer", "unlocked"] = Field(
        "bounded_queue",
        description=(
            "bounded_queue: fill the queue, then train until it is empty; update_locked: only updates stop the "
            "collectors; reader_writer: one batch at a time, other collectors' steps are discarded; unlocked: "
            "weights change while collectors act."
        ),
    )
    collectors_as: Literal["processes", "threads"] = Field(
        "processes",
        description=(
            "processes run in parallel; threads share the learner's process and Python's global interpreter lock (GIL)."
        ),
    )
    environment: EnvironmentName = Field(
        "CartPole-v1", description="Gymnasium id of an environment with discrete or bounded continuous actions."
    )
    envs_per_collector: int = Field(
        8,
        ge=1,
        le=256,
        description="Environments per collector.",
        json_schema_extra={"unit": "environments"},
    )
    batch_steps: int = Field(
        64, ge=2, le=10_000, description="Steps of each environment in one batch.", json_schema_extra={"unit": "steps"}
    )
    max_queue_size: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of batches in the queue. Empty: twice the collectors.",
        json_schema_extra={"unit": "batches", "empty": "2 × collectors"},
    )
    total_steps: int = Field(
        300_000,
        ge=1,
        le=10**9,
        description="Total env steps to collect; the run ends after them.",
        json_schema_extra={"unit": "env steps"},
    )
    stop_when_solved: bool = Field(
        True,
        description=(
            "Stop early when 100 greedy episodes reach the mean at which gymnasium's registry considers "
            "the environment solved."
        ),
    )
    learning_rate: float = Field(0.0025, gt=0, le=10, description="Learning rate of the actor's Adam.")
    critic_learning_rate: float | None = Field(
        None,
        gt=0,
        le=10,
        description="Learning rate of the critic's Adam. Empty: same as the actor's.",
        json_schema_extra=ADVANCED | {"empty": "learning_rate"},
    )
    schedule: Schedule = Field("linear", description=SCHEDULE)
    gamma: float = Field(0.99, gt=0, le=1, description="Discount factor per step for future rewards.")
    gae_lambda: float = Field(
        0.95,
        ge=0,
        le=1,
        description="Lambda of generalized advantage estimation: 0 relies on the critic, 1 on observed rewards.",
        json_schema_extra=ADVANCED,
    )
    clip: float = Field(
        0.2,
        gt=0,
        le=1,
        description="Clip range of PPO's probability ratio.",
        json_schema_extra=ADVANCED,
    )
    epochs: int = Field(10, ge=1, le=100, description="Passes over each batch per update.", json_schema_extra=ADVANCED)
    minibatches: int = Field(4, ge=1, le=1024, description="Mini-batches per pass.", json_schema_extra=ADVANCED)
    entropy: float = Field(0.0, ge=0, le=1, description="Coefficient of the entropy bonus.", json_schema_extra=ADVANCED)
    normalize_advantages: bool = Field(
        True,
        description="Normalize each mini-batch's advantages to mean 0 and deviation 1.",
        json_schema_extra=ADVANCED,
    )
    normalize_observations: bool = Field(
        False, description="Normalize observations by their running mean and deviation; required for Pendulum."
    )
    reward_shift: float = Field(
        0.0, ge=-1e6, le=1e6, description="Added to each reward before training.", json_schema_extra=ADVANCED
    )
    reward_scale: float = Field(
        1.0, gt=0, le=1e6, description="Multiplies each reward, after reward_shift.", json_schema_extra=ADVANCED
    )
    network: Literal["two_layers", "published"] = Field(
        "two_layers",
        description="two_layers: 64 and 64 tanh. published: actor 200 ReLU, critic 100 ReLU.",
        json_schema_extra=ADVANCED,
    )
    evaluate_every_s: float = Field(
        5.0,
        ge=0,
        le=86_400,
        description="Interval between evaluations during training. 0 evaluates only at the end.",
        json_schema_extra=ADVANCED | interval("s", "it is evaluated only at the end"),
    )
    evaluation_episodes: int = Field(
        20, ge=1, le=1000, description="Greedy episodes per evaluation.", json_schema_extra=ADVANCED
    )
    render_every_s: float = Field(
        20.0,
        ge=0,
        le=86_400,
        description="Interval between recordings of an episode. 0 disables them.",
        json_schema_extra=ADVANCED | interval("s", "no episode is recorded during training"),
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Maximum duration of one environment step before the run fails and names it.",
        json_schema_extra=ADVANCED | {"unit": "s"},
    )

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

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        kind_of(self.environment)
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        steps = self.batch_steps * self.envs_per_collector
        if self.minibatches > steps:
            raise RuleBroken(
                "minibatches",
                (
                    f"minibatches must be at most the {steps} steps of a batch (batch_steps x "
                    f"envs_per_collector), got {self.minibatches}."
                ),
            )
        if self.device in ("cuda", "mps"):
            raise RuleBroken(
                "device",
                (
                    f"device must be auto or cpu here, got '{self.device}': the networks are too small to "
                    "benefit from a GPU."
                ),
            )
        return self


_CARTPOLE = {
    "environment": "CartPole-v1",
    "collectors": 2,
    "envs_per_collector": 8,
    "batch_steps": 64,
    "threads_per_rank": 1,
}
_PUBLISHED = {
    "environment": "Pendulum-v1",
    "collectors": 4,
    "envs_per_collector": 1,
    "batch_steps": 64,
    "total_steps": 200_000,
    "learning_rate": 0.0001,
    "critic_learning_rate": 0.0002,
    "schedule": "constant",
    "gamma": 0.9,
    "gae_lambda": 1.0,
    "epochs": 10,
    "minibatches": 1,
    "normalize_advantages": False,
    "reward_shift": 8.0,
    "reward_scale": 0.125,
    "network": "published",
    "threads_per_rank": 1,
}

EXPERIMENT = Experiment(
    name="dppo",
    title="DPPO with a bounded queue",
    tagline="Collectors fill a queue, a learner updates",
    sentence="Collectors play and a learner updates; the modes differ in how they synchronize.",
    config=DppoConfig,
    presets={
        "published": Preset(
            ("Pendulum as in the reader-writer code: 4 collectors, a batch of 64 steps, everyone waits for an update."),
            _PUBLISHED | {"mode": "reader_writer"},
        ),
        "published_queue": Preset("The same with the bounded queue.", _PUBLISHED),
        "tuned": Preset(
            (
                "Pendulum with 2 collectors of 32 environments, normalized observations, scaled "
                "rewards and a small entropy bonus."
            ),
            _CARTPOLE
            | {
                "environment": "Pendulum-v1",
                "envs_per_collector": 32,
                "total_steps": 1_000_000,
                "gamma": 0.95,
                "learning_rate": 0.001,
                "epochs": 6,
                "minibatches": 16,
                "entropy": 0.01,
                "normalize_observations": True,
                "reward_scale": 0.1,
            },
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
    source=(
        "Heess et al.: Emergence of Locomotion Behaviours in Rich Environments, 2017; Schulman et al.: Proximal "
        "Policy Optimization Algorithms, 2017"
    ),
    work=lambda config: Work(
        "total_steps",
        config.total_steps,
        "env steps",
        updates=ceil(config.total_steps / (config.batch_steps * config.envs_per_collector)),
    ),
    result=Result("test/episodic_return", task=("environment",)),
    update_clock=UpdateClock("train/value_loss"),
    axis="collectors",
    counts={"collectors": "collector"},
)
