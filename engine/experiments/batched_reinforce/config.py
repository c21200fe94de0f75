"""Batched-RPC REINFORCE's settings, presets and card. Torch-free."""

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.config import ADVANCED, Config, RuleBroken
from engine.experiment.definition import Experiment, Flow, Preset, Result, UpdateClock
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve


class BatchedReinforceConfig(Config):
    """Observers that ask one agent for every action."""

    server_roles = ("agent",)

    observers: int = Field(
        5,
        ge=1,
        le=16,
        description="Observer processes; each plays environments of its own and asks the agent what to do.",
    )
    mode: Literal["batched", "per_call"] = Field(
        "batched",
        description=(
            "batched: the last observer to ask in a step triggers one forward pass for all. per_call: each "
            "question is answered at once, by itself."
        ),
    )
    environment: EnvironmentName = Field(
        "CartPole-v1", description="A gymnasium id of the catalogue with discrete actions."
    )
    envs_per_observer: int = Field(
        1,
        ge=1,
        le=256,
        description="Environments that an observer plays side by side; one message carries the states of all.",
        json_schema_extra={"unit": "environments"},
    )
    episodes: int = Field(
        10, ge=1, le=100_000, description="Rounds of playing and learning; each ends with one update of the policy."
    )
    steps: int = Field(
        500,
        ge=1,
        le=100_000,
        description="Steps of every environment in one round; one that ends begins anew meanwhile.",
        json_schema_extra={"unit": "env steps"},
    )
    learning_rate: float = Field(
        0.01, gt=0, le=10, description="Step size of Adam. If the reward jumps about, lower it."
    )
    gamma: float = Field(
        1.0,
        gt=0,
        le=1,
        description="How much a later reward counts, per step that it comes later.",
        json_schema_extra=ADVANCED,
    )
    normalize_returns: bool = Field(
        False,
        description="Shift and scale the returns of a round to mean 0 and deviation 1: steadier, but not as published.",
    )
    dropout: float = Field(
        0.6,
        ge=0,
        lt=1,
        description="Share of hidden units that dropout leaves out, while acting too.",
        json_schema_extra=ADVANCED,
    )
    variant: Literal["engine", "tutorial"] = Field(
        "engine",
        description=(
            "engine: short messages, and gradients computed once a round. tutorial: built as the published code "
            "is, at its cost."
        ),
    )
    transport: Literal["rpc", "gloo", "shared_memory"] = Field(
        "rpc",
        description=(
            "How states and actions travel: torch's RPC, gloo's messages, or memory that the processes share (one "
            "machine only)."
        ),
    )
    timeout_s: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="So long an observer may be silent before the run fails and names it.",
        json_schema_extra=ADVANCED | {"unit": "s"},
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return ("agent", *self.observer_roles)

    @property
    def observer_roles(self) -> tuple[str, ...]:
        return tuple(f"observer{number}" for number in range(1, self.observers + 1))

    def listens(self, gpus: int) -> bool:
        """Return whether questions travel over the network's loopback."""
        return self.transport != "shared_memory"

    @property
    def max_gpus(self) -> int:
        """One, for the agent."""
        return 0 if self.variant == "tutorial" else 1

    @property
    def patience_s(self) -> float:
        """So long an observer waits for an answer: longer than the agent waits for others, since it is the agent that
        finds who is late.
        """
        return 2 * self.timeout_s + 10

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        if kind_of(self.environment).choices is None:
            raise RuleBroken(
                "environment",
                (
                    f"environment must have discrete actions here, and {self.environment} takes vectors. Choose "
                    "dppo for it."
                ),
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
            ("transport", "rpc", "it is RPC that it shows"),
            ("start_method", "spawn", "its slow start is part of what it shows"),
            ("envs_per_observer", 1, "the published code plays one"),
            ("normalize_returns", False, "the published code doesn't"),
        )
        for field, value, why in rules:
            if getattr(self, field) != value:
                raise RuleBroken(
                    field,
                    (
                        f"{field} must be {value} for variant tutorial, since {why}, got {getattr(self, field)!r}. "
                        "Or choose variant engine."
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
    sentence="Observers play, and ask one agent for every action: each at once, or all of a step in one batch.",
    config=BatchedReinforceConfig,
    presets={
        "published": Preset("CartPole as published: 10 rounds of 500 steps, batched.", _PUBLISHED),
        "per_call": Preset("The same, each question answered by itself.", _PUBLISHED | {"mode": "per_call"}),
        "tuned": Preset(
            "Two observers with 16 environments each: returns shifted and scaled, no dropout, a larger step size.",
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
            "Two observers over shared memory, 60 rounds: the pole stays up longer and longer.",
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
                "As published, built as the published code is: a reference with every call, an autograd graph kept "
                "for every step."
            ),
            _PUBLISHED | {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
    },
    goals=lambda config: rewards_that_solve(config.environment),
    flows=(
        Flow("each observer", "agent", "the state, and the reward of the step before"),
        Flow("agent", "each observer", "the action: at once, or when all have asked"),
        Flow("agent", "policy", "one update after each round"),
    ),
    source="PyTorch tutorial: Implementing Batch RPC Processing Using Asynchronous Executions; Williams: Simple "
    "Statistical Gradient-Following "
    "Algorithms for Connectionist Reinforcement Learning, Machine Learning 1992",
    result=Result("charts/episodic_return", "mean", ("environment",)),
    update_clock=UpdateClock("train/loss", counts="points"),  # one after each round
    axis="observers",
    counts={"observers": "observer"},
)
