"""Text columns of the table of runs: text, tags, times, flags and ids, of one run or of all runs behind a row."""

from collections.abc import Sequence
from datetime import datetime

from app.core.formatting import moment
from app.runs.columns import Column
from engine.store.runs.details import Text

MOST = 3
"""Maximum number of different texts in one cell."""


def value_of(column: Column, said: Sequence[Text], *, of_several: bool) -> datetime | bool | int | str | None:
    """Return the cell value: the latest time, a flag if all agree, else each text once; None if no run has a value."""
    if not said:
        return None
    if column.field.kind == "time":
        return moment(str(max(said)))
    if column.field.kind == "flag":
        return bool(said[0]) if len(set(said)) == 1 else None
    if column.field.kind == "number" and not of_several:
        return int(said[0])
    found = list(dict.fromkeys(map(str, said)))
    return ", ".join(found[:MOST]) + (", …" if len(found) > MOST else "")
