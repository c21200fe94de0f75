"""Asynchronous SGD's settings, presets and card. Torch-free."""

from typing import Literal

from engine.config import setting
from engine.data.catalogue import data_set
from engine.experiment import Clock, Contender, Experiment, Flow, Preset, Ready, ReadySweep
from engine.training.settings import DIGITS, GPT, VIT, ServerConfig, as_published, served


class AsyncSgdConfig(ServerConfig):
    """Settings of a server that applies every gradient as soon as it arrives."""

    momentum: float = setting(0.9, low=0, below=1)
    """Momentum of the server's SGD. Lower it for many trainers: asynchrony adds about 1 - 1/N (Mitliagkas et al.,
    2016)."""
    rule: Literal["plain", "staleness_scaled", "delay_compensated"] = setting("plain")
    """How stale gradients are applied: plain (unchanged), staleness_scaled (divided by 1 + staleness, momentum
    unchanged) or delay_compensated (first-order correction for the updates since the fetch)."""
    staleness_bound: int | None = setting(None, low=0, high=1_000_000, unit="steps", empty="unbounded")
    """Maximum lead of a trainer over the slowest one before it waits. Empty: unbounded."""
    compensation: float = setting(0.04, low=0, high=1000, advanced=True)
    """delay_compensated only: the paper's lambda. About 2 is usual with compensation_decay."""
    compensation_decay: float = setting(0.0, low=0, below=1, advanced=True)
    """delay_compensated only: decay of the mean square that lambda is divided by (0.95 in the paper). 0 keeps lambda
    constant."""

    @property
    def needs_all(self) -> bool:
        return False


CONTENDER = Contender(
    length="epochs",
    pace=served,
    strategies={
        "async_sgd": Ready("Asynchronous SGD"),
        "async_scaled": Ready("Asynchronous SGD, staleness-scaled", {"rule": "staleness_scaled"}),
    },
    data="one part of the data per trainer",
    momentum=lambda config: "one, on the server",
    tests="by the server, while all trainers continue",
)
_PUBLISHED = {
    "dataset": "mnist",
    "trainers": 4,
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 0.001,
    "momentum": 0.9,
}

EXPERIMENT = Experiment(
    name="async_sgd",
    title="Asynchronous SGD",
    tagline="A server applies each gradient at once",
    sentence="A server applies every trainer's gradient as soon as it arrives, however stale it is.",
    config=AsyncSgdConfig,
    ready_sweeps=(
        ReadySweep(
            *("Does staleness hurt?", "quick", {"trainers": "1, 2, 4", "rule": "plain, staleness_scaled"}, "staleness"),
            effects={
                "staleness_scaled": "staleness_scaled divides each step by 1 + staleness: a change of its accuracy may "
                "come from the smaller steps."
            },
            run_s=9,
        ),
    ),
    presets={
        "published": Preset(
            "The published MNIST set-up (assumed) with one update per gradient: 4 trainers, 10 passes.", _PUBLISHED
        ),
        "tuned": Preset(
            "MNIST in 10 passes with smaller batches, a larger learning rate with linear decay, and less momentum, "
            "because asynchrony adds its own.",
            _PUBLISHED | {"batch_size": 16, "learning_rate": 0.02, "momentum": 0.5, "schedule": "linear"},
        ),
        "quick": Preset(
            "Two trainers make 25 passes over the bundled digits; needs no network.",
            DIGITS
            | {"epochs": 25, "batch_size": 16, "learning_rate": 0.05, "momentum": 0.5, "schedule": "linear"}
            | {"evaluate_every": 5, "threads_per_rank": 1},
            expects={"test/accuracy": 95.0},
        ),
        "straggler": Preset(
            "Every trainer sleeps 50 ms per step, one of them 100 ms: the cost of a straggler when no trainer waits "
            "for it.",
            _PUBLISHED | {"batch_size": 64, "epochs": 1, "sleep_ms": 50, "slow_trainer": 4, "slow_sleep_ms": 100},
        ),
        "bounded": Preset(
            "The same with a staleness bound of 4 steps (SSP).",
            _PUBLISHED
            | {"batch_size": 64, "epochs": 1, "sleep_ms": 5, "slow_trainer": 4, "slow_sleep_ms": 10}
            | {"staleness_bound": 4},
        ),
        "gpt": Preset(
            "Two trainers of a small GPT make one pass over sources of Python's standard library; needs no network.",
            GPT | {"epochs": 1, "learning_rate": 0.1, "momentum": 0.8},
        ),
        "vit": Preset(
            "Two trainers of a small vision transformer make 20 passes over the bundled digits; needs no network.",
            VIT | {"epochs": 20, "learning_rate": 0.03, "momentum": 0.8, "evaluate_every": 5},
        ),
        "tutorial": as_published(_PUBLISHED, "whole modules sent each way, images read one by one."),
    },
    pattern="asynchronous server",
    flows=(
        Flow("each trainer", "server (ps)", "a gradient, possibly of stale weights"),
        Flow("server (ps)", "weights", "an update for every gradient"),
        Flow("server (ps)", "each trainer", "the current weights"),
    ),
    source="Dean et al.: Large Scale Distributed Deep Networks, NeurIPS 2012; Zhang et al. 2016; Ho et al. 2013; "
    "Zheng et al. 2017",
    resumable=True,
    work=lambda config: CONTENDER.work(config, data_set(config.dataset).train),
    update_clock=Clock("train/loss"),  # of all trainers: each gradient is an update
    stale_gradients="asynchronous SGD",
    axis="trainers",
    counts={"trainers": "trainer"},
    duel=CONTENDER,
)
