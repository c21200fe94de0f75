"""docs/schema.md says what the tables are, in words for every column."""

import re
from typing import Any

import pytest

from engine.store import Store
from engine.store.document import PAGE, page
from engine.store.schema import LATER, steps


def test_the_schema_page_is_the_schema() -> None:
    assert PAGE.read_text() == page(), "Run `python -m engine.store.document` and read the difference."


def test_every_table_and_column_of_a_real_store_has_words(store: Store) -> None:
    found = {
        row[0]: [column["name"] for column in store.rows(f"PRAGMA table_info({row[0]})")]
        for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    parts = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## )", page(), re.S | re.M))
    assert set(parts) == {name for name in found if "sqlite_" not in name}
    for table, part in parts.items():
        rows = re.findall(r"^\| (\w+) \| `(.+)` \| (.+) \|$", part, re.M)
        assert [name for name, _, words in rows if words.strip()] == found[table]


def test_the_first_schema_holds_what_later_pages_need(store: Store) -> None:
    tables = {row[0] for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"metrics", "points", "phases", "spans", "histograms", "progress", "logs", "machine_metrics", "sweeps", "tags", "notes"} <= tables


def test_a_later_step_needs_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_migrations", list(steps._migrations))

    @steps()
    def later_step(db: Any) -> None:
        db.execute("ALTER TABLE ranks ADD COLUMN node TEXT")

    with pytest.raises(KeyError, match=r"ranks\.node"):
        page()
    monkeypatch.setitem(LATER, "ranks.node", "the machine it runs on")
    assert "| node | `TEXT` | the machine it runs on |" in page()
