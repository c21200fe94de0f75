"""The address of the Compare page: short, the same there and back, by names that outlive a new wording, and never an error."""

import pytest

from app.compare_view import MOST_IDS, VERSION, View, address, ids_text, query_of, read_ids, read_view
from tests.app.test_pages import opened

FULL = View(
    runs=(1, 2, 5, 6, 7),
    filter="owner == 'ada' and x > 3",
    tab="parallel",
    metrics=("train/loss", "test/accuracy"),
    x="perf/staleness",
    log="xy",
    smooth=0.5,
    group=("trainers", "mode"),
    stat="iqm",
    band="ci",
    number="test/accuracy.best",
    against="trainers",
    axes=("trainers", "learning_rate"),
    same=True,
)


def test_a_view_comes_back_from_its_address() -> None:
    assert read_view(query_of(FULL)) == (FULL, [])
    assert read_view(query_of(View())) == (View(), [])


def test_an_address_is_short_and_says_its_version() -> None:
    assert address(View()) == "/compare"
    assert address(View(runs=(3, 5))) == "/compare?runs=3,5&v=1"
    assert address(View(runs=(1, 2, 3), metrics=("train/loss",), group=("trainers",))) == "/compare?runs=1-3&metrics=train/loss&group=trainers&v=1"


def test_a_link_without_a_version_is_of_this_one() -> None:
    assert read_view({"runs": "3,5"}) == (View(runs=(3, 5)), [])


@pytest.mark.parametrize("version", ["0", "2", "next", ""])
def test_a_link_of_another_version_shows_what_is_understood_and_says_so(version: str) -> None:
    view, said = read_view({"runs": "3", "v": version, "lens": "4"})
    assert view == View(runs=(3,))
    assert said[0].startswith(f"This link is of version '{version}' of the Compare page, and this console reads version {VERSION}")
    assert said[1] == "The link's 'lens' means nothing to this version of the page, and was left out."


@pytest.mark.parametrize(
    ("name", "text"), [("tab", "curve"), ("stat", "mode"), ("band", ""), ("smooth", "nan"), ("smooth", "1"), ("smooth", "much"), ("log", "z"), ("same", "yes")]
)
def test_a_value_that_is_none_is_named_and_left_out(name: str, text: str) -> None:
    view, (sentence,) = read_view({name: text})
    assert view == View()
    assert sentence.startswith(f"The link's {name} must be ") and f"'{text}'" in sentence and sentence.endswith("it was left out.")


@pytest.mark.parametrize(
    ("text", "ids", "wrong"),
    [
        ("1,2,5-7", (1, 2, 5, 6, 7), []),
        (" #3 1, 3 ", (1, 3), []),
        ("7-5,x,-1,1-,²,1.5", (), ["7-5", "x", "-1", "1-", "²", "1.5"]),
        ("", (), []),
    ],
)
def test_ids_are_numbers_and_ranges(text: str, ids: tuple[int, ...], wrong: list[str]) -> None:
    assert read_ids(text) == (ids, wrong)


def test_a_range_may_be_written_as_in_a_sweep() -> None:
    assert read_ids("5..7") == read_ids("5-7")


def test_a_range_without_end_is_cut() -> None:
    assert len(read_ids("1-999999999999")[0]) == MOST_IDS


def test_ids_are_written_in_short() -> None:
    assert ids_text([9, 1, 2, 3, 5, 6, 9]) == "1-3,5,6,9"
    assert ids_text([]) == ""


def test_what_is_hostile_in_a_link_is_text(home: object) -> None:
    test = opened("compare", {"filter": "<script>alert(1)</script> [x](javascript:1)", "lens<b>": "![](http://x)", "group": "__class__", "x": "../../etc"})
    assert not test.exception
    assert not test.error


def test_a_link_of_before_asks_for_the_interval_by_its_old_name() -> None:
    view, said = read_view({"band": "boot"})
    assert (view.band, said) == ("ci", [])
