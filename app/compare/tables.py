"""Compare's tables, its tab Differences, and its timelines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import streamlit as st

from app.compare.session_state import key_of
from app.compare.tab_widgets import Compared
from app.core.formatting import duration
from app.links.compare import CompareView
from app.report import page_capture
from app.ui import components
from app.ui.html import as_text, run_link, table, when
from app.ui.run_state import outcome
from app.ui.widgets import title_of
from engine.analysis import differences as apart
from engine.analysis.differences import MISSING, Row
from engine.analysis.run_values import setting_title
from engine.config_values import field_title, value_in_words
from engine.registry import experiment_title
from engine.store import Reader
from engine.store.records import ENDED, RunRow
from engine.transfer.tables import Table

# ---- Tables of the Compare page: the compared runs and their differences -------------------------------------------


def runs_table(runs: Sequence[RunRow], groups: Mapping[int, str]) -> str:
    """Return a row for each run, with its group if runs are grouped."""
    headers = ["Run", "Title", "Owner", "Status", "Execution", "Launched", *(["Group"] if groups else [])]
    rows = [
        [
            run_link(str(run.id), run.id),
            title_of(run),
            run.owner,
            outcome(run)[1],
            duration(run.elapsed_s),
            when(run.created_at),
            *([groups.get(run.id, "")] if groups else []),
        ]
        for run in runs
    ]
    return table(headers, rows, caption="Compared runs")


def differences_table(
    rows: Sequence[Row], runs: Sequence[RunRow], caption: str, titled: Callable[[str], str] = setting_title
) -> str:
    """Return a row for each field and a column for each run."""
    body = [[titled(row.name), *(_value(value) for value in row.values)] for row in rows]
    return table(["Field", *_heads(runs)], body, caption=caption)


def differences_frame(
    rows: Sequence[Row], runs: Sequence[RunRow], titled: Callable[[str], str] = setting_title
) -> Table:
    """Return the differences as plain values, fields with title and name; None if a run has no such field."""
    values = [[None if value is MISSING else value for value in row.values] for row in rows]
    cells = [[titled(row.name), row.name, *held] for row, held in zip(rows, values, strict=True)]
    return Table(("title", "field", *_heads(runs)), cells)


def _heads(runs: Sequence[RunRow]) -> list[str]:
    return [f"{run.id}: {experiment_title(run.experiment)}" for run in runs]


def _value(value: object) -> str:
    return "–" if value is MISSING else value_in_words(value)


# ---- The Differences tab of the Compare page: tables of differing config and environment fields --------------------


def differences(reader: Reader, found: Compared, view: CompareView) -> CompareView:
    """Show the config and environment fields in which the runs differ, first those that all of them have."""
    same = st.toggle("Show equal fields", key=key_of("same", view.same))
    environments = reader.multi_run.environments([run.id for run in found.runs])
    without = [
        {name: held for name, held in environments.get(run.id, {}).items() if name != "boot_id"} for run in found.runs
    ]
    for title, titled, rows in (
        ("Config", setting_title, apart.rows([{"seeding": run.seeding, **run.config} for run in found.runs])),
        ("Environment", field_title, apart.rows(without)),
    ):
        st.header(title, anchor=False)
        shown = sorted((row for row in rows if row.differs or same), key=lambda row: MISSING in row.values)
        equal = sum(not row.differs for row in rows)
        if shown:
            st.html(differences_table(shown, found.runs, f"{title} of the runs", titled))
            page_capture.table(
                f"{title} of the runs",
                differences_frame(shown, found.runs, titled),
                heading=lambda name: f"{name[:1].upper()}{name[1:]}",
            )
        said = (
            f"{equal} {'field is' if equal == 1 else 'fields are'} equal in all {len(found.runs)} runs"
            if rows
            else "Nothing recorded"
        )
        signs = " A dash (–): the run has no such setting; none: it is empty." if shown else ""
        st.caption(f"{said}{'' if same or not equal else ', and hidden'}.{signs}")
        page_capture.words([f"{title}: {said}."])
    return replace(view, same=same)


# ---- The timelines of the compared runs, one below the other -------------------------------------------------------

MOST = 4
"""Timelines shown at a time; each has its own stretch and zoom."""


def timelines(runs: Sequence[RunRow], reader: Reader) -> None:
    """Show the timelines of the first runs that have one."""
    recorded = [run for run in runs if reader.traces.newest(run.id)]
    if not recorded:
        st.write("None of these runs has recorded operations: they ended before their ranks were ready, or are older.")
        return
    for run in recorded[:MOST]:
        st.html(run_link(f"{run.id}: {title_of(run)}", run.id))
        components.timeline(run.id, len(reader.details.ranks(run.id)), active=run.status not in ENDED)
    if len(recorded) > MOST:
        st.caption(as_text(f"The first {MOST} of {len(recorded)} runs with recorded operations are shown."))
