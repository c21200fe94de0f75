"""Marks from the command line, by number and by filter; and lists that are filtered, sorted and free of
archived runs.
"""

import json
import re
from collections.abc import Callable

import pytest

from engine.home import Home
from engine.recorder import Point
from engine.store import Reader, Store
from tests.cli.conftest import Parallab
from tests.stand_in import worker


@pytest.fixture
def three(store: Store, queued: Callable[..., int]) -> None:
    """Three runs, the first two cancelled."""
    for name in ("first", "second", "third"):
        queued(name)
    for run_id in (1, 2):
        store.runs.cancel(run_id, by="ada")


def listed(parallab: Parallab, *words: str) -> list[int]:
    return [run["id"] for run in json.loads(parallab("list", "--json", *words).stdout)]


def test_runs_are_marked_by_number_and_by_filter(parallab: Parallab, home: Home, three: None) -> None:
    assert parallab("tag", "thesis", "1", "3").stdout == "Run 1 is tagged thesis.\nRun 3 is tagged thesis.\n"
    assert json.loads(parallab("untag", "thesis", "--filter", 'status == "queued"', "--json").stdout) == {
        "runs": [3],
        "now": "no longer tagged thesis",
    }
    assert parallab("star", "2").stdout == "Run 2 is starred.\n"
    assert parallab("star", "2").stdout == "Nothing to change.\n"
    assert parallab("archive", "--filter", 'status == "cancelled" and not starred').stdout == (
        "Run 1 is archived.\nTo restore: python -m engine unarchive ID\n"
    )
    assert parallab("pin", "2").stdout == "Run 2 is the baseline of its experiment.\n"
    assert parallab("pin", "3").stdout == "Run 3 is the baseline of its experiment, in place of run 2.\n"
    assert parallab("note", "1", "It diverged.").stdout == "Run 1 is noted.\n"
    assert parallab("rename", "1", "a wide net").stdout == "Run 1 is named a wide net.\n"
    with Reader.open(home) as reader:
        run = reader.runs.one(1)
        assert (
            run.tags,
            run.note,
            run.name,
            run.archived_by,
            reader.runs.one(2).starred_by,
            reader.runs.one(3).pinned_by,
        ) == (
            ("thesis",),
            *("It diverged.", "a wide net", "ada", "ada", "ada"),
        )
    assert listed(parallab) == [3, 2]
    parallab("unarchive", "1"), parallab("unstar", "2"), parallab("unpin", "3")
    with Reader.open(home) as reader:
        assert (reader.runs.count(archived=True), reader.runs.one(2).starred_by, reader.runs.pinned()) == (0, None, {})


def test_a_list_is_filtered_and_sorted(parallab: Parallab, store: Store, three: None) -> None:
    store.annotations.archive([1], by="ada")
    assert listed(parallab, "--filter", 'name contains "T"', "--sort", "name") == [3]
    assert listed(parallab, "--archived", "--sort", "name") == [1, 2, 3]
    assert listed(parallab, "--filter", "archived") == [1]
    told = parallab("list", "--filter", "test/accuracy.best > 0.98")
    assert "0.98 is interpreted as 98 %" in told.stderr


def test_the_fields_of_the_filter_and_of_the_order_are_columns(parallab: Parallab, store: Store, three: None) -> None:
    plain = parallab("list").stdout.splitlines()[0].split()
    store.annotations.star([1], by="ada")
    asked = ("list", "--filter", "trainers >= 1 and (starred or waited > 0 or id > 0)")
    heading, *rows = parallab(*asked, "--sort=-trainers").stdout.splitlines()
    assert heading.split() == [*plain, "trainers", "starred", "waited"]
    assert [re.findall(r" 2  +(true|false)", row) for row in rows] == [["false"], ["false"], ["true"]]
    store.claims.claim(3, worker(), [])
    store.worker.write(3, [], run_points=[Point("val_accuracy", 1, 0.5, 1.0)])
    heading, first, *_ = parallab("list", "--sort=-val_accuracy.last").stdout.splitlines()
    assert (heading.split(), first.split()[-1]) == ([*plain, "val_accuracy.last"], "0.5")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("list", "--filter", "trainer > 3"), "Did you mean trainers"),
        (("list", "--sort", "tags"), "can't be sorted by tags"),
        (("star",), "Give the ids of runs, or --filter"),
        (("archive", "1", "--filter", "id > 0"), "Give the ids of runs, or --filter"),
        (("archive", "--filter", " "), "matches every run of the lab"),
        (("archive", "--filter", "id == 3"), "Run 3 can't be archived while it is queued"),
        (("tag", " ", "1"), "tag must have 1 to 40 characters"),
        (("pin", "9"), "Run 9 doesn't exist"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], sentence: str, parallab: Parallab, three: None) -> None:
    told = parallab(*words)
    assert (told.returncode, told.stdout, len(told.stderr.splitlines())) == (2, "", 1)
    assert sentence in told.stderr
