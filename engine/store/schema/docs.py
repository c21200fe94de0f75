"""Write docs/schema.md from the tables: run `python -m engine.store.schema.docs` after each change of the schema."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from engine.home import ROOT
from engine.store.schema.first_tables import TABLES
from engine.store.schema.later_tables import LATER, LATER_TABLES, RENAMED
from engine.store.schema.migrations import steps
from engine.store.schema.sqlite_library import apply

PAGE = ROOT / "docs" / "schema.md"

_HEAD = """# Schema

This page describes the tables of the store.

The store is one SQLite file, `parallab.db`, in write-ahead mode. Times are UTC texts in ISO 8601 with milliseconds
and a Z.
Only `engine/store` accesses it; other code uses its records (`engine/store/records.py`). The schema is a list of
steps ({steps}); a store with an unknown step is refused.

`python -m engine.store.schema.docs` writes this page from the tables, and a test compares them.
"""


@dataclass(frozen=True)
class ColumnDoc:
    """Description of one column of a table, or (without a name) of a constraint."""

    name: str
    kind: str
    words: str


def page() -> str:
    """Return the content of docs/schema.md for this version; raises KeyError for a column without a description."""
    with closing(sqlite3.connect(":memory:")) as connection:
        apply(steps, connection)
        tables = [
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*sqlite_*' ORDER BY name"
            )
        ]
        parts = [_table(connection, name) for name in tables]
        extras = (
            "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND tbl_name NOT "
            "GLOB '*sqlite_*' ORDER BY name"
        )
        rules = [f"{row[0]};" for row in connection.execute(extras)]
    names = ", ".join(f"`{name}`" for name in steps.by_name)
    return "\n".join([_HEAD.format(steps=names), *parts, "## Indexes and rules\n", "```sql", *rules, "```", ""])


def _table(connection: sqlite3.Connection, name: str) -> str:
    """Return the section of one table: its actual columns, with the descriptions of the steps that created them."""
    first_name = RENAMED.get(name, name)
    sql = next(text for text in (*TABLES, *LATER_TABLES) if text.startswith(f"CREATE TABLE {first_name} "))
    first, last = sql.splitlines()[0], sql.splitlines()[-1]
    said = {line.name: line for line in _lines(sql)}
    columns = [
        ColumnDoc(column, said[column].kind, LATER.get(f"{name}.{column}", said[column].words))
        if column in said
        else ColumnDoc(column, kind, LATER[f"{name}.{column}"])
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({name})")
    ]
    facts = "; ".join([*(line.kind for line in _lines(sql) if not line.name), last.strip(") ")])
    words = first.partition("--")[2].strip()
    rows = [f"| {line.name} | `{line.kind}` | {line.words} |" for line in columns]
    return "\n".join(
        [
            f"## {name}\n",
            f"{words[:1].upper()}{words[1:]}. (`{facts}`)\n",
            "| Column | Type | Content |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _lines(sql: str) -> Iterator[ColumnDoc]:
    """Yield the descriptions in the lines of a CREATE TABLE."""
    for line in sql.splitlines()[1:-1]:
        code, _, words = line.partition("--")
        code = code.strip().rstrip(",")
        found = re.fullmatch(r"([a-z]\w*) (.+)", code)
        yield ColumnDoc(found[1], found[2], words.strip()) if found else ColumnDoc("", code, "")


if __name__ == "__main__":
    PAGE.write_text(page())
