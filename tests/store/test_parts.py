"""The parts of the store: none inherits, each holds the connection, and folders stand in one order."""

import ast
from itertools import combinations
from pathlib import Path

import pytest

from engine.home import ROOT
from engine.store import Reader, Store
from engine.store.schema.migrations import TABLE, steps
from engine.store.schema.sqlite_library import Migrations
from engine.store.schema.upgrade import known

FOLDERS = ("schema", "access", "notices", "runs", "curves", "sweeps", "queue", "imports", "maintenance")
"""The order of the folders: each may import those before it."""


def test_a_part_holds_the_connection_and_inherits_from_nothing(store: Store, reader: Reader) -> None:
    for whole in (store, reader):
        parts = {name: part for name, part in vars(whole).items() if name not in ("db", "read")}
        assert len(parts) > 15
        for part in parts.values():
            assert type(part).__bases__ == (object,)
            assert part.db is whole.db


@pytest.mark.parametrize(("first", "second"), list(combinations(FOLDERS, 2)))
def test_no_folder_imports_a_later_one(first: str, second: str) -> None:
    folder = ROOT / "engine" / "store" / first
    upward = [path.name for path in folder.glob("*.py") if any(_is_of(name, second) for name in _imports(path))]
    assert upward == []


def test_sqlite_utils_records_steps_where_the_schema_looks_for_them() -> None:
    assert Migrations.migrations_table == TABLE, (
        "sqlite-utils has renamed its table of applied steps, which engine/store/schema/upgrade.py reads by name."
    )
    assert next(iter(steps.by_name)) == "first_schema" and set(steps.by_name) == known()


def _is_of(name: str, folder: str) -> bool:
    return name.startswith(f"engine.store.{folder}.")


def _imports(path: Path) -> set[str]:
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in found for alias in node.names}
