"""The table of runs as a data frame, for downloads and reports; baselines at the top, with differences to them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pandas as pd

from app.core.formatting import moment
from app.runs.columns import Column
from app.runs.rows import Numbers, TableRow, differing
from engine.analysis.statistics.intervals import MeanDifference, difference_of_means
from engine.store.records import is_complete
from engine.store.runs.details import Text
from engine.transfer.tables import headed

Words = Mapping[str, Mapping[int, Text]]
"""By column and run."""
SD, DIFFERENCE = " sd", " difference"
_LAST = ("sweep", "tags")
_OPTIONAL = ("marks", "differs", "sweep", "tags", "progress", "status")


def table(
    rows: Sequence[TableRow],
    columns: Sequence[Column],
    numbers: Numbers,
    *,
    words: Words = MappingProxyType({}),
    spread: bool = False,
    baselines: Mapping[str, TableRow] | None = None,
    disturbed: Collection[int] = (),
) -> pd.DataFrame:
    """Return the rows as a data frame; arguments as of `cells_of`."""
    cells = cells_of(rows, columns, numbers, words=words, spread=spread, baselines=baselines, disturbed=disturbed)
    plain = [
        {name: each.mean if isinstance(each, MeanDifference) else each for name, each in row.items()} for row in cells
    ]
    return pd.DataFrame(plain, dtype=object)


def headings(columns: Sequence[Column]) -> dict[str, str]:
    """Return the names of columns in files, which have the unit, by their names in the table."""
    return {
        column.written + part: headed(column.written + part, "points" if part and column.unit == "%" else column.unit)
        for column in columns
        for part in ("", SD, DIFFERENCE)
    }


def cells_of(
    rows: Sequence[TableRow],
    columns: Sequence[Column],
    numbers: Numbers,
    *,
    words: Words = MappingProxyType({}),
    spread: bool = False,
    baselines: Mapping[str, TableRow] | None = None,
    disturbed: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Return the cells of each row by column. With `spread`, each number is a mean with its sd; with `baselines` (by
    experiment), each has its difference to the baseline, a MeanDifference.

    `words` has the text values; `disturbed` are the runs that no mean of times counts, and to whose times there is no
    difference. A fixed column that was also selected appears at its selected position.
    """
    rows = [
        replace(row, cells=_with_differences(row.cells, said)) for row, said in zip(rows, differing(rows), strict=True)
    ]
    chosen = {column.written for column in columns}
    fixed = [name for name in _worth_showing(rows) if name not in chosen]
    return [
        {name: row.cells.get(name) for name in fixed if name not in _LAST}
        | _chosen(
            row,
            columns,
            numbers,
            words,
            spread,
            (baselines or {}).get(row.experiment),
            baselines is not None,
            disturbed,
        )
        | {name: row.cells.get(name) for name in fixed if name in _LAST}
        for row in rows
    ]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return math.fsum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def _chosen(
    row: TableRow,
    columns: Sequence[Column],
    numbers: Numbers,
    words: Words,
    spread: bool,
    baseline: TableRow | None,
    compared: bool,
    disturbed: Collection[int],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in columns:
        if column.is_words:
            said = words.get(column.written, {})
            found[column.written] = value_of(
                column,
                [said[run_id] for run_id in row.run_ids if run_id in said],
                of_several=spread or row.fold is not None,
            )
            continue
        if column.is_setting:
            value = row.config.get(column.field.name)
            found[column.written] = value if isinstance(value, int | float | None) else str(value)
            continue
        apart = disturbed if column.is_timed else ()
        values = row.values(column, numbers, but=apart if len(row.counted) > 1 else ())
        found[column.written] = mean(values)
        if spread:
            found[column.written + SD] = deviation(values)
        if compared:
            is_part = column.written == "duration" and row.run is not None and not is_complete(row.run)
            is_own = is_part or baseline is None or baseline.run_ids == row.run_ids
            theirs = [] if baseline is None or is_own else baseline.values(column, numbers, but=apart)
            found[column.written + DIFFERENCE] = difference_of_means(values, theirs) if values and theirs else None
    return found


def _worth_showing(rows: Sequence[TableRow]) -> list[str]:
    """Return the fixed columns except those that are empty in all rows."""
    names = dict.fromkeys(name for row in rows for name in row.cells)
    return [name for name in names if name not in _OPTIONAL or any(row.cells.get(name) for row in rows)]


def _with_differences(cells: Mapping[str, Any], words: str) -> dict[str, Any]:
    """Return the cells with the differing settings right after the title."""
    found: dict[str, Any] = {}
    for name, value in cells.items():
        found |= {name: value, "differs": words} if name == "title" else {name: value}
    return found


# ------------------------------------------------------------------------------------------------------------------
# Text columns of the table of runs: text, tags, times, flags and ids, of one run or of all runs behind a row.

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
