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
  const curve = {{ ids: [], steps: [], times: [], passes: [], values: [] }};
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
        "ids": [2 * step for step in steps],
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


def test_both_parts_of_a_curve_whose_steps_go_back_keep_their_shape(page: Page) -> None:
    parts = [[math.sin(step) for step in range(first, first + 40)] for first in range(0, 2_000, 40)]
    resumed = [curve(part, 40 * place % 1_000) for place, part in enumerate(parts)]  # the second half begins at 0 again
    for place, part in enumerate(resumed):
        part["ids"] = list(range(40 * place, 40 * place + 40))
    held = grown(page, resumed)
    halves = [sum(low <= id < low + 800 for id in held["ids"]) for low in (0, 1_000)]
    assert min(halves) > 0.5 * max(halves), json.dumps(halves)
    assert len(held["ids"]) <= 2 * MOST + 40 and held["ids"] == sorted(held["ids"])


AXIS = (ROOT / "app" / "static" / "chart" / "axis.js").read_text()
ZOOM = (ROOT / "app" / "static" / "chart" / "zoom.js").read_text()


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [("sum", [3.0, 15.0, 17.0]), ("mean", [1.5, 7.5, 8.5]), ("most", [2.0, 10.0, 12.0]), ("points", [1.5, 4.0, 5.0])],
)
def test_the_updates_at_a_time_are_counted_as_the_experiment_says(page: Page, counts: str, wanted: list[float]) -> None:
    script = (
        f"({{ clock, curves }}) => {{ {AXIS}\n const chart = {{ data: {{ clock }}, curves: new Map(curves) }};"
        " return [1, 5, 9].map(updateClock(chart)); }"
    )
    fast = {"metric": "train/loss", "times": [1.0, 5.0, 6.0], "steps": [2, 10, 12], "total": 3}
    slow = {"metric": "train/loss", "times": [5.0, 2.0], "steps": [5, 2], "total": 2}  # its clock was set back
    told = {"metric": "train/loss", "counts": counts}
    found = page.evaluate(script, {"clock": told, "curves": [["fast", fast], ["slow", slow]]})
    assert found == wanted


def test_a_zoomed_part_of_a_curve_that_goes_back_takes_no_point_from_the_rest(page: Page) -> None:
    splice = f"([curve, part]) => {{ {THIN} {ZOOM} return spliced(curve, part); }}"
    whole = curve([float(step) for step in range(0, 40, 4)])
    whole |= {"ids": list(range(0, 40, 4)), "times": [0, 1, 2, 3, 4, 1, 2, 3, 4, 5]}  # resumed from its middle
    part = {"ids": [5, 6, 8, 24, 26], "times": [1.3, 1.6, 2, 2, 2.4]}
    part |= {name: [0] * 5 for name in ("steps", "passes", "values")}
    found = page.evaluate(splice, [whole, part])
    assert found["ids"] == sorted({*whole["ids"], *part["ids"]})
    assert [found["times"][found["ids"].index(id)] for id in (4, 6, 20, 36)] == [1, 1.6, 1, 5]


PLOT = "\n".join(
    (ROOT / "app" / "static" / part).read_text() for part in ("plot/units.js", "plot/plot.js", "chart/table.js")
)


def test_a_chart_tells_its_numbers_apart_and_says_when_it_has_none(page: Page) -> None:
    script = f"([call, value]) => {{ {PLOT}\n return {{ digitsOf, isEmpty, isZero, shortest }}[call](value); }}"

    def said(call: str, value: Any) -> Any:
        return page.evaluate(script, [call, value])

    assert [said("digitsOf", sight) for sight in ([1e6, 1e6 + 0.25], [0.1, 5], [0, 0])] == [10, 5, 5]
    wide, zero = ([{"y": values, "x": [1, 2]}] for values in ([0.1, 5], [0, 0]))
    assert (said("isZero", zero), said("isZero", wide)) == (True, False)
    empty = [{"y": [None], "x": [None], "name": "only in the legend"}]
    assert [said("isEmpty", traces) for traces in ([], empty, wide, [*empty, {"type": "heatmap"}])] == [
        *(True, True, False, False)
    ]
    numbers = {0.30000001192092896: 0.3, 1_000_000.25: 1_000_000.25, 100 / 3: 33.33333333, 1e6 + 1e-3: 1_000_000.001}
    assert {value: said("shortest", value) for value in numbers} == numbers
