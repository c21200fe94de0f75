"""Tables as files: what is shown comes back, and no text of a person is carried out by a spreadsheet."""

import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import strategies as some
from pyarrow import parquet

from engine.transfer.tables import FORMULA, Table, as_csv, as_json, as_parquet
from tests.inputs import drawn

TABLE = Table.of(
    ["run", "name", "loss", "tags", "loss"], [[1, "=1+1", 0.5, ["a", "b"], math.nan], [2, None, None, [], -math.inf]]
)


def test_tables_keep_kinds_and_names_in_each_format() -> None:
    rows = list(csv.reader(io.StringIO(as_csv(TABLE).decode("utf-8-sig"))))
    assert rows == [
        ["run", "name", "loss", "tags", "loss (2)"],
        ["1", "'=1+1", "0.5", "a, b", "nan"],
        ["2", "", "", "", "-inf"],
    ]
    assert as_csv(Table(("value",), [[-1.5]])).decode("utf-8-sig") == "value\n-1.5\n"
    first, second = json.loads(as_json(TABLE))
    assert first == {"run": 1, "name": "=1+1", "loss": 0.5, "tags": ["a", "b"], "loss (2)": "NaN"}
    assert second["loss"] is None and second["loss (2)"] == "-Infinity"
    assert TABLE.columns == ("run", "name", "loss", "tags", "loss (2)")
    found = parquet.read_table(io.BytesIO(as_parquet(TABLE)))
    assert [str(kind) for kind in found.schema.types] == [
        "int64",
        "string",
        "double",
        "list<element: string>",
        "double",
    ]
    assert found.column("loss").to_pylist() == [0.5, None]
    assert found.column("name").to_pylist() == ["=1+1", None]


CELLS = some.one_of(
    some.none(), some.booleans(), some.integers(), some.floats(), some.text(), some.lists(some.text(), max_size=2)
)


@drawn(
    rows=some.lists(some.lists(CELLS, min_size=3, max_size=3), max_size=5),
    names=some.lists(some.text(), min_size=3, max_size=3),
)
def test_any_table_becomes_any_kind_of_file(rows: list[list[Any]], names: list[str]) -> None:
    table = Table.of(names, rows)
    assert len(json.loads(as_json(table))) == len(rows)
    assert parquet.read_table(io.BytesIO(as_parquet(table))).num_rows == len(rows)
    read = list(csv.reader(io.StringIO(as_csv(table).decode("utf-8-sig"), newline="")))
    assert len(read) == len(rows) + 1


@drawn(text=some.text(max_size=8))
def test_no_text_begins_like_a_formula_in_csv(text: str) -> None:
    (_, [cell]) = csv.reader(io.StringIO(as_csv(Table(("text",), [[f"{text}x"]])).decode("utf-8-sig"), newline=""))
    assert not cell.startswith(FORMULA)
    assert cell.removeprefix("'") == f"{text}x".replace("\r\n", "\n").replace("\r", "\n").removeprefix("'")


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\uff1d1", "\r=1"])
def test_what_spreadsheets_carry_out_gets_an_apostrophe(text: str) -> None:
    assert as_csv(Table(("text",), [[text]])).decode("utf-8-sig").split("\n", 1)[1].lstrip('"').startswith("'")
