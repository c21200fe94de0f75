"""Batched-RPC REINFORCE's settings, presets and card. Torch-free."""

from typing import Literal

from engine.config import Config, RuleBroken, Rules, setting
from engine.experiment import Clock, Experiment, Flow, Preset, ReadySweep, Work
from engine.metrics import LAST_EPISODES, Result
from engine.rl.kinds import EnvironmentName, kind_of, rewards_that_solve
from engine.training.settings import SLOW_START, as_published


class BatchedReinforceConfig(Config):
    """Settings of observers that request every action from one agent."""

    work_fields = ("episodes", "steps")
    server_roles = ("agent",)

    observers: int = setting(5, low=1, high=16)
    """Observer processes. Each steps its own environments and requests actions from the agent."""
    mode: Literal["batched", "per_call"] = setting("batched")
    """batched: one forward pass per step for all observers. per_call: one forward pass per request."""
    environment: EnvironmentName = setting("CartPole-v1", "Gymnasium id of an environment with discrete actions.")
    envs_per_observer: int = setting(1, low=1, high=256, unit="environments")
    """Environments per observer; one message carries the states of all."""
    episodes: int = setting(10, low=1, high=100_000)
    """Rounds of rollouts and training; each ends with one policy update."""
    steps: int = setting(500, low=1, high=100_000, unit="env steps")
    """Steps of every environment in one round; finished episodes restart within the round."""
    learning_rate: float = setting(0.01, "Learning rate of Adam; lower it if the reward is unstable.", above=0, high=10)
    gamma: float = setting(1.0, "Discount factor per step for future rewards.", above=0, high=1, advanced=True)
    normalize_returns: bool = setting(False)
    """Normalize a round's returns to mean 0 and deviation 1. More stable, but not in the published code."""
    dropout: float = setting(0.6, low=0, below=1, advanced=True)
    """Fraction of hidden units that dropout zeroes, also while acting."""
    variant: Literal["engine", "tutorial"] = setting("engine")
    """engine: short messages, gradients computed once per round. tutorial: built like the published code, at its
    original speed."""
    transport: Literal["rpc", "shared_memory"] = setting("rpc")
    """Transport of states and actions: torch RPC or shared memory (one machine only)."""
    timeout_s: float = setting(60.0, low=1, high=3600, unit="s", advanced=True)
    """Maximum silence of an observer before the run fails and names it."""

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

    def rules(self) -> Rules:
        if kind_of(self.environment).choices is None:
            raise RuleBroken(
                "environment",
                f"environment must have discrete actions here, but {self.environment} has continuous ones. Choose dppo "
                "for it.",
            )
        yield self.no_apple_gpu(why="")
        tutorial, cure = self.when("variant tutorial"), "Or choose variant engine."
        yield tutorial("transport", "rpc", why="because RPC is what it demonstrates", cure=cure)
        yield tutorial("start_method", "spawn", why=SLOW_START, cure=cure)
        yield tutorial("envs_per_observer", 1, why="because the published code uses one", cure=cure)
        yield tutorial("normalize_returns", False, why="because the published code doesn't normalize", cure=cure)
        yield tutorial("device", "auto", "cpu", cure="Choose cpu or variant engine.")


_PUBLISHED = {"observers": 5, "mode": "batched", "episodes": 10, "steps": 500, "learning_rate": 0.01, "gamma": 1.0} | {
    "dropout": 0.6,
    "seed": 543,
}

EXPERIMENT = Experiment(
    name="batched_reinforce",
    title="Batched-RPC REINFORCE",
    tagline="Observers ask one agent for actions",
    sentence="Observers step environments and request every action from one agent: one by one, or one batch per step.",
    config=BatchedReinforceConfig,
    ready_sweeps=(
        ReadySweep(
            "Batching against per call",
            "quick",
            {"mode": "batched, per_call", "observers": "1, 4"},
            "contest",
            run_s=28,
        ),
    ),
    presets={
        "published": Preset("CartPole as published: 10 rounds of 500 steps, batched.", _PUBLISHED),
        "per_call": Preset(
            "The same with a separate forward pass for each request.", _PUBLISHED | {"mode": "per_call"}
        ),
        "tuned": Preset(
            "Two observers with 16 environments each, over shared memory: normalized returns, no dropout, a larger "
            "learning rate.",
            _PUBLISHED
            | {"observers": 2, "envs_per_observer": 16, "episodes": 40, "transport": "shared_memory"}
            | {"learning_rate": 0.02, "gamma": 0.99, "normalize_returns": True, "dropout": 0.0, "threads_per_rank": 1},
        ),
        "quick": Preset(
            "Two observers over shared memory, 60 rounds: episode length increases over the run. For remote calls as "
            "in the tutorial, set transport to rpc.",
            _PUBLISHED
            | {"observers": 2, "envs_per_observer": 4, "episodes": 60, "transport": "shared_memory"}
            | {"threads_per_rank": 1},
            takes="Takes about 15 s on two cores.",
        ),
        "tutorial": as_published(
            _PUBLISHED, "a remote reference in every call, an autograd graph kept for every step."
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
    "Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning, Machine Learning 1992",
    result=Result(
        LAST_EPISODES, task=("environment",), older=Result("charts/episodic_return", "mean", ("environment",))
    ),
    work=lambda config: Work(
        "episodes",
        config.episodes * config.steps * config.envs_per_observer * config.observers,
        "env steps",
        updates=config.episodes,
    ),
    update_clock=Clock("train/loss", counts="points"),  # one after each round
    axis="observers",
    counts={"observers": "observer"},
)
