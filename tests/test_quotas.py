"""The limits of a home: kept whole, checked, and none where none was set."""

import pytest

from engine.access.quotas import Limits, limits, set_limits
from engine.errors import ConfigError
from engine.home import Home


def test_limits_are_kept_in_the_home_by_person_and_of_older_versions(home: Home) -> None:
    assert limits(home) == Limits(None)
    set_limits(home, Limits(3))
    assert limits(home) == Limits(3)
    assert [path.name for path in home.path.iterdir()] == ["limits.json"]
    set_limits(home, Limits())
    assert limits(home) == Limits(None)
    found = Limits(4, 10, max_disk_gb=2.5).changed({"max_queued_per_person": None, "max_running_per_person": 9}, "ada")
    assert (found.of("ada"), found.of("bea")) == (Limits(9, None, max_disk_gb=2.5), Limits(4, 10, max_disk_gb=2.5))
    set_limits(home, found)
    assert limits(home) == found
    assert found.changed({}, "ada", frozenset({"max_queued_per_person"})).of("ada") == Limits(9, 10, max_disk_gb=2.5)
    assert found.changed({}, "ada", frozenset({"max_queued_per_person", "max_running_per_person"})).people == {}
    home.limits.write_text('{"max_running_per_person": 4}\n')
    assert limits(home) == Limits(4)
    home.limits.write_text('{"max_running_per_person": null}\n')
    assert limits(home).of("ada") == Limits() and not limits(home).any


@pytest.mark.parametrize("most", [0, -1, 10_001])
def test_a_limit_that_is_none_is_refused_and_the_old_one_stays(home: Home, most: int) -> None:
    set_limits(home, Limits(2))
    with pytest.raises(ConfigError, match=rf"must be 1 to 10,000, or none for no limit; got {most}\."):
        set_limits(home, Limits(most))
    assert limits(home) == Limits(2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"max_running_per_person": "3"}'])
def test_a_file_that_is_not_ours_is_a_sentence_with_the_cure(home: Home, text: str) -> None:
    home.limits.write_text(text)
    with pytest.raises(ConfigError, match=r"limits set --running 4|Running runs must be"):
        limits(home)
