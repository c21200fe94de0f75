"""The results table: one row a run, with what was asked, what it took, and the last and best of each metric."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.durations import moment
from app.parts import title_of
from engine.metrics import metric
from engine.registry import EXPERIMENTS, experiment
from engine.store.records import RunRow

APART = ("perf/execution_time_s", "perf/startup_time_s")
"""Metrics that have a column of their own."""


def table(runs: Sequence[RunRow], settings: Sequence[str]) -> pd.DataFrame:
    """Return the rows, newest first; `settings` are the config fields that get a column."""
    names = metric_names(runs)
    with_sweep = any(run.sweep_id for run in runs)
    return pd.DataFrame([_row(run, names, settings) | (_sweep(run) if with_sweep else {}) for run in runs])


def metric_names(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics that any of the runs recorded, tests first."""
    found = {name for run in runs for name in run.last} - set(APART)
    return sorted(found, key=lambda name: (not name.startswith("test/"), metric(name).better != "max", name))


def setting_names(runs: Sequence[RunRow]) -> list[str]:
    """Return the config fields of the runs' experiments, in the order of their forms."""
    known = [name for one in EXPERIMENTS for name in experiment(one).config.model_fields]
    found = {name for run in runs for name in run.config}
    return [name for name in dict.fromkeys(known) if name in found] + sorted(found - set(known))


def columns(runs: Sequence[RunRow]) -> dict[str, Any]:
    """Return how each column of the table is shown."""
    shown: dict[str, Any] = {
        "run": st.column_config.NumberColumn("Run", width=60, format="%d", pinned=True),
        "title": st.column_config.TextColumn("What", width=200),
        "owner": st.column_config.TextColumn("Owner", width=110),
        "status": st.column_config.TextColumn("Status", width="small"),
        "progress": st.column_config.ProgressColumn("Progress", min_value=0, max_value=1, format="percent", width="small"),
        "launched": st.column_config.DatetimeColumn("Launched", format="distance", width=120),
        "execution": st.column_config.NumberColumn("Execution (s)", format="%.2f", help=metric(APART[0]).help),
        "startup": st.column_config.NumberColumn("Start-up (s)", format="%.2f", help=metric(APART[1]).help),
        "tags": st.column_config.ListColumn("Tags"),
    }
    if any(run.sweep_id for run in runs):
        shown["sweep"] = st.column_config.LinkColumn("Sweep", width=70, display_text=r"sweep=(\d+)$", help="The sweep that the run is part of.")
    for name in metric_names(runs):
        known = metric(name)
        unit = f" ({known.unit})" if known.unit else ""
        shown[f"{name} last"] = st.column_config.NumberColumn(f"{known.label}, last{unit}", format="%.5g", help=known.help)
        shown[f"{name} best"] = st.column_config.NumberColumn(f"{known.label}, best{unit}", format="%.5g", help=known.help)
    return shown


def _row(run: RunRow, names: Sequence[str], settings: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run": run.id,
        "title": title_of(run),
        "owner": run.owner,
        "status": run.status,
        "progress": run.progress,
        "launched": moment(run.created_at),
    }
    for name in names:
        found[f"{name} last"] = run.last.get(name)
        if metric(name).better:
            found[f"{name} best"] = run.best.get(name)
    found |= {"execution": run.execution_time_s, "startup": run.startup_time_s}
    for name in settings:
        value = run.config.get(name)
        found[name] = value if isinstance(value, int | float | None) else str(value)
    return found | {"tags": list(run.tags)}


def _sweep(run: RunRow) -> dict[str, Any]:
    return {"sweep": f"/sweep?sweep={run.sweep_id}" if run.sweep_id else None}
