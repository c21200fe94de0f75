"""How far the x-axes of a run's charts go, by the script itself."""

import pytest
from playwright.sync_api import Page

from engine.home import ROOT

pytestmark = pytest.mark.browser
SPANS = f"""({{ ends, apart, x }}) => {{
  {(ROOT / "app" / "static" / "chart" / "axis.js").read_text()}
  const curve = (metric, end) => ({{ metric, total: 2, steps: [0, end], times: [1, 9], passes: [null, null] }});
  const curves = new Map(Object.entries(ends).map(([name, end]) => [name, curve(name, end)]));
  const metrics = Object.keys(ends).map((name) => ({{ name }}));
  return Object.fromEntries(spansOf({{ data: {{ x, apart }}, metrics, curves, bands: new Map() }}));
}}"""


def test_charts_of_another_program_leave_out_steps_that_end_far_later_and_else_have_one_range(page: Page) -> None:
    ends = {"train/loss": 1200, "train/lr": 1000, "val/loss": 3, "val/accuracy": 4}

    def spans(*, apart: bool, x: str = "step") -> list[list[float]]:
        return list(page.evaluate(SPANS, {"ends": ends, "apart": apart, "x": x}).values())

    assert spans(apart=True) == [[0, 1200], [0, 1200], [0, 4], [0, 4]]
    assert spans(apart=True, x="time") == [[1, 9]] * 4
    assert spans(apart=False) == [[0, 1200]] * 4
