"""How often a page that follows runs asks for news."""

import pytest

from app import live


@pytest.mark.parametrize(("took_s", "rests_ms"), [(0.0, 5_000), (0.1, 5_000), (0.2, 10_000), (5.0, 30_000)])
def test_a_view_that_takes_long_to_draw_rests_longer_within_bounds(took_s: float, rests_ms: int) -> None:
    assert live.rest_ms(took_s) == rests_ms
