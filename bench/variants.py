"""Complete runs of several variants in turn (A B A B): the engine beside the published code, methods beside each other.

A run counts from its claim to its end, start-up included, on a warm runner; its seed is the number of the round.
Run: python -m bench.variants hogwild sync_sgd server reinforce observers stragglers dppo lag lag_pendulum
pipeline schedules peers gpu [--rounds 5]
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home, whole_run_s
from engine.analysis.pipeline import Measures, batches, measure
from engine.experiments.pipeline.config import PipelineConfig
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import Run

Measure = Callable[[Home, Run], float]
ONE_THREAD: dict[str, Any] = {"threads_per_rank": 1, "device": "cpu"}


@dataclass(frozen=True)
class Side:
    """One variant: preset, changes of it, and the units of work of a run, for a rate."""

    experiment: str
    preset: str | None
    changes: Mapping[str, Any]
    work: float = 1.0


@dataclass(frozen=True)
class Comparison:
    """Sides, what is measured of each run besides its seconds, and ratios of figures: (figure, above, below)."""

    sides: Mapping[str, Side]
    ratios: tuple[tuple[str, str, str], ...] = ()
    measures: Mapping[str, Measure] | None = None


def last(metric: str) -> Measure:
    """Return the measure that is a metric's last value."""
    return lambda home, run: last_values(home, run)[metric]


def synchronizing_percent(home: Home, run: Run) -> float:
    """Return the share of all ranks' time in communicate and update; waiting for slower ranks is apart."""
    with Reader.open(home) as reader:
        phases = reader.details.phases(run.id).values()
    spent = sum(each.get(name, 0.0) for each in phases for name in ("communicate", "update"))
    return 100 * spent / sum(sum(each.values()) for each in phases)


def gradients_per_second(home: Home, run: Run) -> float:
    """Return the gradients pushed per second until the first trainer is done."""
    with Reader.open(home) as reader:
        times = [series.times_s for series in reader.curves.series(run.id, ["train/loss"])]
    until = min(max(own) for own in times)
    return sum(time <= until for own in times for time in own) / until


def used_steps_per_second(home: Home, run: Run) -> float:
    """Return the env steps per second that DPPO's learner trained on."""
    return last("perf/env_steps_per_second")(home, run) * last("perf/steps_used")(home, run) / 100


def share_of_what_durations_allow(home: Home, run: Run) -> float:
    """Return the least time that a pipeline's own durations allow as a share of its time; mean of its later batches."""
    return statistics.mean(each.least_s / each.window_s for each in _batches(home, run)[1:])


def _batches(home: Home, run: Run) -> list[Measures]:
    with Reader.open(home) as reader:
        spans = [span for _, span in reader.details.spans(run.id)]
    config = experiment("pipeline").config.check(run.config)
    assert isinstance(config, PipelineConfig)
    return [measure(each) for each in batches(spans, config.layout) if each.complete]


def hogwild() -> Comparison:
    settings = ONE_THREAD | {"dataset": "mnist", "epochs": 1, "evaluate_every": 0}
    tutorial = {"variant": "tutorial", "trainers": 2, "start_method": "spawn"}
    sides = {
        "tutorial": Side("hogwild", None, settings | tutorial),
        "engine": Side("hogwild", None, settings | {"trainers": 2}),
        "one_trainer": Side("hogwild", None, settings | {"trainers": 1}),
    }
    rate = "samples_per_second"
    ratios = (("whole_run_s", "tutorial", "engine"), (rate, "engine", "one_trainer"))
    return Comparison(sides, ratios, {rate: last("perf/samples_per_second")})


def sync_sgd() -> Comparison:
    settings = ONE_THREAD | {"dataset": "mnist", "trainers": 2, "evaluate_every": 0, "checkpoint_every_s": 0}
    changes: dict[str, dict[str, Any]] = {
        "tutorial": {"variant": "tutorial", "start_method": "spawn"},
        "engine": {},
        "gradients": {"sync": "gradients"},
        "ddp": {"sync": "ddp"},
    }
    sides = {name: Side("sync_sgd", None, settings | {"rounds": 2} | more) for name, more in changes.items()}
    ratios = (("execution_time_s", "tutorial", "engine"), ("execution_time_s", "ddp", "gradients"))
    return Comparison(sides, ratios, {"synchronizing_percent": synchronizing_percent})


def server() -> Comparison:
    engine, images = ONE_THREAD | {"checkpoint_every_s": 0}, 5 * 6 * 20
    sides = {
        "tutorial": Side("parameter_server", "tutorial", {"threads_per_rank": 1}, images),
        "rpc": Side("parameter_server", "resnet50", engine, images),
        "rpc_bf16": Side("parameter_server", "resnet50", engine | {"wire": "bf16"}, images),
        "shared_memory": Side("parameter_server", "resnet50", engine | {"transport": "shared_memory"}, images),
    }
    ratios = [("whole_run_s", "tutorial", name) for name in ("rpc", "rpc_bf16", "shared_memory")]
    return Comparison(sides, (*ratios, ("per_second", "rpc", "tutorial")))


def reinforce() -> Comparison:
    settings, steps = ONE_THREAD | {"observers": 10}, 10 * 500
    many = {"envs_per_observer": 32, "episodes": 5}
    sides = {
        "tutorial": Side("batched_reinforce", "tutorial", settings, 10 * steps),
        "rpc": Side("batched_reinforce", "published", settings, 10 * steps),
        "rpc_32_environments": Side("batched_reinforce", "published", settings | many, 5 * 32 * steps),
        "shared_memory": Side("batched_reinforce", "published", settings | {"transport": "shared_memory"}, 10 * steps),
    }
    rate = "per_second"
    ratios = (("whole_run_s", "tutorial", "rpc"), (rate, "rpc", "tutorial"), (rate, "rpc_32_environments", "tutorial"))
    return Comparison(sides, (*ratios, (rate, "shared_memory", "rpc")))


def observers() -> Comparison:
    counts, modes = (1, 2, 4, 6, 8, 10, 12, 14, 16), ("per_call", "batched")
    found = {f"{mode}_{count}": {"mode": mode, "observers": count} for count in counts for mode in modes}
    settings = ONE_THREAD | {"steps": 60}
    sides = {name: Side("batched_reinforce", "published", settings | more) for name, more in found.items()}
    return Comparison(sides, tuple(("execution_time_s", f"per_call_{count}", f"batched_{count}") for count in counts))


def stragglers() -> Comparison:
    sleeps = {"sleep_ms": 50, "slow_trainer": 4, "slow_sleep_ms": 100, "batch_size": 16, "epochs": 15}
    settings = ONE_THREAD | sleeps | {"dataset": "digits", "trainers": 4, "evaluate_every": 0}
    together = {"batch_update_size": 4, "learning_rate": 0.001}
    sides = {
        "asynchronous": Side("async_sgd", None, settings),
        "synchronous": Side("parameter_server", None, settings | together),
    }
    rate = "gradients_per_second"
    return Comparison(sides, ((rate, "asynchronous", "synchronous"),), {rate: gradients_per_second})


def dppo() -> Comparison:
    settings = {"total_steps": 40_000, "evaluate_every_s": 0, "render_every_s": 0, "stop_when_solved": False}
    modes = ("bounded_queue", "update_locked", "reader_writer", "unlocked")
    sides = {mode: Side("dppo", "published", settings | {"mode": mode}) for mode in modes}
    rate = "used_steps_per_second"
    ratios = ((rate, "bounded_queue", "reader_writer"), (rate, "bounded_queue", "update_locked"))
    more = {name: last(f"perf/{name}") for name in ("steps_used", "synchronizations")}
    return Comparison(sides, ratios, {rate: used_steps_per_second} | more)


def seconds_to_reward(home: Home, run: Run) -> float:
    """Return the seconds until an evaluation reached CartPole's 475; infinite if none did."""
    with Reader.open(home) as reader:
        (tests,) = reader.curves.series(run.id, ["test/episodic_return"])
    return next((time for time, value in zip(tests.times_s, tests.values, strict=True) if value >= 475), math.inf)


def lag() -> Comparison:
    """CartPole with slowed collectors until it is solved."""
    sides = {f"lag_{lag}": Side("dppo", "lag", {"max_lag": lag, "render_every_s": 0}) for lag in (0, 1)}
    time = "seconds_to_reward"
    measures = {time: seconds_to_reward, "policy_age": last("perf/policy_age")}
    return Comparison(sides, ((time, "lag_1", "lag_0"), ("execution_time_s", "lag_1", "lag_0")), measures)


def lag_pendulum() -> Comparison:
    """Pendulum as fast as the collectors can: the reward of data of each age, with and without a correction."""
    settings = {"mode": "bounded_lag", "minibatches": 32, "total_steps": 300_000, "render_every_s": 0}
    settings |= {"evaluate_every_s": 0}
    lags: dict[str, int | None] = {"lag_0": 0, "lag_4": 4, "unbounded": None}
    sides = {
        f"{name}_{correction}": Side("dppo", "tuned", settings | {"max_lag": lag, "lag_correction": correction})
        for name, lag in lags.items()
        for correction in ("none", "clipped", "vtrace")
        if lag != 0 or correction == "clipped"
    }
    measures = {"reward": last("test/episodic_return"), "policy_age": last("perf/policy_age")}
    return Comparison(sides, (), measures)


def pipeline() -> Comparison:
    """3 batches of 64 images of 128 pixels (120 published), cut in one place for all."""
    settings = ONE_THREAD | {"batch_size": 64, "batches": 3, "cut": "9"}
    torch = {"mode": "torch_pipelining", "splits": 4}
    changes: dict[str, dict[str, Any]] = {
        **{f"gpipe_{splits}": {"mode": "gpipe", "splits": splits} for splits in (1, 2, 4, 8)},
        **{f"1f1b_{splits}": {"mode": "1f1b", "splits": splits} for splits in (4, 8)},
        "rpc_8": {"mode": "rpc", "splits": 8},
        **{f"torch_{schedule}_4": torch | {"peer_schedule": schedule} for schedule in ("gpipe", "1f1b")},
    }
    sides = {name: Side("pipeline", "tuned", settings | more, 3 * 64) for name, more in changes.items()}
    pairs = (("1f1b_8", "gpipe_1"), ("gpipe_8", "rpc_8"), ("gpipe_4", "torch_gpipe_4"), ("1f1b_4", "torch_1f1b_4"))
    measures = {
        "share_of_what_durations_allow": share_of_what_durations_allow,
        "first_micro_batch_s": last("perf/first_micro_batch_s"),
    }
    return Comparison(sides, tuple(("per_second", *pair) for pair in pairs), measures)


def bubble_percent(home: Home, run: Run) -> float:
    """Return the bubble of a pipeline's last batch, from its Gantt chart."""
    return 100 * _batches(home, run)[-1].bubble


def steps_per_second(home: Home, run: Run) -> float:
    """Return the updates per second from the end of a pipeline's first batch to that of its last, without tests."""
    with Reader.open(home) as reader:
        (losses,) = reader.curves.series(run.id, ["train/loss"])
    return (len(losses.times_s) - 1) / (losses.times_s[-1] - losses.times_s[0])


RATE = "steps_per_second"
PEER = {"mode": "torch_pipelining"}


def schedules() -> Comparison:
    """A GPT in four stages and 8 splits; stages sleep 200 ms per forward, so that two cores are enough for four."""
    modes: dict[str, dict[str, Any]] = {mode: {"mode": mode} for mode in ("gpipe", "1f1b", "interleaved", "zb_h1")}
    modes |= {f"torch_{peer}": PEER | {"peer_schedule": peer} for peer in ("interleaved", "zb_h1")}
    sides = {
        name: Side("pipeline", "gpt", more | {"batches": 3, "sleep_ms": 200}, 3 * 16) for name, more in modes.items()
    }
    pairs = (("interleaved", "torch_interleaved"), ("zb_h1", "torch_zb_h1"))
    ratios = (("bubble_percent", "zb_h1", "1f1b"), (RATE, "zb_h1", "1f1b"), *((RATE, *pair) for pair in pairs))
    return Comparison(sides, ratios, {"bubble_percent": bubble_percent, RATE: steps_per_second})


def peers() -> Comparison:
    """The net of `pipeline` without sleeps, in two stages and 4 splits: the engine's schedules beside torch's."""
    settings = ONE_THREAD | {"batch_size": 64, "batches": 4, "splits": 4, "cut": "9"}
    names = {"interleaved": {"cut": "5,9,13"}, "zb_h1": {}}
    sides: dict[str, Side] = {}
    for name, more in names.items():
        sides[name] = Side("pipeline", "tuned", settings | more | {"mode": name}, 4 * 64)
        sides[f"torch_{name}"] = Side("pipeline", "tuned", settings | more | PEER | {"peer_schedule": name}, 4 * 64)
    return Comparison(sides, tuple((RATE, name, f"torch_{name}") for name in names), {RATE: steps_per_second})


def gpu() -> Comparison:
    """Needs an NVIDIA GPU, which all ranks share."""
    settings = {"threads_per_rank": 1, "dataset": "mnist", "epochs": 1, "batch_size": 64, "evaluate_every": 0}
    sides = {
        f"{name}_{trainers}": Side("hogwild", None, settings | {"device": device, "trainers": trainers})
        for name, device, trainers in (("cores", "cpu", 4), ("gpu", "cuda", 1), ("gpu", "cuda", 4))
    }
    rate = "samples_per_second"
    ratios = ((rate, "gpu_4", "gpu_1"), (rate, "gpu_4", "cores_4"))
    return Comparison(sides, ratios, {rate: last("perf/samples_per_second")})


COMPARISONS = {
    each.__name__: each
    for each in (
        *(hogwild, sync_sgd, server, reinforce, observers, stragglers),
        *(dppo, lag, lag_pendulum, pipeline, schedules, peers, gpu),
    )
}


def compared(home: Home, comparison: Comparison, rounds: int) -> dict[str, Any]:
    """Return all figures of each side by round, and the ratios."""
    found: dict[str, dict[str, list[float]]] = {}

    def one(name: str, side: Side) -> float:
        seed = len(found.get("whole_run_s", {}).get(name, ())) + 1
        run = finish(home, side.experiment, side.preset, {**side.changes, "seed": seed}, timeout_s=7_200)
        assert run.execution_time_s
        figures = {"execution_time_s": run.execution_time_s, "per_second": side.work / run.execution_time_s}
        figures |= {measure: call(home, run) for measure, call in (comparison.measures or {}).items()}
        for figure, value in {"whole_run_s": whole_run_s(run), **figures}.items():
            found.setdefault(figure, {}).setdefault(name, []).append(round(value, 4))
        return run.execution_time_s

    alternate(
        rounds, **{name: (lambda name=name, side=side: one(name, side)) for name, side in comparison.sides.items()}
    )
    medians = {figure: {name: statistics.median(of) for name, of in by.items()} for figure, by in found.items()}
    ratios = {
        f"{figure}, {above} ÷ {below}": ratio(found[figure][above], found[figure][below])
        for figure, above, below in comparison.ratios
    }
    return {"rounds": rounds, "ratios": ratios, "medians": medians, "figures": found}


def main() -> None:
    """Measure, print and save each comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("comparisons", nargs="+", choices=[*COMPARISONS])
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    with served_home() as home:
        for name in given.comparisons:
            save(f"variants_{name}", compared(home, COMPARISONS[name](), given.rounds))


if __name__ == "__main__":
    main()
