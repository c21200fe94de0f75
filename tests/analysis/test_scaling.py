"""The lines that a pipeline's execution time is read against, held against the schedules themselves, played step by
step.
"""

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import pytest

from engine.experiment import Baseline
from engine.experiments.pipeline.config import SCALING, least_time_s
from engine.pipelining import Layout, Schedule, actions, speed_up_bound
from engine.registry import EXPERIMENTS, experiment

T1 = 10.0
SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b")
CONFIG = {"stages": 2, "mode": "gpipe", "peer_schedule": "gpipe"}
Key = tuple[int, str, int]


def brute_force(schedule: Schedule, splits: int, forward: Sequence[Fraction], backward: Sequence[Fraction]) -> Fraction:
    """Return when a batch of equal micro-batches ends at the earliest: each action's end is raised until it is late
    enough for all that it waits for.
    """
    stages = len(forward)
    waits: list[tuple[Key, Key]] = []
    for stage in range(stages):
        order = [
            (stage, action.what, action.micro_batch) for action in actions(schedule, stage, Layout(stages, splits))
        ]
        waits += pairwise(order)
        for number in range(splits):
            waits.append(((stage, "forward", number), (stage, "backward", number)))
            if stage:
                waits.append(((stage - 1, "forward", number), (stage, "forward", number)))
                waits.append(((stage, "backward", number), (stage - 1, "backward", number)))
    lasts = {
        (stage, what, n): (forward if what == "forward" else backward)[stage] / splits for _, (stage, what, n) in waits
    } | {(0, "forward", 0): forward[0] / splits}
    ends, changed = dict(lasts), True
    while changed:
        changed = False
        for before, after in waits:
            if ends[before] + lasts[after] > ends[after]:
                ends[after], changed = ends[before] + lasts[after], True
    return max(ends.values())


def drawn_at_random(seed: int) -> tuple[Schedule, int, list[Fraction], list[Fraction]]:
    draw = random.Random(seed)
    stages = draw.randint(1, 5)
    forward, backward = ([Fraction(draw.randint(0, 9)) for _ in range(stages)] for _ in range(2))
    forward[0] += 1  # some work there must be
    return draw.choice(SCHEDULES), draw.randint(1, 9), forward, backward


@pytest.mark.parametrize("seed", range(150))
def test_the_bound_of_unequal_stages_is_what_brute_force_finds(seed: int) -> None:
    schedule, splits, forward, backward = drawn_at_random(seed)
    least = brute_force(schedule, splits, forward, backward)
    whole = sum(forward) + sum(backward)
    work = [tuple(map(float, each)) for each in zip(forward, backward, strict=True)]
    assert speed_up_bound(schedule, work, Layout(len(work), splits)) == pytest.approx(float(whole / least))
    _, splits, forward, backward = drawn_at_random(seed)
    whole = sum(forward) + sum(backward)
    assert (
        brute_force("gpipe", splits, forward, backward)
        == (whole + (splits - 1) * (max(forward) + max(backward))) / splits
    )


@pytest.mark.parametrize(("schedule", "splits", "stages"), list(product(("gpipe", "1f1b"), (1, 2, 3, 8), (2, 3, 4))))
def test_equal_stages_take_the_ideal_time(schedule: Schedule, splits: int, stages: int) -> None:
    shares = [Fraction(10, 3 * stages)] * stages
    assert float(brute_force(schedule, splits, shares, [2 * share for share in shares])) == pytest.approx(
        T1 * (splits + stages - 1) / (splits * stages)
    )


@pytest.mark.parametrize(("splits", "stages"), [(4, 2), (6, 3), (8, 4)])
def test_zero_bubble_starts_from_a_split_in_which_stages_overlap(splits: int, stages: int) -> None:
    """With 1 split its stages idle through all of each other's forwards and input gradients."""
    forward, of_inputs, of_weights = 1.0, 2.0, 1.5
    work = [(forward, of_inputs, of_weights)] * stages
    one = stages * (forward + of_inputs) + of_weights
    paper = forward + of_inputs + of_weights + (stages - 1) * of_inputs / splits
    assert least_time_s(one, splits, "zb_h1", work) == pytest.approx(paper)
    lines = SCALING.references(Baseline(CONFIG | {"mode": "zb_h1", "stages": stages}, one, work), [1, splits])
    assert [line.times_s for line in lines] == [pytest.approx((one, paper))] * 2
    assert SCALING.references(Baseline(CONFIG | {"mode": "interleaved", "chunks": 2}, one, work), [splits]) == []


def test_the_lines_start_from_what_was_measured_with_one_split() -> None:
    ideal, bound = SCALING.references(Baseline(CONFIG, T1, [(1.0, 2.0), (0.4, 0.6)]), [1, 2, 4])
    assert ideal.times_s == pytest.approx((10.0, 7.5, 6.25))
    assert bound.times_s == pytest.approx((10.0, 8.75, 8.125))  # of 4: 3 and a wait for the other's 1 / m
    assert ideal.dash != bound.dash
    peer = CONFIG | {"mode": "torch_pipelining", "peer_schedule": "1f1b"}
    assert SCALING.references(Baseline(peer, T1, [(3.0, 1.0), (1.0, 3.0)]), [4])[1].times_s == pytest.approx(
        (least_time_s(T1, 4, "1f1b", [(3.0, 1.0), (1.0, 3.0)]),)
    )
    assert [line.label for line in SCALING.references(Baseline(CONFIG, T1), [1])] == ["ideal"]
    assert least_time_s(T1, 1, "1f1b", [(1.0, 5.0), (3.0, 2.0)]) == pytest.approx(T1)
    assert least_time_s(6.0, 4, "gpipe", [(2.0, 1.0), (1.0, 2.0)]) == pytest.approx(4.5)
    assert {name for name in EXPERIMENTS if experiment(name).scaling} == {"pipeline"}
    assert experiment("pipeline").scaling is SCALING
    assert SCALING.field in experiment("pipeline").config.model_fields
