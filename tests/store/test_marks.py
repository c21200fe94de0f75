"""Marks: several runs at once or none, each with its event, and what marks keep from retention."""

from collections.abc import Callable

import pytest

from engine.errors import ConfigError, NoSuchRun, WrongStatus
from engine.home import Home
from engine.store import Reader, Store
from engine.upkeep.collecting import Policy, collect
from tests.store.test_retention import age


@pytest.fixture
def ended(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Queue a run, cancel it, and return its id."""

    def make(experiment: str = "hogwild") -> int:
        run_id = add(experiment)
        store.request_cancel(run_id, by="ada")
        return run_id

    return make


def events(reader: Reader, run_id: int) -> list[tuple[str, str, str]]:
    return [(event.kind, event.who, event.detail) for event in reader.events(run_id)][2:]


def test_several_runs_are_tagged_at_once_and_what_has_the_tag_stays(store: Store, reader: Reader, ended: Callable[..., int]) -> None:
    one, two = ended(), ended()
    store.add_tag(one, "thesis", by="ada")
    before = reader.token(one)
    assert store.tag([one, two], " thesis ", by="bea") == [two]
    assert [row.tags for row in reader.runs()] == [("thesis",), ("thesis",)]
    assert (events(reader, two), reader.token(one)) == ([("tagged", "bea", "thesis")], before)
    assert store.untag([one, two, one], "thesis", by="ada") == [one, two]
    assert store.untag([one, two], "thesis", by="ada") == []
    assert events(reader, two)[-1] == ("untagged", "ada", "thesis")
    with pytest.raises(ConfigError, match="1 to 40 characters"):
        store.tag([one], " ", by="ada")


def test_marks_come_and_go_with_who_gave_them(store: Store, reader: Reader, ended: Callable[..., int]) -> None:
    run_id = ended()
    assert (store.star([run_id], by="ada"), store.star([run_id], by="bea")) == ([run_id], [])
    assert (reader.run(run_id).starred_by, reader.entry(run_id).starred_by) == ("ada", "ada")
    assert store.archive([run_id], by="bea") == [run_id]
    assert reader.entry(run_id).archived_by == "bea"
    assert (store.unstar([run_id], by="bea"), store.unarchive([run_id], by="ada")) == ([run_id], [run_id])
    assert (reader.run(run_id).starred_by, reader.run(run_id).archived_by) == (None, None)
    assert [kind for kind, *_ in events(reader, run_id)] == ["starred", "archived", "unstarred", "unarchived"]


def test_one_run_that_can_not_be_marked_keeps_all_unmarked(store: Store, reader: Reader, add: Callable[..., int], ended: Callable[..., int]) -> None:
    done, queued = ended(), add()
    with pytest.raises(WrongStatus, match=f"Run {queued} can't be archived while it is queued. Cancel it"):
        store.archive([done, queued], by="ada")
    with pytest.raises(NoSuchRun):
        store.star([done, 99], by="ada")
    assert reader.count(archived=True) == 0
    assert reader.run(done).starred_by is None


def test_an_experiment_has_one_baseline(store: Store, reader: Reader, ended: Callable[..., int]) -> None:
    one, two, other = ended(), ended(), ended("sync_sgd")
    assert [store.pin(run_id, by="ada") for run_id in (one, one, other, two)] == [None, None, None, one]
    assert {name: row.id for name, row in reader.pinned().items()} == {"hogwild": two, "sync_sgd": other}
    assert events(reader, one) == [("pinned", "ada", ""), ("unpinned", "ada", f"for run {two}")]
    assert (store.unpin(two, by="bea"), store.unpin(two, by="bea")) == ([two], [])
    assert set(reader.pinned()) == {"sync_sgd"}


@pytest.mark.parametrize("mark", ["star", "pin", "tag"])
def test_retention_never_touches_a_marked_run(home: Home, store: Store, reader: Reader, ended: Callable[..., int], mark: str) -> None:
    kept, gone = ended(), ended()
    {"star": lambda: store.star([kept], by="ada"), "pin": lambda: store.pin(kept, by="ada"), "tag": lambda: store.tag([kept], "thesis", by="ada")}[mark]()
    store.archive([kept, gone], by="ada")
    for run_id in (kept, gone):
        age(store, run_id, 90)
    assert [run.run_id for run in collect(home, Policy(None, 30, 100), by="ada").deleted] == [gone]
    assert set(reader.run_statuses()) == {kept}


def test_retention_never_touches_a_run_that_is_on_however_old(home: Home, store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    with store.change() as connection:
        connection.execute("UPDATE runs SET created_at = '2020-01-01T00:00:00.000Z', started_at = '2020-01-01T00:00:00.000Z'")
    assert collect(home, Policy(0, 0, 100), by="ada").deleted == ()
    assert set(reader.run_statuses()) == {run_id}
