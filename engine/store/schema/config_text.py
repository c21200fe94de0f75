"""Storage of long configs: the run's row has a part, a separate table everything.

Queries of many rows (lists, groups, filters) read only the part. Its entry `LEFT_OUT` represents the missing settings,
with a digest of them, so that different configs never appear equal.
"""

import json
import sqlite3
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

MOST_LISTED = 16 << 10
"""Maximum number of characters of a config in a run's row; our own configs have a tenth of that."""
LONGEST_LISTED = 1_000
"""Maximum number of characters of one setting there."""
MOST_WHOLE = 4 << 20
"""Maximum size in bytes of a config that is read with its run; imports of older versions may have longer ones."""
LEFT_OUT = "(left out)"
ALWAYS = "seed"
WHOLE = (
    f"(SELECT CASE WHEN bytes <= {MOST_WHOLE} THEN config END FROM long_configs WHERE long_configs.run_id = runs.id)"
)
"""The complete config of a run; NULL if its row has it, or if it is too long to be read with the run."""
TEXT_BYTES = (
    "(length(CAST(config AS BLOB)) + length(CAST(environment AS BLOB)) + length(CAST(error AS BLOB))"
    " + coalesce((SELECT bytes FROM long_configs WHERE long_configs.run_id = runs.id), 0))"
)
"""Approximate size of a run's texts in the store."""
_PIECE = 1 << 20
_ON_ITS_PAGE = "the run's page and GET /runs/{id} have all"
_BY_COMMAND = "python -m engine show ID --json prints all"


def listed(text: str) -> str:
    """Return the part of a config (JSON) for a run's row: the same text if it is short enough."""
    if len(text) <= MOST_LISTED:
        return text
    config = json.loads(text)
    return _part(
        config, len(config), sha256(json.dumps(_beyond(config), sort_keys=True).encode()).hexdigest(), _ON_ITS_PAGE
    )


def keep_whole(connection: sqlite3.Connection, run_id: int, text: str) -> None:
    """Store a config that exceeds a run's row, within a change; the row may follow later in it."""
    if len(text) > MOST_LISTED:
        connection.execute(
            "INSERT INTO long_configs (run_id, bytes, config) VALUES (?, ?, ?)",
            [run_id, len(text.encode("utf-8", "backslashreplace")), text],
        )


def replace_config(connection: sqlite3.Connection, run_id: int, text: str) -> None:
    """Give a run another config (JSON), within a change."""
    connection.execute("DELETE FROM long_configs WHERE run_id = ?", [run_id])
    connection.execute("UPDATE runs SET config = ? WHERE id = ?", [listed(text), run_id])
    keep_whole(connection, run_id, text)


def move_out(connection: sqlite3.Connection, run_id: int) -> None:
    """Shorten the config in a run's row if it is too long; reads it in pieces."""
    with connection.blobopen("runs", "config", run_id, readonly=True) as held:
        size = len(held)
        if size <= MOST_LISTED:
            return
        begin, digest = held.read(_PIECE), sha256()
        piece = begin
        while piece:
            digest.update(piece)
            piece = held.read(_PIECE)
    connection.execute(
        "INSERT INTO long_configs (run_id, bytes, config) SELECT id, ?, config FROM runs WHERE id = ?", [size, run_id]
    )
    counted = (
        "SELECT count(*) FROM long_configs, json_each(iif(json_valid(long_configs.config), long_configs.config, "
        "'{}')) WHERE run_id = ?"
    )
    (count,) = connection.execute(counted, [run_id]).fetchone()  # SQLite counts no JSON with a NaN, which Python writes
    where = _ON_ITS_PAGE if size <= MOST_WHOLE else _BY_COMMAND
    connection.execute(
        "UPDATE runs SET config = ? WHERE id = ?",
        [_part(_begin_of(begin.decode(errors="ignore")), count, digest.hexdigest(), where), run_id],
    )


def _part(config: Mapping[str, Any], count: int, digest: str, where: str) -> str:
    """Return as JSON the settings that fit a row, and the number of missing ones of `count`."""
    beyond = _beyond(config)
    shown = {name: value for name, value in config.items() if name not in beyond}
    return json.dumps({**shown, LEFT_OUT: f"{max(1, count - len(shown)):,} settings ({digest[:12]}); {where}"})


def _beyond(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that do not fit a row; the seed, which distinguishes the runs of a group, always fits."""
    beyond: dict[str, Any] = {}
    room = MOST_LISTED - 500
    for name in sorted(config, key=lambda name: name != ALWAYS):
        size = len(json.dumps({name: config[name]}))
        if size <= min(room, LONGEST_LISTED):
            room -= size
        else:
            beyond[name] = config[name]
    return beyond


def _begin_of(text: str) -> dict[str, Any]:
    """Return the settings that are complete in the beginning of a JSON object."""
    decoder, found = json.JSONDecoder(), dict[str, Any]()
    at = text.find("{") + 1
    try:
        while True:
            name, at = decoder.raw_decode(text, _next(text, at))
            value, at = decoder.raw_decode(text, _next(text, at))
            if not text[at : at + 1].strip():  # a number may go on behind the end
                return found
            found[name] = value
    except ValueError:
        return found


def _next(text: str, at: int) -> int:
    """Return the start of the next name or value."""
    while at < len(text) and text[at] in " \t\r\n,:":
        at += 1
    return at
