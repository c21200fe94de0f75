"""Runs that differ in their seed alone, as one number."""

from engine.analysis.groups import grouped


def test_a_group_has_mean_and_spread_of_its_own_runs_alone() -> None:
    first, second = grouped([((1, "gpipe"), 3, 2.0), ((2, "gpipe"), 4, 9.0), ((1, "gpipe"), 5, 4.0)])
    assert (first.key, first.values, first.mean, first.low, first.high) == ((1, "gpipe"), {3: 2.0, 5: 4.0}, 3.0, 2.0, 4.0)
    assert (second.mean, second.low, second.high) == (9.0, 9.0, 9.0)
    assert grouped([]) == []
