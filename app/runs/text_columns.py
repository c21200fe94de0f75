"""Columns of the results table that hold words: texts, tags, times, flags and ids, of one run or of all runs that a row
stands for.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import streamlit as st

from app.core.formatting import moment
from app.runs.columns import Column
from engine.store.runs.fields import Text

MOST = 3
"""Of more different texts than these in one cell the rest are left out."""
WIDE = ("cause", "note", "name")


def value_of(column: Column, said: Sequence[Text], *, of_several: bool) -> datetime | bool | int | str | None:
    """Return what stands in a cell: the newest time, a flag where all agree, else each text once; None where no run has
    any.
    """
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


def shown_as(column: Column, *, of_several: bool) -> Any:
    """Return how the table shows the column."""
    kind, several = column.field.kind, " Of several runs: " if of_several else ""
    if kind == "time":
        return st.column_config.DatetimeColumn(
            column.label, format="distance", width=120, help=column.help + (several and f"{several}the newest.")
        )
    if kind == "flag":
        return st.column_config.CheckboxColumn(
            column.label, help=column.help + (several and f"{several}empty where they differ.")
        )
    if kind == "number" and not of_several:
        return st.column_config.NumberColumn(column.label, format="%d", width=70, help=column.help)
    width = 240 if column.field.name in WIDE else 120
    return st.column_config.TextColumn(
        column.label, width=width, help=column.help + (several and f"{several}each once.")
    )
