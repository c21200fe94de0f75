"""What a kept file is, judged by its bytes, and the part of it that a page may show. Torch-free.

Nothing here decodes a picture: its size is read from its header, and a browser gets only small ones. SVG and HTML are
text like any other.
"""

import csv
import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

FileKind = Literal["picture", "table", "text", "other"]
LARGEST_PICTURE, MOST_PIXELS = 10_000_000, 25_000_000
"""Bytes and declared pixels of a picture that is shown."""
MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 100, 30, 200
"""Of a table that is shown."""
READ_BYTES, TEXT_BYTES = 2 << 20, 20_000
"""Bytes of a table and of a text that are read to show it."""
TABLES = {".csv": ",", ".tsv": "\t", ".json": "", ".jsonl": "", ".ndjson": ""}
"""Ends of the names of tables, with what separates their cells."""
_HEAD = 4_096
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG that are followed by the picture's size."""


@dataclass(frozen=True)
class FileView:
    """What a file is."""

    kind: FileKind
    media_type: str = "application/octet-stream"
    width: int = 0
    height: int = 0
    why_not: str = ""
    """Why a picture is not shown; empty if it may be."""


@dataclass(frozen=True)
class FileTable:
    """The first rows of a table, each cell as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_whole: bool
    """Whether it has no further rows or columns."""


def view_of(path: Path, name: str) -> FileView:
    """Return what the content at `path` is under that name; `other` if it is missing."""
    try:
        return _view_of(path, name)
    except OSError:
        return FileView("other")


@lru_cache(maxsize=2_000)
def _view_of(path: Path, name: str) -> FileView:
    """Return what content is, which never changes; raises OSError."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        size = _png_size(head) or _jpeg_size(head, file)
        bytes_ = path.stat().st_size
    if size:
        kind = "image/png" if head.startswith(_PNG) else "image/jpeg"
        return FileView("picture", kind, *size, _why_not(*size, bytes_))
    if not _is_text(head):
        return FileView("other")
    return FileView("table" if Path(name).suffix.lower() in TABLES else "text")


def table_in(path: Path, name: str) -> FileTable | None:
    """Return the first rows of a table; None for what is no table."""
    with path.open("rb") as file:
        data = file.read(READ_BYTES + 1)
    is_whole = len(data) <= READ_BYTES
    text = data[:READ_BYTES].decode("utf-8-sig", "replace")
    suffix = Path(name).suffix.lower()
    if not is_whole:
        text = text[: text.rfind("\n") + 1]
    try:
        if suffix == ".json":
            found = _rows_of_json(json.loads(text)) if is_whole else None
        elif TABLES[suffix]:
            found = _rows_of_text(text, TABLES[suffix])
        else:
            lines = islice((line for line in text.splitlines() if line.strip()), MOST_ROWS + 1)
            found = _rows_of_json([json.loads(line) for line in lines])
    except (ValueError, RecursionError, csv.Error):
        return None
    if not found or not found[0]:
        return None
    columns, rows = found
    is_whole = is_whole and len(rows) <= MOST_ROWS and len(columns) <= MOST_COLUMNS
    cut = [[_cell(each) for each in row[:MOST_COLUMNS]] for row in rows[:MOST_ROWS]]
    width = min(len(columns), MOST_COLUMNS)
    return FileTable(
        [_cell(each) for each in columns[:MOST_COLUMNS]], [[*row, *[""] * (width - len(row))] for row in cut], is_whole
    )


def text_in(path: Path) -> tuple[str, bool]:
    """Return the begin of a text, and whether that is all."""
    with path.open("rb") as file:
        data = file.read(TEXT_BYTES + 1)
    return data[:TEXT_BYTES].decode("utf-8", "replace"), len(data) <= TEXT_BYTES


def _why_not(width: int, height: int, bytes_: int) -> str:
    if bytes_ > LARGEST_PICTURE:
        return f"it has more than {LARGEST_PICTURE / 1e6:g} MB"
    if width * height > MOST_PIXELS:
        return f"it declares {width:,} × {height:,} pixels, more than {MOST_PIXELS / 1e6:g} million"
    return "" if width and height else "it has no pixels"


def _png_size(head: bytes) -> tuple[int, int] | None:
    if not head.startswith(_PNG) or head[12:16] != b"IHDR" or len(head) < 24:
        return None
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def _jpeg_size(head: bytes, file: IO[bytes]) -> tuple[int, int] | None:
    """Return the size that a JPEG declares; the file is read no further than that."""
    if not head.startswith(_JPEG):
        return None
    at = 2
    for _ in range(1_000):
        file.seek(at)
        segment = file.read(9)
        if len(segment) < 9 or segment[0] != 0xFF:
            return None
        if segment[1] in _SIZES:
            height, width = struct.unpack(">HH", segment[5:9])
            return width, height
        at += 1 if segment[1] == 0xFF else 2 + int.from_bytes(segment[2:4], "big")
    return None


def _is_text(head: bytes) -> bool:
    if not head or b"\0" in head:
        return False
    try:
        head[: -4 if len(head) == _HEAD else None].decode("utf-8")
    except UnicodeDecodeError as error:
        return len(head) == _HEAD and error.start >= _HEAD - 8
    return True


def _rows_of_text(text: str, separator: str) -> tuple[list[str], list[list[str]]]:
    rows = [row for row in islice(csv.reader(io.StringIO(text), delimiter=separator), MOST_ROWS + 2) if row]
    return (rows[0], rows[1:]) if rows else ([], [])


def _rows_of_json(found: Any) -> tuple[list[str], list[list[Any]]]:
    """Return heading and rows of a list of objects or lists, an object of columns, or an object of single values."""
    if isinstance(found, Mapping) and isinstance(found.get("columns"), list) and isinstance(found.get("data"), list):
        return [str(each) for each in found["columns"]], [row for row in found["data"] if isinstance(row, list)]
    if isinstance(found, Mapping) and found and all(isinstance(column, list) for column in found.values()):
        long = max(map(len, found.values()))
        filled = [column + [""] * (long - len(column)) for column in found.values()]
        return [*map(str, found)], [list(row) for row in islice(zip(*filled, strict=True), MOST_ROWS + 1)]
    if isinstance(found, Mapping):
        return ["name", "value"], [[name, value] for name, value in found.items()]
    if not isinstance(found, list) or not found:
        return [], []
    rows = found[: MOST_ROWS + 1]
    if all(isinstance(row, Mapping) for row in rows):
        columns = list(dict.fromkeys(str(name) for row in rows for name in row))
        return columns, [[row.get(name, "") for name in columns] for row in rows]
    if all(isinstance(row, list) for row in rows):
        return [str(place + 1) for place in range(max(map(len, rows)))], rows
    return ["value"], [[each] for each in rows]


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"
