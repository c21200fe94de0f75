"""DPPO's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken
from engine.experiment.definition import Experiment, Flow, Preset, Result, UpdateClock
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve

S = ADVANCED | {"unit": "s"}


class DppoConfig(Config):
    """Collectors that play, a learner that updates, and four ways for them to share the policy."""

    server_roles = ("main",)

    collectors: int = Field(2, ge=1, le=16, description="How many collectors play; each has environments of its own.")
    mode: Literal["bounded_queue", "update_locked", "reader_writer", "unlocked"] = Field(
        "bounded_queue",
        description="bounded_queue: play until the queue is full, then update until it is "
        "empty. update_locked: only an "
        "update stops the players. "
        "reader_writer: one batch at a time, all others' steps are thrown away. unlocked: weights change while "
        "players act.",
    )
    collectors_as: Literal["processes", "threads"] = Field(
        "processes",
        description=(
            "processes run side by side; threads of the learner's process take turns at Python's lock (the GIL)."
        ),
    )
    environment: EnvironmentName = Field(
        "CartPole-v1", description="A gymnasium id of the catalogue with discrete actions or bounded vectors."
    )
    envs_per_collector: int = Field(
        8,
        ge=1,
        le=256,
        description="Environments that a collector plays side by side.",
        json_schema_extra={"unit": "environments"},
    )
    batch_steps: int = Field(
        64, ge=2, le=10_000, description="Steps of each environment in one batch.", json_schema_extra={"unit": "steps"}
    )
    max_queue_size: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Batches that the queue holds; empty means twice the collectors.",
        json_schema_extra={"unit": "batches", "empty": "2 x collectors"},
    )
    total_steps: int = Field(
        300_000,
        ge=1,
        le=10**9,
        description="The run ends when so many env steps were collected.",
        json_schema_extra={"unit": "env steps"},
    )
    stop_when_solved: bool = Field(
        True, description="End as soon as 100 greedy episodes reach the mean that gymnasium's registry calls solved."
    )
    learning_rate: float = Field(0.0025, gt=0, le=10, description="Step size of the actor's Adam.")
    critic_learning_rate: float | None = Field(
        None,
        gt=0,
        le=10,
        description="Step size of the critic's Adam; empty means the actor's.",
        json_schema_extra=ADVANCED | {"empty": "learning_rate"},
    )
    schedule: Literal["constant", "linear"] = Field(
        "linear", description="The learning rates over the run: constant, or falling in a line to 0 at its end."
    )
    gamma: float = Field(0.99, gt=0, le=1, description="How much a later reward counts, per step that it comes later.")
    gae_lambda: float = Field(
        0.95,
        ge=0,
        le=1,
        description="Generalized advantage estimation: 0 trusts the critic, 1 the rewards seen.",
        json_schema_extra=ADVANCED,
    )
    clip: float = Field(
        0.2,
        gt=0,
        le=1,
        description="How far the probability of what was done may move in one update.",
        json_schema_extra=ADVANCED,
    )
    epochs: int = Field(
        10, ge=1, le=100, description="Times that an update goes through its batch.", json_schema_extra=ADVANCED
    )
    minibatches: int = Field(
        4, ge=1, le=1024, description="Parts that a batch is cut into for each of those.", json_schema_extra=ADVANCED
    )
    entropy: float = Field(
        0.0, ge=0, le=1, description="Bonus for a policy that stays undecided.", json_schema_extra=ADVANCED
    )
    normalize_advantages: bool = Field(
        True,
        description="Shift and scale each mini-batch's advantages to mean 0 and deviation 1.",
        json_schema_extra=ADVANCED,
    )
    normalize_observations: bool = Field(
        False, description="Shift and scale observations by their running mean and deviation; Pendulum needs it."
    )
    reward_shift: float = Field(
        0.0, ge=-1e6, le=1e6, description="Added to each reward before it is learned from.", json_schema_extra=ADVANCED
    )
    reward_scale: float = Field(
        1.0, gt=0, le=1e6, description="Rewards are multiplied with it, after the shift.", json_schema_extra=ADVANCED
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
        description="Seconds between two evaluations beside training; 0 evaluates at the end only.",
        json_schema_extra=S,
    )
    evaluation_episodes: int = Field(
        20, ge=1, le=1000, description="Greedy episodes of one evaluation.", json_schema_extra=ADVANCED
    )
    render_every_s: float = Field(
        20.0,
        ge=0,
        le=86_400,
        description="Seconds between two pictures of an episode; 0 draws none.",
        json_schema_extra=S,
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="So long one step of an environment may take before the run fails and names it.",
        json_schema_extra=S,
    )

    @property
    def collector_roles(self) -> tuple[str, ...]:
        return tuple(f"collector{number}" for number in range(1, self.collectors + 1))

    @property
    def roles(self) -> tuple[str, ...]:
        return ("main", "learner", *(self.collector_roles if self.collectors_as == "processes" else ()))

    @property
    def max_gpus(self) -> int:
        """None: the networks are small, and what bounds the run is playing."""
        return 0

    @property
    def bound(self) -> int:
        """Batches that the queue holds."""
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
                    f"minibatches must be at most the {steps} steps of a batch (batch_steps x envs_per_collector), "
                    f"got {self.minibatches}."
                ),
            )
        if self.device in ("cuda", "mps"):
            raise RuleBroken(
                "device",
                f"device must be auto or cpu here, got '{self.device}': the networks are too small for a GPU to pay.",
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
    sentence="Collectors play and a learner updates; what differs is how they keep out of each other's way.",
    config=DppoConfig,
    presets={
        "published": Preset(
            (
                "Pendulum as the reader-writer code has it: 4 collectors, a batch of 64 steps, everyone stops for "
                "an update."
            ),
            _PUBLISHED | {"mode": "reader_writer"},
        ),
        "published_queue": Preset("The same through the bounded queue.", _PUBLISHED),
        "tuned": Preset(
            (
                "Pendulum by 2 collectors of 32 environments, observations and rewards scaled, undecided policies "
                "rewarded a little."
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
            "CartPole by 2 collectors of 8 environments, until it is solved.",
            _CARTPOLE,
            expects={"test/episodic_return": 475.0},
            takes="Takes about 10 s on two cores.",
        ),
        "threads": Preset(
            "CartPole with collectors as threads: the GIL at work.", _CARTPOLE | {"collectors_as": "threads"}
        ),
    },
    goals=lambda config: rewards_that_solve(config.environment),
    flows=(
        Flow("each collector", "queue", "a batch of steps, with the version of the policy that made them"),
        Flow("queue", "learner", "batches, when the queue is full"),
        Flow("learner", "weights", "a new version after each update"),
        Flow("weights", "each collector", "the newest version, before each batch"),
    ),
    source=(
        "Heess et al.: Emergence of Locomotion Behaviours in Rich Environments, 2017; Schulman et al.: Proximal "
        "Policy Optimization Algorithms, 2017"
    ),
    result=Result("test/episodic_return", task=("environment",)),
    update_clock=UpdateClock("train/value_loss"),
    axis="collectors",
    counts={"collectors": "collector"},
)
