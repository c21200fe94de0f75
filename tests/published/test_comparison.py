"""Published values beside the mean and interval of made runs: each of the four results, and none with too few seeds."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.home import Home
from engine.published import FIGURES, SIZES, WHOLE, Figure, Size, figure
from engine.published.comparison import FigureComparison, compare, values_table
from engine.store import Reader
from tests.app.test_disturbance import disturb
from tests.labs import figures

TIMES_S = {120: 16.45, 60: 12.33, 30: 10.16, 15: 9.08}
TWO_GPUS = ("cuda:0", "cuda:1")
NEAR = (98.94, 99.0, 98.96, 98.98, 99.02)


def compared(home: Home, found: Figure) -> FigureComparison:
    with Reader.open(home) as reader:
        return compare(reader, found, reader.sweeps.recent()[0])


def accuracies(home: Home, name: str, values: Sequence[float], size: Size = "full") -> FigureComparison:
    """Return the comparison of a figure whose runs end at these accuracies, one for each of the first seeds."""
    found = figure(name)
    _, runs = figures.figure_sweep(home, name, size)
    last = 40.0 if name == "hogwild" else 10.0 if size == "full" else 3.0
    every = found.versions[size].tested_every
    for run, value in zip(runs, values, strict=False):
        points = {every * place: 90.0 for place in range(1, round(last / every))} | {last: value}
        figures.end(home, run, 3.0, points=points)
    return compared(home, found)


def results(found: FigureComparison) -> list[str | None]:
    return [value.result for value in found.values]


def test_a_value_in_our_interval_is_inside(home: Home) -> None:
    accuracy, loss = accuracies(home, "hogwild", NEAR).values
    assert (accuracy.result, accuracy.reason) == ("inside", "")
    assert accuracy.mean is not None and accuracy.mean.count == 5
    assert accuracy.mean.low < 98.98 < accuracy.mean.high and accuracy.mean.mean == pytest.approx(98.98)
    assert (loss.result, loss.mean) == (None, None), "no run recorded a loss"


def test_a_value_beyond_our_interval_is_outside(home: Home) -> None:
    found = accuracies(home, "hogwild", [value - 0.3 for value in NEAR])
    assert (results(found)[0], found.summary) == ("outside", "1 outside")


def test_seeds_that_agree_exactly_need_the_same_value(home: Home) -> None:
    assert results(accuracies(home, "hogwild", [98.98] * 5))[0] == "inside"
    assert results(accuracies(home, "hogwild", [98.97] * 5))[0] == "outside"


@pytest.mark.parametrize(("spread", "result"), [(0.0, "outside"), (0.2, "outside"), (0.4, "inside")])
def test_a_stated_spread_is_inside_where_the_intervals_overlap(home: Home, spread: float, result: str) -> None:
    accuracies(home, "hogwild", [value - 0.3 for value in NEAR])
    found = figure("hogwild")
    stated = replace(found, published=(replace(found.published[0], spread=spread),))
    ours = compared(home, stated)
    assert results(ours) == [result]
    shown = values_table(stated, ours.values).rows[0][2]
    assert shown == (f"98.98 ± {spread:g}" if spread else 98.98)


@pytest.mark.parametrize(("shift", "where"), [(0.0, "inside"), (-2.0, "outside")])
def test_a_value_whose_source_leaves_out_settings_is_said_to_assume_them(home: Home, shift: float, where: str) -> None:
    spread = (-0.2, -0.1, 0.0, 0.1, 0.2, -0.2, -0.1, 0.0, 0.1, 0.2)
    (value,) = accuracies(home, "parameter_server", [96.96 + shift + each for each in spread]).values
    assert value.result == "set-up assumed"
    assert value.reason == f"{where} our interval; not stated by the source: 4 trainers and a batch size of 32"


def test_values_of_a_reduced_version_are_not_comparable(home: Home) -> None:
    found = accuracies(home, "parameter_server", (96.9, 97.0, 97.1, 96.8, 96.96), "reduced")
    assert results(found) == ["not comparable"]
    assert found.values[0].reason == "the reduced version does different work from the source"


def test_times_are_comparable_on_as_many_gpus_as_the_source_used(home: Home) -> None:
    figures.pipeline(home, lambda splits: TIMES_S[splits] - 1.02, "full", TWO_GPUS)  # start-up takes 1 s
    assert results(compared(home, figure("pipeline_as_run"))) == ["inside"] * 4
    figures.pipeline(home, lambda splits: TIMES_S[splits] - 1.02, "full")
    found = compared(home, figure("pipeline_as_run"))
    assert found.summary == "4 not comparable"
    assert found.values[0].reason == "timings on other hardware: the source used 2 GPUs, these runs fewer"


def test_a_time_whose_runs_were_disturbed_is_not_comparable(home: Home) -> None:
    _, runs = figures.pipeline(home, lambda splits: TIMES_S[splits] - 1.02, "full", TWO_GPUS)
    for run in [each for each in runs if each.config["splits"] == 15][:3]:
        disturb(home, run.id, 22.0, slower=9.0)
    found = compared(home, figure("pipeline_as_run"))
    by_x = {value.published.x: value for value in found.values}
    assert by_x[15].result == "not comparable"
    assert by_x[15].reason == "3 of 5 runs were disturbed by other programs or the host"
    assert [by_x[x].result for x in (30, 60, 120)] == ["inside"] * 3
    assert found.counts == {"inside": 3, "not comparable": 1}


def test_two_seeds_give_a_mean_and_no_result(home: Home) -> None:
    found = accuracies(home, "hogwild", NEAR[:2])
    value = found.values[0]
    assert value.mean is not None and value.mean.mean == pytest.approx(98.97)
    assert (value.result, value.reason) == (None, "at least 3 seeds required; got 2")
    assert values_table(found.figure, found.values).rows[0][4:8] == [value.mean.mean, None, None, 2]
    assert found.summary == "not enough finished runs"


@pytest.mark.parametrize("name", ["reinforce", "dppo"])
def test_a_figure_without_numbers_has_no_values(home: Home, name: str) -> None:
    _, runs = figures.figure_sweep(home, name)
    for run in runs:
        figures.end(home, run, 3.0)
    found = compared(home, figure(name))
    assert (found.values, found.summary) == ((), "no numbers published")
    assert len(found.readings[WHOLE]) == len(found.finished) == len(runs)


@pytest.mark.parametrize("found", FIGURES, ids=lambda found: found.name)
@pytest.mark.parametrize("size", SIZES)
def test_a_figure_is_compared_before_its_first_run_has_ended(home: Home, found: Figure, size: Size) -> None:
    figures.figure_sweep(home, found.name, size)
    ours = compared(home, found)
    assert not ours.finished and not ours.obstacles and not ours.missing
    assert len(ours.values) == len(found.published)
    assert set(results(ours)) <= {None, "not comparable"}
