"""Bands equal scipy's on the raw points, need two members, and depend on nothing but the group's own members."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.analysis.aligning import Floats, aligned, member
from engine.analysis.bands import Spread, line
from engine.analysis.confidence import Statistic, ends

MEMBERS, STEPS = 7, 60
Central = Callable[..., Any]
CENTRAL: dict[Statistic, Central] = {
    "mean": np.mean,
    "median": np.median,
    "iqm": lambda values, axis=0: stats.trim_mean(values, 0.25, axis=axis),
}


def raw(members: int = MEMBERS, seed: int = 5) -> Floats:
    return np.random.default_rng(seed).gamma(2.0, size=(members, STEPS))


def from_points(values: Floats) -> Floats:
    """Take the values through the alignment, each member's points at its own steps 0, 1, 2, …"""
    steps = np.arange(values.shape[1], dtype=float)
    return aligned([member(steps, row) for row in values]).values


@pytest.mark.parametrize("members", [2, 3, 7])
@pytest.mark.parametrize("statistic", CENTRAL)
def test_the_line_is_scipys_statistic_of_the_raw_points(statistic: Statistic, members: int) -> None:
    values = raw(members)
    assert line(from_points(values), statistic).centre == pytest.approx(CENTRAL[statistic](values, axis=0), rel=1e-12)


@pytest.mark.parametrize("members", [2, 3, 7])
@pytest.mark.parametrize("statistic", CENTRAL)
def test_sd_standard_error_and_range_are_scipys(statistic: Statistic, members: int) -> None:
    values = raw(members)
    centre = CENTRAL[statistic](values, axis=0)
    for spread, apart in (("sd", stats.tstd(values, axis=0)), ("se", stats.sem(values, axis=0))):
        found = line(from_points(values), statistic, spread)  # type: ignore[arg-type]
        assert found.low == pytest.approx(centre - apart, rel=1e-12)
        assert found.high == pytest.approx(centre + apart, rel=1e-12)
    found = line(from_points(values), statistic, "range")
    assert (found.low.tolist(), found.high.tolist()) == (stats.tmin(values, axis=0).tolist(), stats.tmax(values, axis=0).tolist())


@pytest.mark.parametrize("members", [2, 3, 7, 12])
@pytest.mark.parametrize("statistic", CENTRAL)
def test_the_interval_is_the_one_of_all_pages(statistic: Statistic, members: int) -> None:
    values, found = raw(members), line(from_points(raw(members)), statistic, "ci")
    wanted = ends(values, statistic)
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))
    assert found.method.tolist() == wanted.method.tolist()


def test_two_members_have_no_interval_but_their_values() -> None:
    values = raw(2)
    found = line(values, "mean", "ci")
    assert set(found.method) == {"range"}
    assert (found.low.tolist(), found.high.tolist()) == (values.min(axis=0).tolist(), values.max(axis=0).tolist())


@pytest.mark.parametrize("spread", ["sd", "se", "ci", "range"])
def test_members_that_are_not_there_are_left_out_position_by_position(spread: Spread) -> None:
    values = raw()
    values[0, :20] = values[3, 40:] = np.nan
    values[5, 30] = np.inf
    found = line(values, "mean", spread)
    assert found.count.tolist() == [6] * 20 + [7] * 10 + [6] + [7] * 9 + [6] * 20
    alone = line(values[1:, :20], "mean", spread)
    assert (found.centre[:20].tolist(), found.low[:20].tolist(), found.high[:20].tolist()) == (alone.centre.tolist(), alone.low.tolist(), alone.high.tolist())


@pytest.mark.parametrize("spread", ["sd", "se", "ci", "range", "none"])
def test_one_member_has_a_line_and_no_band(spread: Spread) -> None:
    found = line(raw(1), "iqm", spread)
    assert found.centre == pytest.approx(raw(1)[0])
    assert np.isnan(found.low).all() and np.isnan(found.high).all()
    assert found.count.tolist() == [1] * STEPS


def test_nobody_there_is_nothing() -> None:
    found = line(np.full((2, 3), np.nan))
    assert np.isnan(found.centre).all() and found.count.tolist() == [0, 0, 0]
    assert line(np.empty((0, 0))).centre.size == 0
