"""A config of any length costs lists no more than a row may hold, and is there as a whole where one run is
asked for.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from engine.home import Home
from engine.store import Demand, Launch, Reader, Store
from engine.store.imports.external_import import ExternalRun, take_in
from engine.store.schema.config_text import LEFT_OUT, MOST_LISTED, MOST_WHOLE, listed, move_out

SIZE = Demand(1, 0, 1, 1)
LONG = {f"p{number}": "x" * 900 for number in range(100)} | {"seed": 7, "text": "y" * 5_000}


def recorded(config: dict[str, Any], mark: str = "a") -> ExternalRun:
    return ExternalRun(
        "mlflow", mark, mark, [], "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z", 1.0, config=config
    )


def imported(store: Store, config: dict[str, Any], mark: str = "a") -> int:
    ((run_id,), _) = take_in(store, [recorded(config, mark)], file="f", by="ada")
    return run_id


WAYS: dict[str, Callable[[Store, dict[str, Any]], int]] = {
    "launched": lambda store, config: store.runs.add(Launch("hogwild", config, "ada", demand=SIZE)),
    "imported": imported,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_list_holds_a_part_of_a_long_config_and_a_run_all_of_it(store: Store, reader: Reader, way: str) -> None:
    run_id = WAYS[way](store, LONG)
    (row,) = reader.runs.find()
    assert len(json.dumps(dict(row.config))) <= MOST_LISTED
    assert row.config["seed"] == 7 and "text" not in row.config
    assert set(row.config) - {LEFT_OUT} <= set(LONG)
    assert row.config[LEFT_OUT].startswith(f"{len(LONG) - len(row.config) + 1} settings (")
    assert row.config[LEFT_OUT].endswith("; the run's page and GET /runs/{id} have all")
    assert reader.runs.one(run_id).config == reader.runs.config(run_id) == LONG


def test_a_config_as_ours_are_stays_as_it_is(store: Store, reader: Reader) -> None:
    config = {"seed": 1, "learning_rate": 0.1}
    run_id = imported(store, config)
    assert reader.runs.entry(run_id).config == reader.runs.one(run_id).config == config
    assert reader.runs.config(run_id) is None


def test_configs_that_differ_in_what_is_left_out_are_never_one_group(store: Store, reader: Reader) -> None:
    imported(store, LONG, "a")
    imported(store, LONG | {"seed": 8}, "b")
    imported(store, LONG | {"text": "z" * 5_000}, "c")
    assert sorted(len(group.run_ids) for group in reader.groups.find()) == [1, 2]


def test_a_long_config_counts_in_what_its_owner_holds_of_the_disk(store: Store, reader: Reader) -> None:
    imported(store, LONG)
    store.disk.note([(run, 1_000) for run in store.disk.unmeasured(10)])
    size = len(json.dumps(LONG)) + len(listed(json.dumps(LONG)))
    assert 0 <= reader.quotas.held("ada").disk_bytes - 1_000 - size < 100


def test_a_list_of_runs_with_long_configs_reads_none_of_them_whole(store: Store, reader: Reader) -> None:
    many = {f"p{number}": "x" * 2_000 for number in range(400)}
    take_in(store, [recorded(many, str(number)) for number in range(20)], file="f", by="ada")
    assert len(json.dumps([dict(row.config) for row in reader.runs.find()])) < 20 * (MOST_LISTED + 2)
    asked = 0

    def count(text: str) -> None:
        nonlocal asked
        asked += "long_configs.config" in text or "SELECT * FROM long_configs" in text

    reader.db.connection.set_trace_callback(count)
    reader.runs.find(), reader.groups.find(), reader.fields.names()
    assert not asked, "a list reads no whole config"


def older(home: Home, config: str) -> None:
    """Give the home a store from before long configs lay apart, with one run."""
    with Store.open(home) as store:
        store.runs.add(Launch("hogwild", {}, "ada", demand=SIZE))
    with closing(sqlite3.connect(home.database, isolation_level=None)) as connection:
        connection.execute("UPDATE runs SET config = ?", [config])
        connection.execute("DROP TABLE long_configs")
        connection.execute("ALTER TABLE disk DROP COLUMN text_bytes")
        connection.execute("INSERT INTO disk SELECT 1, 1, 5, 48")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'long_configs'")


def test_a_store_of_before_is_brought_to_short_rows_and_loses_nothing(home: Home) -> None:
    older(home, json.dumps(LONG))
    with Store.open(home), Reader.open(home) as reader:
        (row,) = reader.runs.find()
        assert len(json.dumps(dict(row.config))) <= MOST_LISTED and row.config["seed"] == 7
        assert row.config[LEFT_OUT].startswith(f"{len(LONG) - len(row.config) + 1} settings (")
        assert reader.runs.one(1).config == LONG
        assert reader.quotas.held("ada").disk_bytes > 53 + len(json.dumps(LONG))


@pytest.mark.parametrize("text", [json.dumps(LONG | {"best": float("nan")}), f'{{"seed": 7, "text": "{"y" * 20_000}'])
def test_a_row_that_sqlite_takes_for_no_json_stops_no_update(home: Home, text: str) -> None:
    older(home, text)
    with Store.open(home), Reader.open(home) as reader:
        (row,) = reader.db.rows("SELECT config FROM runs")
        assert len(row["config"]) <= MOST_LISTED and json.loads(row["config"])["seed"] == 7


def test_a_row_of_megabytes_that_an_older_import_left_stalls_no_page(home: Home) -> None:
    """Neither a list nor the run's page reads it; the command line has all of it."""
    giant = {f"p{number}": "x" * 20_000 for number in range(300)}
    assert len(json.dumps(giant)) > MOST_WHOLE
    older(home, json.dumps(giant))
    with Store.open(home), Reader.open(home) as reader:
        run = reader.runs.one(1)
        assert run.config == reader.runs.entry(1).config
        assert run.config[LEFT_OUT].startswith("300 settings (") and run.config[LEFT_OUT].endswith(
            "; python -m engine show ID --json prints all"
        )
        assert reader.runs.config(1) == giant


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": 12', '{"a": 1, "b": "cut', '{"a": 1, "b"', '{"a": 1, "b": [1, ', '{"a": 1', "{"]
)
def test_of_the_beginning_of_a_config_only_whole_settings_are_taken(text: str) -> None:
    from engine.store.schema.config_text import _begin_of

    assert _begin_of(text) in ({"a": 1}, {})


def test_moving_a_config_that_is_short_changes_nothing(store: Store) -> None:
    run_id = imported(store, {"a": 1})
    with store.db.change() as connection:
        move_out(connection, run_id)
        assert connection.execute("SELECT count(*) FROM long_configs").fetchone()[0] == 0
    assert store.read.runs.one(run_id).config == {"a": 1}
