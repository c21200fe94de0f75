"""What is new to a person: a visit lasts over reloads, the next one begins where the last one looked, and a stranger gets the last day."""

from datetime import UTC, datetime, timedelta

import pytest

from engine.home import Home
from engine.store import Reader, Store


def ago(**length: float) -> str:
    return (datetime.now(UTC) - timedelta(**length)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def looked(store: Store, person: str, at: str, new_since: str) -> None:
    """Put a look of the past into the store."""
    with store.change() as connection:
        connection.execute("INSERT OR REPLACE INTO looks (person, looked_at, new_since) VALUES (?, ?, ?)", [person, at, new_since])


def test_to_a_new_person_and_to_nobody_known_the_last_day_is_new(store: Store, reader: Reader) -> None:
    earliest = ago(hours=24)
    for found in (reader.new_since(), reader.new_since("ada"), store.look("ada")):
        assert earliest <= found <= ago(hours=24)


@pytest.mark.parametrize(("minutes", "is_same_visit"), [(0, True), (29, True), (31, False), (6_000, False)])
def test_a_visit_lasts_until_nobody_has_looked_for_half_an_hour(store: Store, reader: Reader, minutes: int, is_same_visit: bool) -> None:
    last, before = ago(minutes=minutes), ago(minutes=minutes + 500)
    looked(store, "ada", last, before)
    expected = before if is_same_visit else last
    assert reader.new_since("ada") == expected
    assert store.look("ada") == expected
    assert store.look("ada") == expected, "a reload is the same visit"


def test_each_person_has_looks_of_their_own_and_seen_is_seen(store: Store, reader: Reader) -> None:
    looked(store, "ada", ago(hours=3), ago(hours=9))
    looked(store, "grace", ago(hours=2), ago(hours=9))
    before = ago()
    at = store.mark_seen("ada")
    assert reader.new_since("ada") == at >= before
    assert reader.new_since("grace") < ago(hours=1)


def test_a_store_from_before_looks_gets_them_and_its_indexes(home: Home, store: Store) -> None:
    drops = ("DROP TABLE looks", "DROP INDEX runs_ended", "DROP INDEX runs_archived", "DELETE FROM _sqlite_migrations WHERE name = 'looks_at_the_home_page'")
    for statement in drops:
        store.connection.execute(statement)
    store.close()
    with Store.open(home) as again:
        again.look("ada")
        assert {"runs_ended", "runs_archived"} <= {row["name"] for row in again.rows("SELECT name FROM sqlite_master WHERE type = 'index'")}
