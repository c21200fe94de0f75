"""What an attempt's runs measured, in the shape of the prediction, and the distance of both."""

from typing import Any

import pytest

from engine.errors import ConfigError
from engine.exercises.attempts import launch_attempt, predict
from engine.exercises.outcome import Measured, checked_prediction, distance, measured
from engine.home import Home
from engine.store import Store
from tests.exercises.labs import SINGLE, SWEEP, end, exercise

ORDER = SWEEP.replace("kind: curve", "kind: order\n  first: highest")


def result(home: Home, store: Store, text: str, prediction: Any, *values: float, status: str = "finished") -> Measured:
    """Launch an attempt, end its runs with these accuracies, and return what it measured."""
    attempt_id = predict(home, exercise(text), prediction, by="ada")
    for run_id, value in zip(launch_attempt(home, attempt_id, {}, by="ada").runs, values, strict=False):
        end(store, run_id, {"test/accuracy": value}, status)
    return measured(store.read, store.read.exercises.attempt(attempt_id))


def test_a_curve_is_the_value_over_the_swept_field(home: Home, store: Store) -> None:
    found = result(home, store, SWEEP, [[1, 90], [4, 90]], 90.0, 95.0, 97.0)
    assert found.value == ((1.0, 90.0), (2.0, 95.0), (4.0, 97.0))
    assert (found.fewest, found.missing) == (1, ())
    unfinished = result(home, store, SWEEP, [[1, 90], [4, 90]], 90.0, 95.0)
    assert (unfinished.value, unfinished.missing) == (None, ("trainers 4",))


def test_repeats_are_averaged_and_relative_values_are_shares_of_the_first_cell(home: Home, store: Store) -> None:
    twice = SWEEP.replace("[1, 2, 4]", "[1, 2]\nrepeats: 2").replace("of:", "relative: yes\n  of:")
    found = result(home, store, twice, [[1, 1], [2, 2]], 10.0, 30.0, 30.0, 50.0)
    assert found.value == ((1.0, 1.0), (2.0, 2.0))
    assert found.fewest == 2
    ratio = result(home, store, twice.replace("kind: curve", "kind: number"), 3, 10.0, 30.0, 30.0, 50.0)
    assert ratio.value == 2.0


def test_an_order_is_that_of_the_cells_and_a_number_that_of_one_run(home: Home, store: Store) -> None:
    cells = ["trainers 1", "trainers 2", "trainers 4"]
    assert result(home, store, ORDER, cells, 90.0, 97.0, 95.0).value == ("trainers 2", "trainers 4", "trainers 1")
    assert result(home, store, SINGLE, 50, 96.0).value == 96.0
    assert result(home, store, SINGLE, 50, 33.0, status="failed").value == 33.0, "as of a hang that is to be diagnosed"
    assert result(home, store, SINGLE, 50).value is None
    progress = SINGLE.replace("test/accuracy.last", "progress")
    assert result(home, store, progress, 50, 1.0).value == 100.0


def test_the_time_to_a_target_is_that_of_its_first_value(home: Home, store: Store) -> None:
    target = SWEEP.replace("of: test/accuracy.last", "of: test/accuracy\n  reaches: 90")
    target = target.replace("change:", "time_counts: yes\nrepeats: 1\nchange:")
    assert exercise(target).predict.label == "Time to test accuracy 90 % (s)"
    found = result(home, store, target, [[1, 1], [4, 1]], 90.0, 91.0, 89.0)
    assert found.missing == ("trainers 4",), "it never reached the target"


def test_the_value_of_one_rank_is_that_of_its_summary(home: Home, store: Store) -> None:
    of_rank = SINGLE.replace("of: test/accuracy.last", "of: test/accuracy.last\n  rank: 1")
    assert result(home, store, of_rank, 50, 96.0).value is None, "no rank recorded it"


@pytest.mark.parametrize(
    ("prediction", "value", "share", "words"),
    [
        (12.0, 10.0, 0.2, "20 % above"),
        (9.0, 10.0, 0.1, "10 % below"),
        (10.0, 10.0, 0.0, "exact"),
        (1.0, 0.0, 1.0, "100 % above"),
        (("a", "b", "c"), ("a", "b", "c"), 0.0, "the measured order"),
        (("c", "b", "a"), ("a", "b", "c"), 1.0, "3 of 3 pairs in the wrong order"),
        (("b", "a", "c"), ("a", "b", "c"), 1 / 3, "1 of 3 pairs in the wrong order"),
        (((1.0, 0.0), (3.0, 20.0)), ((1.0, 0.0), (2.0, 20.0), (3.0, 20.0)), 1 / 6, "on average 16.7 %"),
        (((2.0, 5.0), (2.5, 5.0)), ((1.0, 0.0), (9.0, 10.0)), 0.5, "on average 50 % of the measured range"),
        (((1.0, 6.0), (2.0, 6.0)), ((1.0, 4.0), (2.0, 4.0)), 0.5, "on average 50 %"),
    ],
)
def test_the_distance_of_each_kind(prediction: Any, value: Any, share: float, words: str) -> None:
    found = distance(prediction, value)
    assert found.share == pytest.approx(share)
    assert found.words.startswith(words)


@pytest.mark.parametrize(
    ("text", "given", "sentence"),
    [
        (SINGLE, "many", "a value must be a number, got many"),
        (SINGLE, float("nan"), "a value must be a number, got nan"),
        (SINGLE, True, "a value must be a number"),
        (SINGLE, 101, r"Test accuracy, last \(%\) must be from 0 to 100, got 101"),
        (SWEEP, [[1, 2]], "the curve must have 2 to 200 points"),
        (SWEEP, [[1, 2], [1, 3]], "the points of the curve must go from left to right"),
        (SWEEP, [[1, 2], [2, -3]], "must be from 0 to 100, got -3"),
        (ORDER, ["trainers 1"], "the order must name each of trainers 1, trainers 2, trainers 4 once"),
    ],
)
def test_a_prediction_of_another_shape_is_refused(text: str, given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        checked_prediction(exercise(text), given)
