"""How the run's page smooths a curve, by the script itself, held against what the Compare page draws."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from playwright.sync_api import Page

from app.charts.curve_points import is_noiseless, smoothed
from engine.home import ROOT

pytestmark = pytest.mark.browser
SMOOTH = f"""([values, weight]) => {{
  {(ROOT / "app" / "static" / "chart" / "smooth.js").read_text()}
  return [smoothed(values, weight), isNoiseless(values)];
}}"""


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.lists(some.none() | some.floats(-1e6, 1e6), min_size=1, max_size=260),
    some.sampled_from([0.02, 0.5, 0.9, 0.98]),
)
def test_both_pages_smooth_alike_and_within_the_values_so_far(
    page: Page, values: list[float | None], weight: float
) -> None:
    found, noiseless = page.evaluate(SMOOTH, [values, weight])
    ours = smoothed(np.array([math.nan if value is None else value for value in values]), weight)
    assert [math.nan if value is None else value for value in found] == pytest.approx(ours.tolist(), nan_ok=True)
    assert noiseless == is_noiseless(np.array([math.nan if value is None else value for value in values]))
    known = list[float]()
    for value, drawn in zip(values, found, strict=True):
        assert (value is None) == (drawn is None)
        if value is not None:
            known.append(value)
            assert min(known) <= drawn <= max(known)


@pytest.mark.parametrize("value", [100.0, 0.1, 1 / 3, 97.30000000000001])
def test_a_constant_stays_that_constant(page: Page, value: float) -> None:
    found, noiseless = page.evaluate(SMOOTH, [[value] * 500, 0.9])
    assert set(found) == set(smoothed(np.full(500, value), 0.9)) == {value}
    assert noiseless
