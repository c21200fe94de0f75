"""Every epoch four times: a fault of sync_sgd.

source: The blog series on parallel SGD: synchronous parallel SGD
wrong: The loop that starts all workers is inside another loop over the workers: each epoch runs N times and is reported
    once.
right: All trainers start once per round, and every accuracy is recorded with the actual passes over the data.
seen: After 3 reported epochs, 12 passes were made: the published 97.96 % is the accuracy after 12.
chart: Passes made against Reported epochs
values: passes = Passes made (passes); told = Reported epochs (epochs); averages = Averages (rounds)
rule: passes = told
broken: Reported epochs must equal the passes over the data; got {told:.0f} epochs and {passes:.0f} passes. Report
    accuracy with the samples actually processed.
guard: tests/experiments/sync_sgd/test_sync_sgd.py::test_passes_count_the_samples_of_all_and_only_trainer1_tests
"""

from collections.abc import Callable

import torch

from engine.museum.exhibit import Outcome, Version

TRAINERS, EPOCHS, SAMPLES = 4, 3, 1200


def wrong(train_all: Callable[[], None]) -> None:
    for _ in range(TRAINERS):
        train_all()


def right(train_all: Callable[[], None]) -> None:
    train_all()


def measure(seed: int, epoch: Version) -> Outcome:
    """Count how often each sample is trained on, and the averages; report each epoch as the published program does."""
    parts, seen, averages = torch.arange(SAMPLES).chunk(TRAINERS), torch.zeros(SAMPLES), 0

    def train_all() -> None:
        nonlocal averages
        for part in parts:
            seen[part] += 1
        averages += 1

    series = {0: 0.0}
    for number in range(1, EPOCHS + 1):
        epoch(train_all)
        series[number] = float(seen.mean())
    return Outcome({"passes": series[EPOCHS], "told": EPOCHS, "averages": averages}, series)
