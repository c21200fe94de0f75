"""Selecting runs on the Compare page: by id, by filter, or from a table of the newest runs; and warnings about unknown
names in a link.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from app.charts.x_axes import AXES, BYTES, axis_of, metric_of
from app.compare.selection import MOST_RUNS
from app.compare.session_state import key_of, runs_field, show
from app.core.formatting import moment
from app.links.compare import CompareView
from app.ui.run_state import outcome
from app.ui.widgets import FILTER_EXAMPLE, FILTER_HELP, title_of
from engine.analysis.run_values import field_names, metric_names, names, resolved
from engine.filter.syntax import LONGEST
from engine.store import Reader
from engine.store.records import ENDED, RunRow, Status

NEWEST = 100
BEGUN: tuple[Status, ...] = ("running", "stopping", *ENDED)
ROW_PX = 33


def choice(view: CompareView) -> tuple[CompareView, list[str]]:
    """Show the run fields; return the updated view, and an error message for each invalid part."""
    view, wrong = runs_field(view)
    help_text = f"Compares all matching runs, re-evaluated each time the link is opened. {FILTER_HELP}"
    text = st.text_input(
        "Filter", key=key_of("filter", view.filter), placeholder=FILTER_EXAMPLE, max_chars=LONGEST, help=help_text
    )
    return replace(view, filter=text.strip()), wrong


def chooser(reader: Reader, view: CompareView, key: str) -> None:
    """Show the newest runs with recorded values for selection; the button adds the selected ones to the comparison."""
    newest = _listed(reader, key)
    if not newest:
        st.write("No run has recorded values yet.")
        return
    frame = pd.DataFrame(
        {
            "run": [run.id for run in newest],
            "what": [title_of(run) for run in newest],
            "owner": [run.owner for run in newest],
            "status": [outcome(run)[1] for run in newest],
            "launched": [moment(run.created_at) for run in newest],
        }
    )
    columns = {
        "run": st.column_config.NumberColumn("Run", width=60, format="%d"),
        "what": st.column_config.TextColumn("Title", width=260),
        "owner": st.column_config.TextColumn("Owner", width=110),
        "status": st.column_config.TextColumn("Status", width=90),
        "launched": st.column_config.DatetimeColumn("Launched (UTC)", format="distance", timezone="UTC", width=120),
    }
    height = min(10, len(newest) + 1) * ROW_PX + 2
    ticked = st.dataframe(
        frame, column_config=columns, hide_index=True, height=height, row_height=ROW_PX, key=key, on_select="rerun", selection_mode="multi-row",  # noqa: E501
        alt=f"The newest {len(newest)} runs",
    ).selection.rows  # fmt: skip
    ids = sorted({*view.runs, *(newest[row].id for row in ticked if row < len(newest))})
    verb = "Add" if view.runs else "Compare"
    if st.button(
        f"{verb} {len(ticked)} run{'s' * (len(ticked) > 1)}" if ticked else f"Select runs to {verb.lower()}",
        key=f"{key}.add",
        disabled=not ticked,
        type="primary",
    ):
        show(replace(view, runs=tuple(ids[-10 * MOST_RUNS :])))
        st.rerun()


def _listed(reader: Reader, key: str) -> list[RunRow]:
    """Return the newest runs with recorded values; those listed before while some are ticked, since ticks are rows."""
    before: list[int] = st.session_state.get(f"{key}.listed", [])
    if before and (state := st.session_state.get(key)) and state.selection.rows:
        return reader.runs.some(before)
    newest = [run for run in reader.runs.find(statuses=BEGUN, limit=NEWEST) if run.last]
    st.session_state[f"{key}.listed"] = [run.id for run in newest]
    return newest


def with_known_names(view: CompareView, runs: Sequence[RunRow]) -> tuple[CompareView, list[str]]:
    """Return the view with its numbers spelled as the runs have them, and a warning for each name that none has."""
    metrics, every = set(metric_names(runs)), set(names(runs))
    number, against, *axes = (resolved(name, every) for name in (view.number, view.against, *view.axes))
    x = view.x if view.x in {"", BYTES, *AXES} else axis_of(metric_of(view.x))
    view = replace(view, x=x, number=number, against=against, axes=tuple(axes))
    asked = [("metric", name) for name in view.metrics if name not in metrics]
    asked += [("axis", view.x)] if x not in {"", BYTES, *AXES, *map(axis_of, metrics)} else []
    asked += [("field", name) for name in view.group or () if name not in field_names(runs)]
    asked += [("number", name) for name in (number, against, *axes) if name and name not in every]
    return view, [f"No {kind} '{name[:60]}' in these runs; ignored." for kind, name in asked]
