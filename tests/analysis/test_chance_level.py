"""Runs that did not learn say so; runs that did, and runs that can't be judged, don't."""

import random
from dataclasses import replace
from typing import Any

import pytest

from engine.analysis.result import LEAST_STEPS, not_learned, not_learned_of
from engine.metrics import EPISODES, LAST_EPISODES, LOSS, LOSS_FALL
from engine.recorder import Point
from engine.registry import experiment
from engine.runtime.worker.progress_writer import LearningFigures
from engine.store.records import RunRow
from engine.store.timestamps import now

TEST = "test/accuracy"


def made(
    name: str, preset: str, last: dict[str, float], best: dict[str, float] | None = None, **changes: Any
) -> RunRow:
    """Return a finished run with these numbers; `changes` are settings, or fields of the run."""
    fields = {key: changes.pop(key) for key in [*changes] if key in RunRow.__dataclass_fields__}
    config = experiment(name).configure(preset).model_dump(mode="json") | changes
    at = now()
    run = RunRow(
        *(
            1,
            name,
            preset,
            "",
            "Ada",
            "finished",
            "Completed successfully",
            at,
            at,
            at,
            1.0,
            None,
            12.0,
            1.0,
            1,
            0.0,
            None,
        ),
        config=config,
        last=last,
        best=last | (best or {}),
        mean=last,
        counts={LOSS: 1_000, EPISODES: 500},
    )
    return replace(run, **fields)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            made("hogwild", "quick", {TEST: 10.0}, dataset="mnist"),
            "Did not learn: test accuracy 10.00 % is chance for 10 classes.",
        ),
        (
            made("hogwild", "quick", {TEST: 11.35}, dataset="mnist"),
            "Did not learn: test accuracy 11.35 % is chance for 10 classes.",
        ),
        (
            made("hogwild", "quick", {TEST: 9.8}, {TEST: 96.1}, dataset="mnist"),
            "Collapsed: test accuracy fell from 96.10 % to 9.80 %, chance for 10 classes.",
        ),
        (
            made("sync_sgd", "quick", {TEST: 41.0}, {TEST: 96.1}, dataset="mnist"),
            "Collapsed: test accuracy fell from 96.10 % to 41.00 %.",
        ),
        (
            made("hogwild", "sparse", {TEST: 50.4}),
            "Did not learn: test accuracy 50.40 % is chance for 2 classes.",
        ),
        (
            made("reference", "quick", {TEST: 96.0}, nonfinite={LOSS: 3}),
            "Not finite: 3 training loss values are NaN or infinite.",
        ),
        (
            made("hogwild", "quick", {LOSS_FALL: -0.25}, dataset="mnist"),
            "Loss did not fall: the mean training loss of the last 50 steps is 0.25 above that of the first 50.",
        ),
        (
            made("dppo", "quick", {"test/episodic_return": -1_250.0}, environment="Pendulum-v1"),
            "Did not learn: evaluation reward -1,250 is no more than random actions get (-1206).",
        ),
        (
            made("batched_reinforce", "quick", {LAST_EPISODES: 9.4}, {LAST_EPISODES: 396.0}),
            "Collapsed: mean reward of the last 100 episodes fell from 396 to 9.4, no more than random actions get "
            "(22.5).",
        ),
    ],
)
def test_a_run_that_did_not_learn_says_why(run: RunRow, sentence: str) -> None:
    found = not_learned(run)
    assert found and found.sentence == sentence
    assert not_learned_of([run, run]).startswith("Run 1 ") and found.why in not_learned_of([run])


@pytest.mark.parametrize(
    "run",
    [
        made("hogwild", "quick", {TEST: 14.0}, dataset="mnist"),
        made("hogwild", "quick", {TEST: 90.0, LOSS_FALL: -1.0}, {TEST: 97.0}),
        made("hogwild", "quick", {TEST: 15.0}, dataset="digits"),
        made("hogwild", "quick", {TEST: 10.0}, status="cancelled", cause="Cancelled by Ada."),
        made("hogwild", "quick", {TEST: 10.0}, status="running"),
        made("hogwild", "quick", {TEST: 10.0}, counts={LOSS: LEAST_STEPS - 1}),
        made("hogwild", "quick", {TEST: 10.0}, learning_rate=0),
        made("hogwild", "quick", {TEST: 10.0, LOSS_FALL: -1.0}, dataset="synthetic"),
        made("hogwild", "quick", {}),
        made("hogwild", "quick", {LOSS_FALL: 0.1}),
        made("pipeline", "quick", {LOSS_FALL: -0.1}, dataset="random"),
        made("parameter_server", "quick", {LOSS_FALL: -0.1}, model="resnet50"),
        made("batched_reinforce", "quick", {LAST_EPISODES: 22.0}, counts={EPISODES: 99}),
        made("batched_reinforce", "quick", {EPISODES: 22.0}),
        made("batched_reinforce", "quick", {LAST_EPISODES: 60.0}),
        made("dppo", "quick", {"test/episodic_return": 1.0}, environment="Unknown-v0"),
        replace(made("hogwild", "quick", {TEST: 10.0}), experiment="gone"),
    ],
)
def test_no_false_alarm(run: RunRow) -> None:
    assert not_learned(run) is None
    assert not_learned_of([run]) == ""


def test_a_guess_is_chance_and_few_guesses_are_taken_for_learning() -> None:
    draw = random.Random(1)
    found = [100 * sum(draw.random() < 0.1 for _ in range(360)) / 360 for _ in range(2_000)]
    chance = sum(not_learned(made("hogwild", "quick", {TEST: each}, dataset="digits")) is not None for each in found)
    assert chance >= 0.995 * len(found)


def test_the_last_hundred_episodes_of_all_ranks_count_in_the_order_of_time() -> None:
    figures = LearningFigures()
    assert figures.values(final=True) == {}
    late = [Point(EPISODES, 1, 400.0, 100.0 + number) for number in range(60)]
    early = [Point(EPISODES, 1, 20.0, float(number)) for number in range(60)]
    figures.add([*late, *early, Point(EPISODES, 1, float("nan"), 500.0)])
    assert figures.values(final=False) == {LAST_EPISODES: (60 * 400.0 + 40 * 20.0) / 100}
    figures.add([Point(EPISODES, 1, 400.0, 200.0 + number) for number in range(40)])
    assert figures.values(final=False) == {LAST_EPISODES: 400.0}


def test_the_fall_of_a_loss_compares_its_first_and_last_steps() -> None:
    points = [Point(LOSS, step, 2.0 if step < 50 else 0.5, float(step)) for step in range(100)]
    whole, short, resumed = LearningFigures(), LearningFigures(), LearningFigures(resumed=True)
    for figures in (whole, resumed):
        figures.add(points[:30])
        figures.add(points[30:])
    short.add(points[:99])
    assert whole.values(final=True) == {LOSS_FALL: 1.5}
    assert whole.values(final=False) == short.values(final=True) == resumed.values(final=True) == {}
