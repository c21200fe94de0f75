"""Commands of the lab's own scripts: each is stored once, and its runs and sweeps refer to it."""

import json
from functools import lru_cache
from hashlib import sha256

from engine.script.command import Command
from engine.store.connection import Row, WriteConnection
from engine.store.timestamps import now


def command_of(table: str) -> str:
    """Return the columns of a query that `as_command` reads, for rows of `runs` or `sweeps`."""
    return f"(SELECT spec FROM commands WHERE commands.id = {table}.command_id) AS command_spec"


def as_command(row: Row) -> Command | None:
    """Return the command of a row, None if it has none."""
    return None if row["command_spec"] is None else _parsed(row["command_spec"])


@lru_cache(maxsize=64)
def _parsed(spec: str) -> Command:
    return Command.of(json.loads(spec))


def keep_command(db: WriteConnection, command: Command | None) -> int | None:
    """Store a command, within a change, unless it is there, and return its number; None for none."""
    if command is None:
        return None
    spec = json.dumps(command.plain(), sort_keys=True)
    digest = sha256(spec.encode()).hexdigest()
    if found := db.row("SELECT id FROM commands WHERE digest = ?", [digest]):
        return int(found["id"])
    ranked = {"result": command.result, "better": command.better}
    return db.insert("commands", {"digest": digest, "spec": spec, **ranked, "created_at": now()})
