"""Marks: several runs at once or none, each with its event, and what marks keep from retention."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from app.ui.run_state import BUDGET_REACHED, status_counts
from engine.access.rules import Program
from engine.errors import ConfigError, NoSuchRun, WrongStatus
from engine.home import Home
from engine.launch import launch
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Demand, Launch, Reader, Store, SweepLaunch
from engine.store.access.last_visit import _COUNTS, _MARK, _SINCE
from engine.store.records import BUDGET_OF
from engine.store.runs.commands import checked_name
from engine.store.timestamps import now
from engine.upkeep.retention_policy import RetentionPolicy, collect
from tests.store.ends import end, finish
from tests.store.maintenance.test_retention import age


@pytest.fixture
def ended(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Queue a run, cancel it, and return its id."""

    def make(experiment: str = "hogwild") -> int:
        run_id = add(experiment)
        store.runs.cancel(run_id, by="ada")
        return run_id

    return make


def events(reader: Reader, run_id: int) -> list[tuple[str, str, str]]:
    return [(event.kind, event.who, event.detail) for event in reader.details.events(run_id)][2:]


def test_several_runs_are_tagged_at_once_and_what_has_the_tag_stays(
    store: Store, reader: Reader, ended: Callable[..., int]
) -> None:
    one, two = ended(), ended()
    store.annotations.tag([one], "thesis", by="ada")
    before = reader.runs.token(one)
    assert store.annotations.tag([one, two], " thesis ", by="bea") == [two]
    assert [row.tags for row in reader.runs.find()] == [("thesis",), ("thesis",)]
    assert (events(reader, two), reader.runs.token(one)) == ([("tagged", "bea", "thesis")], before)
    assert store.annotations.untag([one, two, one], "thesis", by="ada") == [one, two]
    assert store.annotations.untag([one, two], "thesis", by="ada") == []
    assert events(reader, two)[-1] == ("untagged", "ada", "thesis")
    with pytest.raises(ConfigError, match="1 to 40 characters"):
        store.annotations.tag([one], " ", by="ada")


def test_marks_come_and_go_with_who_gave_them_and_one_that_can_not_keeps_all_unmarked(
    store: Store, reader: Reader, ended: Callable[..., int], add: Callable[..., int]
) -> None:
    run_id = ended()
    assert (store.annotations.star([run_id], by="ada"), store.annotations.star([run_id], by="bea")) == ([run_id], [])
    assert (reader.runs.one(run_id).starred_by, reader.runs.entry(run_id).starred_by) == ("ada", "ada")
    assert store.annotations.archive([run_id], by="bea") == [run_id]
    assert reader.runs.entry(run_id).archived_by == "bea"
    assert (store.annotations.unstar([run_id], by="bea"), store.annotations.unarchive([run_id], by="ada")) == (
        [run_id],
        [run_id],
    )
    assert (reader.runs.one(run_id).starred_by, reader.runs.one(run_id).archived_by) == (None, None)
    assert [kind for kind, *_ in events(reader, run_id)] == ["starred", "archived", "unstarred", "unarchived"]
    done, queued = ended(), add()
    with pytest.raises(WrongStatus, match=f"Run {queued} can't be archived while it is queued. Cancel it"):
        store.annotations.archive([done, queued], by="ada")
    with pytest.raises(NoSuchRun):
        store.annotations.star([done, 99], by="ada")
    assert reader.runs.count(archived=True) == 0
    assert reader.runs.one(done).starred_by is None


def test_an_experiment_has_one_baseline(store: Store, reader: Reader, ended: Callable[..., int]) -> None:
    one, two, other = ended(), ended(), ended("sync_sgd")
    assert [store.annotations.pin(run_id, by="ada") for run_id in (one, one, other, two)] == [None, None, None, one]
    assert {name: row.id for name, row in reader.runs.pinned().items()} == {"hogwild": two, "sync_sgd": other}
    assert events(reader, one) == [("pinned", "ada", ""), ("unpinned", "ada", f"for run {two}")]
    assert (store.annotations.unpin(two, by="bea"), store.annotations.unpin(two, by="bea")) == ([two], [])
    assert set(reader.runs.pinned()) == {"sync_sgd"}


def test_retention_never_touches_a_run_that_is_on_however_old(
    home: Home, store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    run_id = running()
    with store.db.change() as connection:
        connection.execute(
            "UPDATE runs SET created_at = '2020-01-01T00:00:00.000Z', started_at = '2020-01-01T00:00:00.000Z'"
        )
    assert collect(home, RetentionPolicy(0, 0, 100), by="ada").deleted == ()
    assert set(reader.runs.statuses()) == {run_id}


@pytest.mark.parametrize("mark", ["star", "pin", "tag"])
def test_retention_never_touches_a_marked_run(
    home: Home, store: Store, reader: Reader, ended: Callable[..., int], mark: str
) -> None:
    kept, gone = ended(), ended()
    {
        "star": lambda: store.annotations.star([kept], by="ada"),
        "pin": lambda: store.annotations.pin(kept, by="ada"),
        "tag": lambda: store.annotations.tag([kept], "thesis", by="ada"),
    }[mark]()
    store.annotations.archive([kept, gone], by="ada")
    for run_id in (kept, gone):
        age(store, run_id, 90)
    assert [run.run_id for run in collect(home, RetentionPolicy(None, 30, 100), by="ada").deleted] == [gone]
    assert set(reader.runs.statuses()) == {kept}


def test_a_view_comes_back_as_it_was_saved(store: Store, reader: Reader) -> None:
    view_id = store.views.save("  Speed   by trainers ", "compare", "runs=1-3&v=1", owner="ada")
    (found,) = reader.views.find()
    assert (found.id, found.name, found.owner, found.page, found.query) == (
        view_id,
        "Speed by trainers",
        "ada",
        "compare",
        "runs=1-3&v=1",
    )
    assert found.saved_at.endswith("Z")


def test_saving_under_a_name_again_writes_that_view_anew(store: Store, reader: Reader) -> None:
    first = store.views.save("speed", "compare", "runs=1", owner="ada")
    assert store.views.save("speed", "compare", "runs=2", owner="ada") == first
    assert [view.query for view in reader.views.find()] == ["runs=2"]


def test_views_are_told_apart_by_owner_page_and_name_and_come_by_name(store: Store, reader: Reader) -> None:
    for owner, page, name in (
        ("ada", "compare", "b"),
        ("grace", "compare", "A"),
        ("ada", "results", "c"),
        ("ada", "compare", "A"),
    ):
        store.views.save(name, page, "v=1", owner=owner)
    assert [(view.name, view.owner) for view in reader.views.find(page="compare")] == [
        ("A", "ada"),
        ("A", "grace"),
        ("b", "ada"),
    ]
    assert [view.page for view in reader.views.find(owner="ada")] == ["compare", "compare", "results"]
    assert len(reader.views.find(limit=2)) == 2


def test_only_its_owner_deletes_or_renames_a_view(store: Store, reader: Reader) -> None:
    view_id = store.views.save("speed", "compare", "runs=1", owner="ada")
    with pytest.raises(ConfigError, match="Only ada, the owner of the view 'speed', can delete it; you are grace"):
        store.views.delete(view_id, by="grace")
    assert len(reader.views.find()) == 1
    assert store.views.delete(view_id, by="ada")
    assert not store.views.delete(view_id, by="ada")
    assert reader.views.find() == []
    view_id = store.views.save("speed", "compare", "runs=1", owner="ada")
    store.views.save("taken", "compare", "runs=2", owner="ada")
    for page, owner in (("results", "ada"), ("compare", "grace")):
        store.views.save("wide", page, "v=1", owner=owner)
    assert store.views.rename(view_id, " Speed   by trainers ", by="ada")
    assert store.views.rename(view_id, "wide", by="ada"), "another page or person may have a view of that name"
    assert store.views.rename(view_id, "wide", by="ada"), "its own name is free to it"
    for name, by, words in (
        ("x", "grace", "can rename it; you are grace"),
        ("taken", "ada", "named 'taken'"),
        (" ", "ada", "1 to 80"),
    ):
        with pytest.raises(ConfigError, match=words):
            store.views.rename(view_id, name, by=by)
    assert [(view.name, view.query) for view in reader.views.find(page="compare", owner="ada")] == [
        ("taken", "runs=2"),
        ("wide", "runs=1"),
    ]
    assert not store.views.rename(99, "x", by="ada")


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        (" ", "v=1", "name of a saved view must have 1 to 80"),
        ("x", "r" * 4_001, "query of a saved view must have 1 to 4,000"),
    ],
)
def test_a_name_or_query_out_of_bounds_is_refused(store: Store, name: str, query: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        store.views.save(name, "compare", query, owner="ada")


def test_a_store_from_before_views_gets_them_when_it_is_brought_up_to_date(home: Home, store: Store) -> None:
    for statement in ("DROP TABLE views", "DELETE FROM _sqlite_migrations WHERE name = 'saved_views'"):
        store.db.connection.execute(statement)
    store.close()
    with Store.open(home) as again:
        again.views.save("speed", "compare", "v=1", owner="ada")
    with Reader.open(home) as reader:
        assert len(reader.views.find()) == 1


def test_a_store_from_before_looks_gets_them_and_its_indexes(home: Home, store: Store) -> None:
    drops = (
        "DROP TABLE looks",
        "DROP INDEX runs_ended",
        "DROP INDEX runs_archived",
        "DELETE FROM _sqlite_migrations WHERE name = 'looks_at_the_home_page'",
    )
    for statement in drops:
        store.db.connection.execute(statement)
    store.close()
    with Store.open(home) as again:
        again.visits.note("ada")
        assert {"runs_ended", "runs_archived"} <= {
            row["name"] for row in again.db.rows("SELECT name FROM sqlite_master WHERE type = 'index'")
        }


def ago(**length: float) -> str:
    return (datetime.now(UTC) - timedelta(**length)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def looked(store: Store, person: str, at: str, new_since: str) -> None:
    """Put a look of the past into the store."""
    with store.db.change() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO looks (person, looked_at, new_since) VALUES (?, ?, ?)", [person, at, new_since]
        )


def test_the_last_day_is_new_to_a_new_person_and_each_has_looks_of_their_own(store: Store, reader: Reader) -> None:
    earliest = ago(hours=24)
    for found in (reader.visits.new_since(), reader.visits.new_since("ada"), store.visits.note("ada")):
        assert earliest <= found <= ago(hours=24)
    looked(store, "ada", ago(hours=3), ago(hours=9))
    looked(store, "grace", ago(hours=2), ago(hours=9))
    before = ago()
    at = store.visits.mark_seen("ada")
    assert reader.visits.new_since("ada") == at >= before
    assert reader.visits.new_since("grace") < ago(hours=1)


@pytest.mark.parametrize(("minutes", "is_same_visit"), [(0, True), (29, True), (31, False), (6_000, False)])
def test_a_visit_lasts_until_nobody_has_looked_for_half_an_hour(
    store: Store, reader: Reader, minutes: int, is_same_visit: bool
) -> None:
    last, before = ago(minutes=minutes), ago(minutes=minutes + 500)
    looked(store, "ada", last, before)
    expected = before if is_same_visit else last
    assert reader.visits.new_since("ada") == expected
    assert store.visits.note("ada") == expected
    assert store.visits.note("ada") == expected, "a reload is the same visit"


START = "2000-01-01T00:00:00.000Z"


def test_what_ended_is_told_newest_first_and_a_sweeps_runs_together(store: Store, reader: Reader) -> None:
    alone = finish(store, {"seed": 0}, None)
    middle = now()
    asked = [Launch("hogwild", {"seed": seed}, demand=Demand(1, 0, 1, 1)) for seed in range(4)]
    sweep_id = store.sweeps.add(SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": list(range(4))}), asked)
    runs = [run.id for run in reader.sweeps.runs(sweep_id)]
    for run_id in runs[:2]:
        end(store, run_id, None)
    store.runs.cancel(runs[2], by=Program(f"{BUDGET_OF} 1"))
    found = reader.recent_ends.since(START)
    assert [(each.sweep_id, each.run_id, dict(each.statuses)) for each in found] == [
        (sweep_id, runs[2], {"finished": 2, "cancelled": 1}),
        (None, alone, {"finished": 1}),
    ]
    assert [each.reached_budget for each in found] == [1, 0]
    assert reader.recent_ends.count_since(START) == ({"finished": 3, "cancelled": 1}, 1)
    assert status_counts(*reader.recent_ends.count_since(START)) == [
        ("finished", "3 finished"),
        ("finished", f"1 {BUDGET_REACHED}"),
    ]
    assert [each.sweep_id for each in reader.recent_ends.since(middle)] == [sweep_id]
    store.annotations.archive([alone], by="ada")
    assert [each.run_id for each in reader.recent_ends.since(START)] == [runs[2]]
    assert (reader.recent_ends.since(now()), reader.recent_ends.count_since(now())) == ([], ({}, 0))


def test_the_mark_of_ends_changes_with_them_alone_and_is_read_from_indexes(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    seen = [reader.recent_ends.mark()]
    run_id = running()
    seen.append(reader.recent_ends.mark())
    store.worker.write(run_id, [], run_points=[Point("train/loss", 1, 0.5, 1.0)])
    store.annotations.star([run_id], by="ada")
    assert reader.recent_ends.mark() == seen[-1]
    for change in (
        lambda: store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0),
        lambda: store.annotations.archive([run_id], by="ada"),
        lambda: store.annotations.unarchive([run_id], by="ada"),
        lambda: store.db.connection.execute("DELETE FROM runs"),
    ):
        change()
        assert reader.recent_ends.mark() != seen[-1]
        seen.append(reader.recent_ends.mark())
    for sql, values in ((f"SELECT {_COUNTS} {_SINCE}", [START, "[]"]), (_MARK, [])):
        plan = [row["detail"] for row in reader.db.rows(f"EXPLAIN QUERY PLAN {sql}", values)]
        touched = [detail for detail in plan if "runs" in detail]
        assert touched and not [detail for detail in touched if "COVERING INDEX" not in detail], plan


FIELDS: dict[str, Callable[[Store, int, str], object]] = {
    "name": lambda store, run_id, text: store.annotations.rename(run_id, text, by="ada"),
    "note": lambda store, run_id, text: store.annotations.set_note(run_id, text, by="ada"),
    "tag": lambda store, run_id, text: store.annotations.tag([run_id], text, by="ada"),
    "name of a view": lambda store, run_id, text: store.views.save(text, "compare", "v=1", owner="ada"),
    "name of a token": lambda store, run_id, text: store.tokens.make("ada", text, "read", by="ada"),
    "name of a launch": lambda store, run_id, text: _launch(store, title=text),
    "owner": lambda store, run_id, text: _launch(store, owner=text),
    "name of a sweep": lambda store, run_id, text: checked_name(text),
}


def _launch(store: Store, owner: str = "ada", title: str = "") -> int:
    return launch(
        store.db.home,
        Launch("reference", experiment("reference").configure("quick").model_dump(mode="json"), owner, name=title),
    )


@pytest.mark.parametrize("field", FIELDS)
def test_characters_that_hide_or_reorder_what_is_shown_are_refused_everywhere(
    store: Store, ended: Callable[..., int], field: str
) -> None:
    run_id = ended()
    if field == "name of a token":
        store.people.add("ada", "admin", by="root")
    for letter, called in (
        ("\x00", r"U\+0000 \(control character\)"),
        ("\x1b", r"U\+001B \(control character\)"),
        ("\u202e", r"U\+202E \(right-to-left override\)"),
        ("\u2067", r"U\+2067 \(right-to-left isolate\)"),
    ):
        sentence = rf"^{field.split()[0]} has an invisible character, {called}, at position 2\. Remove it\.$"
        with pytest.raises(ConfigError, match=sentence):
            FIELDS[field](store, run_id, f"a{letter}b")


def test_names_are_one_line_and_keep_every_letter_and_notes_keep_their_lines(
    store: Store, reader: Reader, ended: Callable[..., int]
) -> None:
    run_id = ended()
    written = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f52c"
    store.annotations.rename(run_id, f" {written}\n two\tlines\r\n", by="ada")
    store.annotations.set_note(run_id, f"{written}\n\ttwo\r\nlines", by="ada")
    assert reader.runs.one(run_id).name == f"{written} two lines"
    assert reader.runs.one(run_id).note == f"{written}\n\ttwo\r\nlines"
