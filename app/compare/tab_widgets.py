"""Shared by the Compare tabs: named and styled runs, log toggles, notes on omitted runs, chart tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app.charts.curve_charts import AXES, MOST_NAMED
from app.charts.curve_points import OWN_COLUMNS, metric_of
from app.compare.groups import BANDS, STATISTICS, band_named, groups_of, usual_grouping
from app.compare.lines import Compared
from app.compare.session_state import key_of, one_of, several_of
from app.links.compare import TABS, CompareView
from app.report import page_capture
from app.ui.html import as_text
from engine.analysis.run_values import grouping_names, label
from engine.metrics import metric
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import REPEAT, SEED

MOST_WHOLE = 8
"""Rows up to which a table is as high as they are."""


def log_toggle(view: CompareView, letter: str, words: str) -> CompareView:
    """Show the choice of a logarithmic axis; each tab has its own."""
    on = st.toggle(words, key=key_of(f"log.{view.tab}.{letter}", letter in view.log))
    letters = [each for each in "xy" if (on if each == letter else each in view.log)]
    return replace(view, log="".join(letters))


def show_omitted(found: Compared, ids: Sequence[int], what: str) -> None:
    """Show which runs a chart omits."""
    if ids:
        some = ", ".join(map(str, ids[:MOST_NAMED])) + (
            f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        )
        show_note(f"No {what}: {'run' if len(ids) == 1 else 'runs'} {some}.")


def show_note(sentence: str) -> None:
    """Show a sentence below a chart and in reports; nothing if it is empty."""
    if sentence:
        st.caption(as_text(sentence))
        page_capture.words([sentence])


def table_of(
    name: str, frame: Callable[[], pd.DataFrame], title: str = "", groups: Callable[[], pd.DataFrame] | None = None
) -> None:
    """Show a chart's data as a table with CSV download, created when opened, and above it that of `groups`. A table
    with its own title replaces its chart's data in reports.
    """
    tables = {title or "Values of the runs": frame}
    if groups:
        tables = {"Values of the groups": groups} | tables
    for captured, made in tables.items():
        page_capture.table(captured, made, charted=bool(title), heading=_heading)
    with st.expander("Table", key=f"compare.table.{name}", on_change="rerun") as fold:
        if fold.open:
            for captured, made in tables.items():
                data = made()
                headings = {str(column): _column(_heading(str(column))) for column in data}
                height: int | Literal["auto"] = 320 if len(data) > MOST_WHOLE else "auto"
                st.dataframe(data, column_config=headings, hide_index=True, height=height, alt=captured)


def _column(heading: str) -> Any:
    """Return a column as Streamlit takes it: percentages have two decimals, as everywhere."""
    return st.column_config.NumberColumn(heading, format="%.2f") if heading.endswith(" (%)") else heading


def _heading(column: str) -> str:
    """Return the heading of a column; files keep its name."""
    if column in OWN_COLUMNS:
        return column if len(column) == 1 else column.capitalize()
    return {**AXES, **STATISTICS}.get(column) or (
        label(column) if metric_of(column) == column else metric(metric_of(column)).label
    )


def grouping(view: CompareView, runs: Sequence[RunRow]) -> tuple[CompareView, tuple[str, ...]]:
    """Show the grouping controls and, if runs are grouped, statistic and band; return the view, and the usual grouping
    of its runs, which it keeps until another one is selected.
    """
    fields, usual = grouping_names(runs), usual_grouping(runs)
    key, before = (key_of(name, [*(usual if view.group is None else view.group)]) for name in ("group", "group.usual"))
    if view.group is None and st.session_state[key] == st.session_state[before]:
        st.session_state[key] = [*usual]  # the runs may be others than before
    st.session_state[before] = [*usual]
    apart = [name for name in grouping_names(runs, that_differ=True) if name not in (SEED, REPEAT)]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        known = [*apart, *(name for name in fields if name not in apart)]
        shown = several_of(view, "group", "Group by", known, _field_choice, placeholder="No grouping", width=480)
        if view.group is not None or shown.group != usual:
            view = shown
        if shown.group:
            view = one_of(view, "stat", "Statistic", list(STATISTICS), lambda name: STATISTICS[name], width=200)
            groups = groups_of(runs, shown.group)
            named = partial(band_named, groups=groups, statistic=view.stat)  # type: ignore[arg-type]
            view = one_of(view, "band", "Band", list(BANDS), named, width=340)
    return view, usual


def _field_choice(name: str) -> str:
    """Return a field by its title, and its name in filters and addresses where that differs."""
    return label(name) if label(name) in (name, name.capitalize()) else f"{label(name)} · {name}"


def view_facts(view: CompareView, found: Compared) -> list[tuple[str, str]]:
    """Return the settings of a view in words, without its runs."""
    grouped = bool(found.groups)
    return [
        ("View", TABS[view.tab]),
        ("Filter", view.filter),
        ("Grouped by", ", ".join(map(label, found.fields)) if grouped else ""),
        ("Alone", ", ".join(found.names[run.id] for run in found.runs) if len(found.runs) < len(found.ids) else ""),
        ("Statistic", STATISTICS[view.stat] if grouped else ""),
        ("Band", band_named(view.band, found.groups, view.stat) if grouped else ""),  # type: ignore[arg-type]
        ("Smoothing", f"{view.smooth:g}{_except(view.raw)}" if view.tab == "curves" and not grouped else ""),
    ]


def _except(raw: Sequence[str]) -> str:
    return f", except {', '.join(metric(name).label for name in raw)}" if raw else ""
