"""Batched-RPC REINFORCE's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken
from engine.experiment.definition import Experiment, Flow, Preset, ReadySweep, UpdateClock, Work
from engine.experiment.result import Result
from engine.metrics import LAST_EPISODES
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve


class BatchedReinforceConfig(Config):
    """Settings of observers that request every action from one agent."""

    work_fields = ("episodes", "steps")
    server_roles = ("agent",)

    observers: int = Field(
        5,
        ge=1,
        le=16,
        description="Observer processes. Each steps its own environments and requests actions from the agent.",
    )
    mode: Literal["batched", "per_call"] = Field(
        "batched",
        description=("batched: one forward pass per step for all observers. per_call: one forward pass per request."),
    )
    environment: EnvironmentName = Field(
        "CartPole-v1", description="Gymnasium id of an environment with discrete actions."
    )
    envs_per_observer: int = Field(
        1,
        ge=1,
        le=256,
        description="Environments per observer; one message carries the states of all.",
        json_schema_extra={"unit": "environments"},
    )
    episodes: int = Field(
        10, ge=1, le=100_000, description="Rounds of rollouts and training; each ends with one policy update."
    )
    steps: int = Field(
        500,
        ge=1,
        le=100_000,
        description="Steps of every environment in one round; finished episodes restart within the round.",
        json_schema_extra={"unit": "env steps"},
    )
    learning_rate: float = Field(
        0.01, gt=0, le=10, description="Learning rate of Adam; lower it if the reward is unstable."
    )
    gamma: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Discount factor per step for future rewards.",
        json_schema_extra=ADVANCED,
    )
    normalize_returns: bool = Field(
        False,
        description=(
            "Normalize a round's returns to mean 0 and deviation 1. More stable, but not in the published code."
        ),
    )
    dropout: float = Field(
        0.6,
        ge=0,
        lt=1,
        description="Fraction of hidden units that dropout zeroes, also while acting.",
        json_schema_extra=ADVANCED,
    )
    variant: Literal["engine", "tutorial"] = Field(
        "engine",
        description=(
            "engine: short messages, gradients computed once per round. tutorial: built like the "
            "published code, at its original speed."
        ),
    )
    transport: Literal["rpc", "shared_memory"] = Field(
        "rpc",
        description=("Transport of states and actions: torch RPC or shared memory (one machine only)."),
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Maximum silence of an observer before the run fails and names it.",
        json_schema_extra=ADVANCED | {"unit": "s"},
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return ("agent", *self.observer_roles)

    @property
    def observer_roles(self) -> tuple[str, ...]:
        return tuple(f"observer{number}" for number in range(1, self.observers + 1))

    def listens(self, gpus: int) -> bool:
        """Return whether requests travel over the loopback network."""
        return self.transport != "shared_memory"

    @property
    def max_gpus(self) -> int:
        """One, for the agent."""
        return 0 if self.variant == "tutorial" else 1

    @property
    def patience_s(self) -> float:
        """Time that an observer waits for an answer: longer than the agent waits for observers, so that the agent
        reports the late one.
        """
        return 2 * self.timeout_s + 10

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        if kind_of(self.environment).choices is None:
            raise RuleBroken(
                "environment",
                f"environment must have discrete actions here, but {self.environment} has continuous ones. Choose dppo "
                "for it.",
            )
        return self

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.device == "mps":
            raise RuleBroken("device", "device must be auto, cpu or cuda here, got 'mps'. Choose cpu.")
        return self

    @model_validator(mode="after")
    def _is_as_the_tutorial(self) -> Self:
        if self.variant != "tutorial":
            return self
        rules = (
            ("transport", "rpc", "RPC is what it demonstrates"),
            ("start_method", "spawn", "its slow start is part of the demonstration"),
            ("envs_per_observer", 1, "the published code uses one"),
            ("normalize_returns", False, "the published code doesn't normalize"),
        )
        for field, value, why in rules:
            if getattr(self, field) != value:
                raise RuleBroken(
                    field,
                    (
                        f"{field} must be {value} for variant tutorial, because {why}, got "
                        f"{getattr(self, field)!r}. Or choose variant engine."
                    ),
                )
        if self.device == "cuda":
            raise RuleBroken(
                "device", "device must be auto or cpu for variant tutorial, got 'cuda'. Choose cpu or variant engine."
            )
        return self


_PUBLISHED = {
    "observers": 5,
    "mode": "batched",
    "episodes": 10,
    "steps": 500,
    "learning_rate": 0.01,
    "gamma": 1.0,
    "dropout": 0.6,
    "seed": 543,
}

EXPERIMENT = Experiment(
    name="batched_reinforce",
    title="Batched-RPC REINFORCE",
    tagline="Observers ask one agent for actions",
    sentence=(
        "Observers step environments and request every action from one agent: one by one, or one batch per step."
    ),
    config=BatchedReinforceConfig,
    ready_sweeps=(
        ReadySweep(
            "Batching against per call",
            "quick",
            {"mode": "batched, per_call", "observers": "1, 4"},
            "contest",
            is_timed=True,
        ),
    ),
    presets={
        "published": Preset("CartPole as published: 10 rounds of 500 steps, batched.", _PUBLISHED),
        "per_call": Preset(
            "The same with a separate forward pass for each request.", _PUBLISHED | {"mode": "per_call"}
        ),
        "tuned": Preset(
            "Two observers with 16 environments each: normalized returns, no dropout, a larger learning rate.",
            _PUBLISHED
            | {
                "observers": 2,
                "envs_per_observer": 16,
                "episodes": 40,
                "transport": "shared_memory",
                "learning_rate": 0.02,
                "gamma": 0.99,
                "normalize_returns": True,
                "dropout": 0.0,
                "threads_per_rank": 1,
            },
        ),
        "quick": Preset(
            "Two observers over shared memory, 60 rounds: episode length increases over the run.",
            _PUBLISHED
            | {
                "observers": 2,
                "envs_per_observer": 4,
                "episodes": 60,
                "transport": "shared_memory",
                "threads_per_rank": 1,
            },
            takes="Takes about 15 s on two cores.",
        ),
        "tutorial": Preset(
            (
                "The published set-up, built like the published code: a remote reference in every "
                "call, an autograd graph kept for every step."
            ),
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
    },
    goals=lambda config: rewards_that_solve(config.environment),
    pattern="batched requests",
    flows=(
        Flow("each observer", "agent", "the state, and the previous step's reward"),
        Flow("agent", "each observer", "the action: at once, or when all requests are in"),
        Flow("agent", "policy", "one update after each round"),
    ),
    source="PyTorch tutorial: Implementing Batch RPC Processing Using Asynchronous Executions; Williams: Simple "
    "Statistical Gradient-Following "
    "Algorithms for Connectionist Reinforcement Learning, Machine Learning 1992",
    result=Result(
        LAST_EPISODES, task=("environment",), older=Result("charts/episodic_return", "mean", ("environment",))
    ),
    work=lambda config: Work(
        "episodes",
        config.episodes * config.steps * config.envs_per_observer * config.observers,
        "env steps",
        updates=config.episodes,
    ),
    update_clock=UpdateClock("train/loss", counts="points"),  # one after each round
    axis="observers",
    counts={"observers": "observer"},
)
