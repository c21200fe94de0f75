"""What the timeline says of real runs of all systems whose bound is known by construction: one part of each sleeps so
long that nothing else can bound the run. Each run's sentences are about a second in its middle.
"""

import importlib
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.timeline import PathShares, bounds
from engine.registry import experiment, method
from engine.runtime.rank import fork_server
from engine.runtime.rank.rank import RunContext
from engine.runtime.worker.ranks import Rank, Ranks, StopRequested
from engine.trace.chunk import TraceChunk
from engine.trace.critical_path import HELD, MESSAGE, critical_path, own_work
from engine.trace.timeline import RunTrace
from tests.doubles import MemorySink

STRETCH_S = (0.6, 1.8)
"""The stretch, in seconds after all ranks were ready; the trace of the first 2 s is stored."""
ENOUGH_S = 2.4
Sleeps = tuple[tuple[str, str, float], ...]
"""(role, or empty for all; module:Class.method; milliseconds to sleep before each call)."""

SERVER = "engine.training.server:WeightServer._handle"
AGENT = "engine.experiments.batched_reinforce.method:_Agent.act"
SHARED, RPC = (f"engine.runtime.transport.{name}" for name in ("shared_memory", "rpc"))
ENVIRONMENT = "engine.rl.environments:Environments.step"
LEARNER = "engine.experiments.dppo.method:_Learner._update"
STAGE = (
    "engine.experiments.pipeline.monitor:StageMonitor.watch",
    "engine.experiments.pipeline.monitor:StageMonitor.watch_backward",
)


@dataclass(frozen=True)
class Case:
    """A run, where it sleeps, and what must be on its path: kinds that take `share` of it, in `role` if given."""

    name: str
    bound: str
    config: Mapping[str, Any]
    kinds: tuple[str, ...]
    sleeps: Sleeps = ()
    role: str = ""
    share: float = 0.75
    least_work: float = 0.0
    """Share of the stretch that the predicted time must not be below."""


def cases() -> list[Case]:
    """Return all cases."""
    digits = {"dataset": "digits", "epochs": 1000, "trainers": 4, "batch_size": 4, "evaluate_every": 0}
    memory, rpc = {"transport": "shared_memory"}, {"transport": "rpc"}
    slow_ps: Sleeps = (("ps", SERVER, 50.0),)
    found = [
        Case("parameter_server", "slow server", digits | memory, ("serve",), slow_ps, "ps", 0.8, 0.8),
        Case("parameter_server", "slow server", digits | rpc, ("serve",), slow_ps, "ps", 0.8, 0.8),
        Case(
            "parameter_server",
            "slow trainer2",
            digits | memory | {"slow_trainer": 2, "slow_sleep_ms": 200},
            ("compute",),
            role="trainer2",
        ),
        Case("async_sgd", "slow server", digits | memory, ("serve",), slow_ps, "ps", 0.8, 0.8),
        Case("async_sgd", "slow messages", digits | rpc, (MESSAGE,), (("", f"{RPC}:RpcLine.ask", 50.0),)),
        Case("async_sgd", "tiny messages", digits | memory | {"sleep_ms": 50}, ("compute",)),
    ]
    sync = {"dataset": "digits", "rounds": 1000, "trainers": 3, "batch_size": 4, "evaluate_every": 0}
    slow = {"slow_trainer": 2, "slow_sleep_ms": 150}
    found += [
        Case("sync_sgd", "slow trainer2", sync | more | slow, ("compute",), role="trainer2")
        for more in (
            {"sync": "gradients", "transport": "gloo"},
            {"sync": "gradients", "transport": "rpc"},
            {"sync": "ddp", "transport": "gloo"},
            {"sync": "weights", "transport": "shared_memory"},
        )
    ]
    tests: Sleeps = (("trainer1", "engine.experiments.sync_sgd.trainer:evaluate", 300.0),)
    often = {"sync": "weights", "transport": "gloo", "evaluate_every": 1, "batch_size": 500}
    found += [
        Case("sync_sgd", "slow evaluation", sync | often, ("evaluate",), tests, "trainer1", 0.7),
        Case(
            "sync_sgd",
            "slow averages",
            sync | {"sync": "gradients", "transport": "shared_memory"},
            ("collective",),
            (("", f"{SHARED}:SharedLine.ask", 50.0),),
        ),
        Case(
            "hogwild",
            "slow update",
            {"dataset": "digits", "epochs": 1000, "trainers": 3, "batch_size": 4, "evaluate_every": 0},
            ("update",),
            (("", "engine.experiments.hogwild.optimizers:SampledSgd.step", 60.0),),
        ),
        Case(
            "hogwild",
            "slow update under a lock",
            {"dataset": "digits", "epochs": 1000, "trainers": 3, "batch_size": 4, "evaluate_every": 0, "lock": True},
            (HELD, "update"),
            (("", "engine.experiments.hogwild.optimizers:SampledSgd.step", 60.0),),
            least_work=0.3,
        ),
    ]
    play = {"observers": 3, "episodes": 100, "steps": 500}
    for mode in ("per_call", "batched"):
        for transport in ("shared_memory", "rpc"):
            config = play | {"mode": mode, "transport": transport}
            found += [
                Case(
                    "batched_reinforce",
                    "slow agent",
                    config,
                    ("serve",),
                    (("agent", AGENT, 40.0),),
                    "agent",
                    0.75,
                    0.75,
                ),
                Case("batched_reinforce", "slow observer2", config, ("compute",), (("observer2", ENVIRONMENT, 40.0),)),
            ]
    ppo: dict[str, Any] = {
        "collectors": 2,
        "environment": "CartPole-v1",
        "total_steps": 10_000_000,
        "stop_when_solved": False,
    }
    ppo |= {"evaluate_every_s": 0, "render_every_s": 0, "envs_per_collector": 1}
    for mode in ("bounded_queue", "bounded_lag", "update_locked", "reader_writer", "unlocked"):
        config = ppo | {"mode": mode}
        found += [
            Case("dppo", "slow learner", config, ("update", HELD), (("learner", LEARNER, 150.0),), "learner"),
            Case("dppo", "slow collectors", config, ("compute", HELD), (("", ENVIRONMENT, 3.0),), share=0.6),
        ]
    found.append(
        Case(
            "dppo",
            "slow learner",
            ppo | {"mode": "bounded_queue", "collectors_as": "threads"},
            ("update",),
            (("learner", LEARNER, 150.0),),
            "learner",
        )
    )
    pipe: dict[str, Any] = {
        "model": "small_resnet",
        "stages": 2,
        "splits": 4,
        "batch_size": 8,
        "image_size": 32,
        "batches": 10_000,
    }
    for mode, transport in (
        ("gpipe", "shared_memory"),
        ("1f1b", "shared_memory"),
        ("gpipe", "rpc"),
        ("rpc", "auto"),
        ("torch_pipelining", "auto"),
    ):
        config = pipe | {"mode": mode, "transport": transport, "cut": "2"}
        sleeps = tuple(("stage2", each, 60.0) for each in STAGE)
        found.append(Case("pipeline", "slow stage2", config, ("compute",), sleeps, "stage2", 0.6, 0.6))
        if mode in ("rpc", "torch_pipelining"):
            both = tuple(("", each, 60.0) for each in STAGE)
            found.append(Case("pipeline", "slow stages", config, ("compute",), both, share=0.8, least_work=0.5))
    found.append(
        Case(
            "reference",
            "slow gradients",
            {"dataset": "digits", "epochs": 1000, "batch_size": 4, "evaluate_every": 0},
            ("compute",),
            (("", "engine.training.flat_net:FlatNet.compute_gradient", 60.0),),
        )
    )
    return found


@dataclass
class SlowedRanks(Ranks):
    """Ranks in which functions sleep before each call."""

    sleeps: Sleeps = ()

    def run(self, function: Callable[..., None], *shared: Any, **more: Any) -> None:
        super().run(_slowed, self.sleeps, function, *shared, **more)


def _slowed(rank: Rank, sleeps: Sleeps, function: Callable[..., None], *shared: Any) -> None:
    for role, target, ms in sleeps:
        if role in ("", rank.role):
            module, _, path = target.partition(":")
            *owners, name = path.split(".")
            place: Any = importlib.import_module(module)
            for owner in owners:
                place = getattr(place, owner)
            setattr(place, name, _sleeping(getattr(place, name), ms / 1e3))
    function(rank, *shared)


def _sleeping(call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @wraps(call)
    def sleeps_first(*given: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return call(*given, **named)

    return sleeps_first


def traced(case: Case) -> RunTrace:
    """Run a case for a few seconds and return its trace."""
    config: Any = experiment(case.name).configure(None, {"threads_per_rank": 1, "device": "cpu", **case.config})
    sink = MemorySink()
    began = list[float]()

    def is_enough() -> bool:
        if sink.startup_time_s is not None and not began:
            began.append(time.monotonic())
        return bool(began) and time.monotonic() - began[0] > ENOUGH_S

    fork_server.start()
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        context = RunContext(config.roles, ("cpu",) * len(config.roles), 1, 0, Path(folder))
        ranks = SlowedRanks(context, sink, stop_requested=is_enough, sleeps=case.sleeps)
        with suppress(StopRequested):
            method(case.name)(config, ranks)
    chunks = [batch.trace for batch in sink.batches if isinstance(batch.trace, TraceChunk)]
    return RunTrace.of(sink.windows, chunks, tuple(config.roles))


@dataclass
class Result:
    """What was found of one case."""

    case: Case
    shares: PathShares
    sentences: list[str]
    wrong: list[str] = field(default_factory=list)


def judged(case: Case, trace: RunTrace) -> Result:
    """Return what the timeline says of a run, and in what it misses the bound."""
    begin, end = (trace.zero_ns + round(seconds * 1e9) for seconds in STRETCH_S)
    inside = trace.between(begin, end)
    path = critical_path(inside, begin, end)
    shares = PathShares.of(path, trace.roles, own_work(inside, begin, end))
    found = Result(case, shares, bounds(inside, path, begin, end, case.config))
    on_it = [part for part in path if part.kind in case.kinds and case.role in ("", trace.roles[part.rank])]
    share = sum(part.end_ns - part.begin_ns for part in on_it) / 1e9 / max(shares.length_s, 1e-9)
    if share < case.share:
        found.wrong.append(f"{' + '.join(case.kinds)} {case.role} takes {share:.0%} of the path, not {case.share:.0%}")
    predicted = max(1 - shares.exchange, shares.busiest[1] / max(shares.length_s, 1e-9))
    if predicted < case.least_work:
        found.wrong.append(f"predicted are {predicted:.0%} of the stretch, below {case.least_work:.0%} of certain work")
    return found


def called(case: Case) -> str:
    return " ".join(
        [case.name, *(str(case.config[key]) for key in ("sync", "mode", "transport") if key in case.config)]
    )


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{called(case)}: {case.bound}")
def test_the_sentences_name_the_bound_that_was_built_in(case: Case) -> None:
    found = judged(case, traced(case))
    assert not found.wrong, found.sentences
