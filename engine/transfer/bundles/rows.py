"""The rows of a bundle: one JSON list per line, each value validated before it reaches the store."""

import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import IO, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import ImportRefused, counted
from engine.store.imports.bundle_tables import TableRows
from engine.store.records import ENDED
from engine.transfer.archives import Members, opened, read
from engine.transfer.import_bounds import LONGEST_METRIC, LONGEST_TAG, MOST_CONFIG_BYTES, MOST_SETTINGS

# ---- The manifest of a bundle: format, version and contents of each member -----------------------------------------

NAME = "parallab.json"
FORMAT: Literal["parallab bundle"] = "parallab bundle"
VERSION = 2
"""Bundles contain sweeps since version 2."""
MOST_BYTES = 16 << 20
_DIGEST = r"^[0-9a-f]{64}$"


class Sheet(BaseModel):
    """One table of the bundle: `<table>.jsonl`, one JSON list per row."""

    model_config = ConfigDict(extra="ignore")
    columns: tuple[str, ...] = Field(max_length=100)
    rows: int = Field(ge=0)
    sha256: str = Field(pattern=_DIGEST)


class Log(BaseModel):
    """One log of the bundle: the member with its text."""

    model_config = ConfigDict(extra="ignore")
    run_id: int
    source: str = Field(pattern=r"^\w([\w .-]{0,78}[\w.-])?$")
    member: str = Field(pattern=r"^logs/\d{1,9}\.txt$")
    sha256: str = Field(pattern=_DIGEST)


class Manifest(BaseModel):
    """Description of a bundle."""

    model_config = ConfigDict(extra="ignore")
    format: Literal["parallab bundle"] = FORMAT
    version: int = VERSION
    parallab: str = ""
    made_at: str = ""
    made_by: str = ""
    host: str = ""
    tables: dict[str, Sheet]
    logs: tuple[Log, ...] = ()


def manifest_of(source: Members) -> Manifest:
    """Return a bundle's manifest; raises ImportRefused if it is invalid or newer than this code."""
    try:
        found = json.loads(read(source, NAME, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise _damaged(f"{NAME} is not valid JSON") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _damaged(f"{NAME} doesn't have the format {FORMAT}")
    if not isinstance(version := found.get("version"), int) or version < 1:
        raise _damaged(f"{NAME} has no version")
    if version > VERSION:
        raise ImportRefused(
            f"The bundle has version {version}; this Parallab supports up to version {VERSION}. Update "
            "Parallab, then import it again."
        )
    try:
        return Manifest.model_validate(found)
    except (ValidationError, RecursionError) as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else "it"
        raise _damaged(f"{NAME} is invalid at {where}") from error


def _damaged(what: str) -> ImportRefused:
    return ImportRefused(f"The bundle is damaged or was edited: {what}. Export it again.")


# ---- Rows ----------------------------------------------------------------------------------------------------------

LONGEST_LINE = 8 << 20
LONGEST: dict[str, int] = {
    "owner": 200,
    "name": LONGEST_METRIC,
    "experiment": 200,
    "preset": 200,
    "tag": LONGEST_TAG,
    "text": 20_000,
    "author": 200,
    "who": 200,
    "role": 200,
}
"""Maximum length of texts that lists show, by column."""
LONGEST_TEXT = 20_000
"""Maximum length of other texts, except JSON objects and error details (`error`)."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_JSON_OBJECTS = ("config", "environment", "grid", "command")


class DigestWriter:
    """A file wrapper that computes the digest of everything written or read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, sha256()

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)


def write_sheet(part: TableRows, file: IO[bytes]) -> Sheet:
    """Write a table's rows and return their manifest entry."""
    into, rows = DigestWriter(file), 0
    for row in part.rows:
        into.write(
            json.dumps(list(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
                "utf-8", "backslashreplace"
            )
            + b"\n"
        )
        rows += 1
    return Sheet(columns=part.columns, rows=rows, sha256=into.digest.hexdigest())


def check_digest(source: Members, name: str, expected: str) -> None:
    """Raise ImportRefused for a missing or modified member."""
    if name not in source.names:
        raise ImportRefused(f"The bundle is incomplete: member '{name}' is missing. Copy or download it again.")
    digest = sha256()
    with opened(source, name) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != expected:
        raise ImportRefused(
            f"The bundle is damaged: the checksum of member '{name}' doesn't match. Copy or download it again."
        )


def read_sheet(source: Members, table: str, sheet: Sheet) -> TableRows:
    """Return a table of the bundle; its rows are read and validated one by one."""
    if len(set(sheet.columns)) < len(sheet.columns):
        raise refusal(table, 0, "duplicate column")
    return TableRows(table, sheet.columns, _rows(source, table, sheet))


def _rows(source: Members, table: str, sheet: Sheet) -> Iterator[Sequence[Any]]:
    checks = [(place, check) for place, name in enumerate(sheet.columns) if (check := _check_of(name))]
    with opened(source, f"{table}.jsonl") as file:
        lines = io.BufferedReader(file)  # type: ignore[type-var]
        number = 0
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            row = _row(line, table, number, len(sheet.columns))
            if len(line) > LONGEST_TEXT and (wrong := _too_long(sheet.columns, row)):
                raise refusal(table, number, wrong)
            for place, check in checks:
                if row[place] is not None and (wrong := check(row[place])):
                    raise refusal(table, number, f"{sheet.columns[place]} {wrong}")
            yield row
    if number != sheet.rows:
        raise refusal(table, number, f"the table has {counted(number, 'row')} instead of {sheet.rows:,}")


def _row(line: bytes, table: str, number: int, width: int) -> list[Any]:
    if len(line) > LONGEST_LINE:
        raise refusal(table, number, f"the row is longer than {LONGEST_LINE:,} bytes")
    try:
        row = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise refusal(table, number, "the row is not valid JSON") from error
    if not isinstance(row, list) or len(row) != width:
        raise refusal(table, number, f"the row is not a list of {width} values")
    for value in row:
        if (
            isinstance(value, dict | list | bool)
            or (isinstance(value, float) and not math.isfinite(value))
            or (type(value) is int and abs(value) >= 2**63)
        ):
            raise refusal(table, number, "a value is neither text nor a supported number")
    return row


def _too_long(columns: Sequence[str], row: Sequence[Any]) -> str:
    """Return the error for a too long text in a row, empty if there is none."""
    for column, value in zip(columns, row, strict=True):
        most = MOST_CONFIG_BYTES if column in (*_JSON_OBJECTS, "error") else LONGEST_TEXT
        if isinstance(value, str) and len(value) > most:
            return f"{column} has {len(value):,} characters; at most {most:,} can be imported"
    return ""


def _check_of(column: str) -> Callable[[Any], str] | None:
    """Return a function that returns the error in a column's value, empty if valid."""
    if column == "at" or column.endswith("_at"):
        return lambda value: "" if _is_moment(value) else "is not a time such as 2026-01-31T12:00:00.000Z"
    if column in _JSON_OBJECTS:
        return _wrong_object
    if column == "core_ids":
        return lambda value: (
            ""
            if isinstance(found := _parsed(value), list) and all(type(each) is int for each in found)
            else "is not a list of numbers"
        )
    if column == "status":
        return lambda value: "" if value in ENDED else f"is '{value}', but a bundle holds only runs that have ended"
    if column in LONGEST:
        return lambda value: (
            ""
            if isinstance(value, str) and len(value) <= LONGEST[column]
            else f"is not a text of at most {LONGEST[column]:,} characters"
        )
    return None


def _wrong_object(value: object) -> str:
    found = _parsed(value)
    if not isinstance(found, dict):
        return "is not a JSON object"
    return (
        f"has {len(found):,} entries; at most {MOST_SETTINGS:,} can be imported with a run"
        if len(found) > MOST_SETTINGS
        else ""
    )


def _is_moment(value: object) -> bool:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _parsed(value: object) -> object:
    try:
        return json.loads(value, parse_constant=_no_number) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def refusal(table: str, number: int, what: str) -> ImportRefused:
    """Return the error for a row of a bundle."""
    return ImportRefused(
        f"The bundle is damaged or was edited: table '{table}', row {number:,}: {what}. Export it again."
    )
