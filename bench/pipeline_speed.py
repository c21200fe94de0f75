"""ResNet-50 in two stages on two cores: splits against one split, modes against each other, each against what its own
durations allow.

3 batches of 64 images of 128 pixels, of which 120 were published; one thread a stage, cut in one place for all.

Run: python -m bench.pipeline_speed [--rounds 5]
"""

import argparse
import statistics
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home
from engine.analysis.pipeline.spans import batches, measure
from engine.experiments.pipeline.config import PipelineConfig
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import Run

SIZES: dict[str, Any] = {"batch_size": 64, "batches": 3, "threads_per_rank": 1, "device": "cpu"}
SIDES: dict[str, dict[str, Any]] = {
    "gpipe_1": {"mode": "gpipe", "splits": 1},
    "gpipe_2": {"mode": "gpipe", "splits": 2},
    "gpipe_4": {"mode": "gpipe", "splits": 4},
    "gpipe_8": {"mode": "gpipe", "splits": 8},
    "1f1b_4": {"mode": "1f1b", "splits": 4},
    "1f1b_8": {"mode": "1f1b", "splits": 8},
    "rpc_8": {"mode": "rpc", "splits": 8},
    "torch_gpipe_4": {"mode": "torch_pipelining", "peer_schedule": "gpipe", "splits": 4},
    "torch_1f1b_4": {"mode": "torch_pipelining", "peer_schedule": "1f1b", "splits": 4},
}


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--cut", default="")
    given = options.parse_args()
    of_bound: dict[str, list[float]] = {side: [] for side in SIDES}
    first: dict[str, list[float]] = {side: [] for side in SIDES}
    bubbles: dict[str, list[float]] = {side: [] for side in SIDES}
    with served_home() as home:
        cut = given.cut or best_cut(home)

        def rate(side: str) -> float:
            run = finish(home, "pipeline", "tuned", SIZES | SIDES[side] | {"cut": cut})
            assert run.execution_time_s
            first[side].append(last_values(home, run)["perf/first_micro_batch_s"])
            found = shares(home, run)
            of_bound[side].append(found[0])
            bubbles[side].append(found[1])
            return float(SIZES["batches"] * run.config["batch_size"] / run.execution_time_s)

        rates = alternate(given.rounds, **{side: (lambda side=side: rate(side)) for side in SIDES})
    best = max(SIDES, key=lambda side: statistics.median(rates[side]) if side.startswith(("gpipe", "1f1b")) else 0.0)
    save(
        "pipeline_speed",
        {
            "rounds": given.rounds,
            "sizes": SIZES,
            "cut": cut,
            "images_per_second": rates,
            "share_of_what_its_durations_allow": of_bound,
            "bubble": bubbles,
            "first_micro_batch_s": first,
            "best": best,
            "best_over_one_split": ratio(rates[best], rates["gpipe_1"]),
            "gpipe_8_over_rpc_8": ratio(rates["gpipe_8"], rates["rpc_8"]),
            "gpipe_4_over_torch_gpipe_4": ratio(rates["gpipe_4"], rates["torch_gpipe_4"]),
            "1f1b_4_over_torch_1f1b_4": ratio(rates["1f1b_4"], rates["torch_1f1b_4"]),
        },
    )


def best_cut(home: Home) -> str:
    """Return the cut that most of a few runs find by their measured times."""
    found = []
    for seed in range(3):
        run = finish(home, "pipeline", "tuned", SIZES | {"batches": 1, "seed": seed})
        with Reader.open(home) as reader:
            event = next(event for event in reader.details.events(run.id) if event.kind == "cut")
        found.append(event.detail.split()[2])
    return statistics.mode(found)


def shares(home: Home, run: Run) -> tuple[float, float]:
    """Return the least time that a run's own durations allow as a share of the time it took, and its bubble; means over
    its later batches.
    """
    with Reader.open(home) as reader:
        spans = [span for _, span in reader.details.spans(run.id)]
    config = experiment("pipeline").config.check(run.config)
    assert isinstance(config, PipelineConfig)
    found = [
        measure(batch, config.schedule) for batch in batches(spans, config.stages, config.splits) if batch.complete
    ][1:]
    return statistics.mean(each.least_s / each.window_s for each in found), statistics.mean(
        each.bubble for each in found
    )


if __name__ == "__main__":
    main()
