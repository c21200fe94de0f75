"""What a long curve keeps when it is thinned in the browser, by the script itself."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from playwright.sync_api import Page

from engine.home import ROOT

pytestmark = pytest.mark.browser
MOST = 100
THIN = (ROOT / "app" / "static" / "chart" / "thin.js").read_text()
GROW = f"""({{ parts, most }}) => {{
  {THIN}
  const curve = {{ steps: [], times: [], passes: [], values: [] }};
  for (const part of parts) {{
    for (const name of LISTS) curve[name].push(...part[name]);
    if (curve.values.length > 2 * most) thin(curve, most);
  }}
  return curve;
}}"""
Curve = dict[str, list[Any]]


def curve(values: list[float | None], first: int = 0) -> Curve:
    steps = list(range(first, first + len(values)))
    return {
        "steps": steps,
        "times": [step / 10 for step in steps],
        "passes": [step / 50 for step in steps],
        "values": list(values),
    }


def grown(page: Page, parts: list[Curve]) -> Curve:
    """Return the curve that a page holds after these parts came in one after the other."""
    found: Curve = page.evaluate(GROW, {"parts": parts, "most": MOST})
    return found


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.lists(
        some.lists(some.none() | some.integers(-50, 50).map(float), min_size=1, max_size=150), min_size=1, max_size=8
    )
)
def test_ends_extremes_and_a_gap_are_kept_and_nothing_is_made_up(page: Page, lists: list[list[float | None]]) -> None:
    values = [value for part in lists for value in part]
    firsts = [sum(map(len, lists[:place])) for place in range(len(lists))]
    whole, held = curve(values), grown(page, [curve(part, first) for part, first in zip(lists, firsts, strict=True)])
    places = held["steps"]
    assert places == sorted(set(places)) and {places[0], places[-1]} == {0, len(values) - 1}
    assert all(held[name] == [whole[name][place] for place in places] for name in whole), (
        "each point is one of the curve's"
    )
    assert len(places) <= 2 * MOST
    numbers = [value for value in values if value is not None]
    shown = [value for value in held["values"] if value is not None]
    assert (min(shown, default=None), max(shown, default=None)) == (
        min(numbers, default=None),
        max(numbers, default=None),
    )
    assert (None in held["values"]) == (None in values)


def test_an_old_part_keeps_as_many_points_to_a_stretch_as_a_new_one(page: Page) -> None:
    held = grown(
        page, [curve([math.sin(step) for step in range(first, first + 40)], first) for first in range(0, 4_000, 40)]
    )
    places = held["steps"]
    thirds = [sum(low <= place < low + 1_300 for place in places) for low in (0, 1_300)]
    assert min(thirds) > 0.6 * max(thirds), json.dumps(thirds)
