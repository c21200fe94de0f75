"""The results table: one row a run, or a row for all runs of a config; the baseline on top, and differences to it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st

from app.actions.annotations import marks
from app.core.base_path import at
from app.core.formatting import moment
from app.runs.columns import Column
from app.runs.text_columns import shown_as, value_of
from app.ui.widgets import title_of
from engine.config_values import told
from engine.errors import EngineError
from engine.registry import experiment
from engine.store import RunRow
from engine.store.records import ENDED
from engine.store.runs.config_groups import RunGroup
from engine.store.runs.fields import Text

Numbers = Mapping[str, Mapping[int, float]]
"""By column and run."""
Words = Mapping[str, Mapping[int, Text]]
"""Likewise."""
SD, DIFFERENCE = " sd", " difference"


@dataclass(frozen=True)
class TableRow:
    """One row: what it says of its runs, and whose numbers it has."""

    experiment: str
    config: Mapping[str, Any]
    """With the rule that its runs draw by."""
    run_ids: tuple[int, ...]
    counted: tuple[int, ...]
    """The runs whose numbers count: those of a group that finished."""
    cells: Mapping[str, Any] = field(default_factory=dict)

    def values(self, column: Column, numbers: Numbers) -> list[float]:
        """Return the numbers of a column that the row stands for."""
        return [numbers[column.written][run_id] for run_id in self.counted if run_id in numbers[column.written]]


def run_lines(runs: Iterable[RunRow]) -> list[TableRow]:
    """Return a row for each run."""
    return [
        TableRow(run.experiment, {"seeding": run.seeding, **run.config}, (run.id,), (run.id,), _cells(run))
        for run in runs
    ]


def group_lines(groups: Iterable[RunGroup]) -> list[TableRow]:
    """Return a row for each group of runs that draw by one rule and differ in the seed alone."""
    return [
        TableRow(
            group.experiment,
            {"seeding": group.seeding, **group.config},
            group.run_ids,
            group.finished,
            _group_cells(group),
        )
        for group in groups
    ]


def differing(lines: Sequence[TableRow]) -> list[str]:
    """Return for each row its values of the settings that the rows of its experiment differ in, the seed apart."""
    seen: dict[str, dict[str, set[str]]] = {}
    for line in lines:
        for name, value in line.config.items():
            seen.setdefault(line.experiment, {}).setdefault(name, set()).add(repr(value))
    vary = {
        one: [name for name, values in fields.items() if len(values) > 1 and name != "seed"]
        for one, fields in seen.items()
    }
    return [_few({name: line.config.get(name) for name in vary.get(line.experiment, ())}) for line in lines]


def _few(values: Mapping[str, Any]) -> str:
    names = list(values)[:MOST_DIFFERING]
    return told({name: values[name] for name in names}) + (", …" if len(values) > MOST_DIFFERING else "")


def table(
    lines: Sequence[TableRow],
    columns: Sequence[Column],
    numbers: Numbers,
    *,
    words: Words = MappingProxyType({}),
    spread: bool = False,
    baselines: Mapping[str, TableRow] | None = None,
) -> pd.DataFrame:
    """Return the rows; with `spread` each number is a mean with its sd, with `baselines` (by experiment) it has its
    difference to them beside it.

    `words` has what is no number; a column that is always there stands where it was chosen to stand.
    """
    lines = [
        replace(line, cells=_with_differences(line.cells, said))
        for line, said in zip(lines, differing(lines), strict=True)
    ]
    chosen = {column.written for column in columns}
    fixed = [name for name in _worth_showing(lines) if name not in chosen]
    return pd.DataFrame(
        [
            {name: line.cells.get(name) for name in fixed if name not in _LAST}
            | _chosen(
                line, columns, numbers, words, spread, (baselines or {}).get(line.experiment), baselines is not None
            )
            | {name: line.cells.get(name) for name in fixed if name in _LAST}
            for line in lines
        ]
    )


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values."""
    return math.fsum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None of fewer than two values."""
    if len(values) < 2:
        return None
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def columns_shown(columns: Sequence[Column], *, spread: bool = False) -> dict[str, Any]:
    """Return how each column of the table is shown, which with `spread` has rows that stand for several runs."""
    shown: dict[str, Any] = {
        "run": st.column_config.LinkColumn(
            "Run", width=64, display_text=r"run=(\d+)$", pinned=True, help="Opens the run."
        ),
        "n": st.column_config.NumberColumn(
            "n", width=48, help="Runs that finished: their numbers make the means. The sd is the sample's."
        ),
        "runs": st.column_config.TextColumn("Runs", width=100, help="The numbers of all runs of this config."),
        "marks": st.column_config.TextColumn(
            "Marks", width=90, help="A baseline is what others of its experiment are compared with."
        ),
        "title": st.column_config.TextColumn("What", width=200),
        "differs": st.column_config.TextColumn(
            "Differs in", width=150, help="Settings that the rows of one experiment differ in, apart from the seed."
        ),
        "owner": st.column_config.TextColumn("Owner", width=110),
        "status": st.column_config.TextColumn("Status", width="small"),
        "progress": st.column_config.ProgressColumn(
            "Progress", min_value=0, max_value=1, format="percent", width="small"
        ),
        "launched": st.column_config.DatetimeColumn("Launched", format="distance", width=120),
        "sweep": st.column_config.LinkColumn(
            "Sweep", width=70, display_text=r"sweep=(\d+)$", help="The sweep that the run is part of."
        ),
        "tags": st.column_config.ListColumn("Tags"),
    }
    for column in columns:
        if column.is_words:
            shown[column.written] = shown_as(column, of_several=spread)
        elif not column.is_setting:
            shown[column.written] = st.column_config.NumberColumn(column.label, format="%.5g", help=column.help)
            shown[column.written + SD] = st.column_config.NumberColumn(
                "± sd", format="%.3g", width=70, help="Standard deviation over the runs that finished."
            )
            shown[column.written + DIFFERENCE] = st.column_config.NumberColumn(
                "Δ", format="%+.4g", width=80, help=f"{column.label}: this row less the baseline."
            )
    return shown


_LAST = ("sweep", "tags")
MOST_DIFFERING = 4
MOST_SPANS = 12


def _chosen(
    line: TableRow,
    columns: Sequence[Column],
    numbers: Numbers,
    words: Words,
    spread: bool,
    baseline: TableRow | None,
    compared: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in columns:
        if column.is_words:
            said = words.get(column.written, {})
            found[column.written] = value_of(
                column, [said[run_id] for run_id in line.run_ids if run_id in said], of_several=spread
            )
            continue
        if column.is_setting:
            value = line.config.get(column.field.name)
            found[column.written] = value if isinstance(value, int | float | None) else str(value)
            continue
        values = line.values(column, numbers)
        found[column.written] = own = mean(values)
        if spread:
            found[column.written + SD] = deviation(values)
        if compared:
            is_own = baseline is None or baseline.run_ids == line.run_ids
            theirs = None if baseline is None or is_own else mean(baseline.values(column, numbers))
            found[column.written + DIFFERENCE] = None if own is None or theirs is None else own - theirs
    return found


def _worth_showing(lines: Sequence[TableRow]) -> list[str]:
    """Return the fixed columns, those left out in which no row has anything to say."""
    names = dict.fromkeys(name for line in lines for name in line.cells)
    return [
        name
        for name in names
        if name not in ("marks", "differs", "sweep", "tags", "progress") or any(line.cells.get(name) for line in lines)
    ]


def _with_differences(cells: Mapping[str, Any], words: str) -> dict[str, Any]:
    """Return the cells with what differs right behind the title."""
    found: dict[str, Any] = {}
    for name, value in cells.items():
        found |= {name: value, "differs": words} if name == "title" else {name: value}
    return found


def _cells(run: RunRow) -> dict[str, Any]:
    return {
        "run": at(f"/run?run={run.id}"),
        "marks": ", ".join(marks(run)),
        "title": title_of(run),
        "owner": run.owner,
        "status": run.status,
        "progress": None if run.status in ENDED else run.progress,
        "launched": moment(run.created_at),
        "sweep": at(f"/sweep?sweep={run.sweep_id}") if run.sweep_id else None,
        "tags": list(run.tags),
    }


def _group_cells(group: RunGroup) -> dict[str, Any]:
    try:
        title = experiment(group.experiment).title
    except EngineError:
        title = group.experiment
    return {
        "title": f"{title}, {group.preset}" if group.preset else title,
        "n": len(group.finished),
        "runs": spans(group.run_ids),
        "marks": "",
    }


def spans(ids: Sequence[int]) -> str:
    """Return ids as a person writes them: `1-3, 7`; of many the first, and how many there are."""
    parts: list[list[int]] = []
    for each in sorted(ids):
        if parts and each == parts[-1][-1] + 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    words = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts[:MOST_SPANS]]
    return ", ".join(words) + (f", … ({len(ids):,} in all)" if len(parts) > MOST_SPANS else "")
