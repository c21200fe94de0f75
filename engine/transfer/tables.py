"""Tables as CSV, JSON or Parquet: the only place that writes CSV.

User text may start like a formula; in CSV such text gets a leading apostrophe, so that spreadsheets don't evaluate it.
"""

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

from engine.errors import OutputFailed

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula in spreadsheets, in both widths."""
BOM = "\ufeff"
"""Begins a CSV file: without it, Excel reads UTF-8 as the code page of its country."""


@dataclass(frozen=True)
class Table:
    """Rows with named columns; a cell is a number, text, boolean or date, a list of these, or None if empty."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> "Table":
        """Return the table with duplicate column names numbered: a, a (2)."""
        named: list[str] = []
        for name in columns:
            alike = sum(other == name or other.startswith(f"{name} (") for other in named)
            named.append(name if name not in named else f"{name} ({alike + 1})")
        return cls(tuple(named), [list(row) for row in rows])


@dataclass(frozen=True)
class Format:
    """One export format."""

    label: str
    suffix: str
    mime: str
    write: Callable[[Table], bytes]


@contextmanager
def complete_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that a person named, under a temporary name until it is complete; a device or pipe directly. Raises
    OutputFailed if it can't be written.
    """
    part = path
    try:
        if not path.exists() or path.is_file():
            part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            yield file
            file.flush()
            if part != path:
                os.fsync(file.fileno())
        if part != path:
            part.replace(path)
    except OSError as error:
        if error.filename not in (None, str(part)):
            raise
        sentence = (
            f"{path} can't be written: {error.strerror or error}. Choose another file, or free space on its disk."
        )
        raise OutputFailed(sentence) from error
    finally:
        if part != path:
            with suppress(OSError):
                part.unlink()


def safe_cell(value: Any) -> Any:
    """Return a CSV cell: text that a spreadsheet would evaluate gets a leading apostrophe; numbers are unchanged."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, Mapping):
        value = json.dumps(plain(value), ensure_ascii=False)
    elif isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        return value
    value = value.replace("\r\n", "\n").replace(
        "\r", "\n"
    )  # Python's writer doesn't quote a bare \r, after which a formula could start a line
    return f"'{value}" if value.startswith(FORMULA) else value


def headed(name: str, unit: str) -> str:
    """Return a column's name with its unit: `test/accuracy.best (%)`; a name that ends in its unit keeps it."""
    return f"{name} ({unit})" if unit and not name.endswith(f"_{unit}") else name


def write_csv(columns: Iterable[str], rows: Iterable[Sequence[Any]], file: IO[str]) -> int:
    """Write CSV with a header and return the number of rows; NaN and infinities are nan, inf and -inf, None is an empty
    cell.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(safe_cell, columns))
    count = 0
    for row in rows:
        writer.writerow(map(safe_cell, row))
        count += 1
    return count


def as_csv(table: Table) -> bytes:
    """Return the table as a CSV file in UTF-8 that spreadsheets recognise (`BOM`)."""
    file = io.StringIO(newline="")
    write_csv(table.columns, table.rows, file)
    return _utf8(BOM + file.getvalue())


def as_json(table: Table) -> bytes:
    """Return the table as a JSON list of objects; NaN and infinities as strings "NaN", "Infinity" and "-Infinity"."""
    rows = [dict(zip(table.columns, map(plain, row), strict=True)) for row in table.rows]
    return _utf8(json.dumps(rows, allow_nan=False, ensure_ascii=False, indent=1) + "\n")


def as_parquet(table: Table) -> bytes:
    """Return the table as Parquet; columns of mixed types become text."""
    import pyarrow  # slow to import (0.2 s), so only on use
    from pyarrow import parquet

    cells = [_column([row[place] for row in table.rows]) for place in range(len(table.columns))]
    file = io.BytesIO()
    parquet.write_table(
        pyarrow.table([pyarrow.array(each, from_pandas=False) for each in cells], names=list(table.columns)), file
    )
    return file.getvalue()


FORMATS = {
    "csv": Format("CSV", ".csv", "text/csv", as_csv),
    "json": Format("JSON", ".json", "application/json", as_json),
    "parquet": Format("Parquet", ".parquet", "application/vnd.apache.parquet", as_parquet),
}


def plain(value: Any) -> Any:
    """Return a cell as a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _column(cells: list[Any]) -> list[Any]:
    """Return a column's cells converted to one type, for Parquet."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float} or (kinds == {int} and any(abs(cell) >= 2**63 for cell in cells if cell is not None)):
        return [None if cell is None else float(cell) for cell in cells]
    if (len(kinds) <= 1 and kinds <= {int, float, bool}) or (kinds and all(issubclass(kind, date) for kind in kinds)):
        return cells
    if kinds and kinds <= {list, tuple}:
        return [None if cell is None else [_text(item) for item in cell] for cell in cells]
    return [None if cell is None else _text(cell) for cell in cells]


def _text(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(plain(value), ensure_ascii=False)
        if isinstance(value, Mapping | list | tuple)
        else str(value)
    )
    return text.encode("utf-8", "backslashreplace").decode()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
