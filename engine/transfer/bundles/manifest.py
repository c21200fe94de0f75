"""The manifest of a bundle: format, version and contents of each member."""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import ImportRefused
from engine.transfer.archives import Members, read

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
    source: str = Field(pattern=r"^\w[\w.-]{0,79}$")
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
