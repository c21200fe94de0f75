"""Saved views: kept by owner and name, written anew, deleted by their owner alone, and given to older stores by a step."""

import pytest

from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store


def test_a_view_comes_back_as_it_was_saved(store: Store, reader: Reader) -> None:
    view_id = store.save_view("  Speed   by trainers ", "compare", "runs=1-3&v=1", owner="ada")
    (found,) = reader.views()
    assert (found.id, found.name, found.owner, found.page, found.query) == (view_id, "Speed by trainers", "ada", "compare", "runs=1-3&v=1")
    assert found.saved_at.endswith("Z")


def test_views_are_told_apart_by_owner_page_and_name_and_come_by_name(store: Store, reader: Reader) -> None:
    for owner, page, name in (("ada", "compare", "b"), ("grace", "compare", "A"), ("ada", "results", "c"), ("ada", "compare", "A")):
        store.save_view(name, page, "v=1", owner=owner)
    assert [(view.name, view.owner) for view in reader.views(page="compare")] == [("A", "ada"), ("A", "grace"), ("b", "ada")]
    assert [view.page for view in reader.views(owner="ada")] == ["compare", "compare", "results"]
    assert len(reader.views(limit=2)) == 2


def test_saving_under_a_name_again_writes_that_view_anew(store: Store, reader: Reader) -> None:
    first = store.save_view("speed", "compare", "runs=1", owner="ada")
    assert store.save_view("speed", "compare", "runs=2", owner="ada") == first
    assert [view.query for view in reader.views()] == ["runs=2"]


def test_only_its_owner_deletes_a_view_and_one_that_is_gone_is_no_error(store: Store, reader: Reader) -> None:
    view_id = store.save_view("speed", "compare", "runs=1", owner="ada")
    with pytest.raises(ConfigError, match="The view 'speed' is of ada, who alone can delete it; you are grace"):
        store.delete_view(view_id, by="grace")
    assert len(reader.views()) == 1
    assert store.delete_view(view_id, by="ada")
    assert not store.delete_view(view_id, by="ada")
    assert reader.views() == []


def test_only_its_owner_renames_a_view_and_to_a_name_that_is_free(store: Store, reader: Reader) -> None:
    view_id = store.save_view("speed", "compare", "runs=1", owner="ada")
    store.save_view("taken", "compare", "runs=2", owner="ada")
    for page, owner in (("results", "ada"), ("compare", "grace")):
        store.save_view("wide", page, "v=1", owner=owner)
    assert store.rename_view(view_id, " Speed   by trainers ", by="ada")
    assert store.rename_view(view_id, "wide", by="ada"), "another page or person may have a view of that name"
    assert store.rename_view(view_id, "wide", by="ada"), "its own name is free to it"
    for name, by, words in (("x", "grace", "who alone can rename it; you are grace"), ("taken", "ada", "named 'taken' already"), (" ", "ada", "1 to 80")):
        with pytest.raises(ConfigError, match=words):
            store.rename_view(view_id, name, by=by)
    assert [(view.name, view.query) for view in reader.views(page="compare", owner="ada")] == [("taken", "runs=2"), ("wide", "runs=1")]
    assert not store.rename_view(99, "x", by="ada")


@pytest.mark.parametrize(
    ("name", "query", "words"), [(" ", "v=1", "name of a saved view must have 1 to 80"), ("x", "r" * 4_001, "query of a saved view must have 1 to 4,000")]
)
def test_a_name_or_query_out_of_bounds_is_refused(store: Store, name: str, query: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        store.save_view(name, "compare", query, owner="ada")


def test_a_store_from_before_views_gets_them_when_it_is_brought_up_to_date(home: Home, store: Store) -> None:
    for statement in ("DROP TABLE views", "DELETE FROM _sqlite_migrations WHERE name = 'saved_views'"):
        store.connection.execute(statement)
    store.close()
    with Store.open(home) as again:
        again.save_view("speed", "compare", "v=1", owner="ada")
    with Reader.open(home) as reader:
        assert len(reader.views()) == 1
