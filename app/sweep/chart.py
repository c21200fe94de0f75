"""The chart of a sweep with its choice of number, and the table beneath it."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from app.charts.sweep_charts import HEIGHT_PX, chart
from app.charts.sweep_data import (
    EXECUTION,
    Lines,
    axis,
    experiment_of,
    explained,
    groups_of,
    is_numeric,
    key_of,
    metric_choices,
    rank_groups_of,
    references,
    way_of,
)
from app.report import page_capture
from app.ui import components
from app.ui.config_form import label_of
from app.ui.html import as_text, number, table
from engine.analysis.statistics.groups import Group
from engine.analysis.sweep_cells import newest
from engine.config_values import value_in_words
from engine.metrics import metric
from engine.store import Reader, Sweep
from engine.store.records import RunRow
from engine.transfer.tables import Table


def results(sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> None:
    """Show one number of the finished runs against the first field, and the same in a table; the choice stands in the
    address.
    """
    choices = metric_choices(runs)
    name = (
        st.selectbox("Number", choices, key="number", format_func=_label, bind="query-params", width=320) or EXECUTION
    )
    by_rank = name in _rank_metrics(sweep)
    groups = rank_groups_of(sweep, runs, name, reader) if by_rank else groups_of(sweep, runs, name)
    if not groups:
        st.write(
            "The first point appears when a run has finished."
            if sweep.active
            else "No run of this sweep finished, so there is nothing to draw."
        )
        return
    lines, lacking = references(sweep, runs, name, reader)
    picture, colours = chart(groups, name, sweep, _axis_title(sweep), lines)
    components.figure(
        f"sweep-{sweep.id}-{name}",
        picture,
        alt=f"{metric(name).label} against {sweep.fields[0]}",
        height=HEIGHT_PX,
        colours=colours,
    )
    sentences = _captions(sweep, groups, name, [explained(sweep)] if lines else [], lacking, by_rank)
    for sentence in sentences:
        st.caption(as_text(sentence))
    page_capture.words(sentences)
    rows = _rows(sweep, runs, groups, name, lines, by_rank)
    st.html(_table(rows, name, len(sweep.fields) + by_rank))
    page_capture.table(metric(name).label, rows)


def _captions(
    sweep: Sweep, groups: Sequence[Group], name: str, of_lines: list[str], lacking: str, by_rank: bool
) -> list[str]:
    said = []
    if sweep.draw and len(sweep.fields) > 1:
        said.append("Each mark is one combination, the mean over its seeds; its other values stand in the table.")
    elif any(len(group.values) > 1 for group in groups):
        said.append(
            "Lines join means over seeds; small marks are single runs, and the band reaches from the lowest to "
            "the highest."
        )
    if by_rank:
        said.append("Of each rank the highest value in a run counts.")
    elif way_of(name):
        said.append(f"{_label(name)}: {way_of(name)}.")
    return said + of_lines + ([lacking] if lacking else [])


def _table(found: Table, name: str, keys: int) -> str:
    """Return the rows as HTML; the first `keys` columns say which they are, then comes how many finished, then what was
    measured.
    """
    rows = [
        [*(escape(value_in_words(value)) for value in row[:keys]), row[keys], *map(number, row[keys + 1 :])]
        for row in found.rows
    ]
    return table(found.columns, rows, caption=f"{metric(name).label} of the sweep")


def _rows(
    sweep: Sweep, runs: Sequence[RunRow], groups: Sequence[Group], name: str, lines: Lines, by_rank: bool
) -> Table:
    """Return a row for each combination that has a finished run, with the reference lines' values where
    there are some.
    """
    unit = metric(name).unit
    labels = list(dict.fromkeys(line.label for found in lines.values() for line in found))
    words = ("Mean", "Lowest", "Highest", *(label.capitalize() for label in labels))
    headers = [
        *sweep.fields,
        *(["rank"] if by_rank else []),
        "Finished runs",
        *(f"{word} ({unit})" if unit else word for word in words),
    ]
    places: dict[object, int] = {value: place for place, value in enumerate(axis(sweep))} if lines else {}
    totals: dict[tuple[object, ...], int] = {}
    for run in newest(sweep, runs):
        totals[key_of(sweep, run)] = totals.get(key_of(sweep, run), 0) + 1
    rows = []
    for group in groups:
        known = {line.label: line.times_s for line in lines.get(group.key[1:], [])}
        rows.append(
            [
                *(value if is_numeric([value]) else value_in_words(value) for value in group.key),
                f"{len(group.values)} of {totals.get(group.key[: len(sweep.fields)], 0)}",
                *(group.mean, group.low, group.high),
                *(known[label][places[group.key[0]]] if label in known else None for label in labels),
            ]
        )
    return Table.of(headers, rows)


def _rank_metrics(sweep: Sweep) -> tuple[str, ...]:
    known = experiment_of(sweep)
    return known.scaling.rank_metrics if known and known.scaling else ()


def _axis_title(sweep: Sweep) -> str:
    known, field = experiment_of(sweep), sweep.fields[0]
    fields = known.config.model_fields if known else {}
    return label_of(field, fields[field]) if field in fields else field


def _label(name: str) -> str:
    known = metric(name)
    return f"{known.label} ({known.unit})" if known.unit else known.label
